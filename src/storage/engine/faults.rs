//! Faults for tests: answers that are shortened, refused, delayed and reordered, and submissions that are refused.

use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::Duration;

use crate::sync::lock;

/// What may go wrong, each with its chance in 256: 256 is always.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chances {
    pub(crate) short: u16,
    /// Shortened answers are multiples of this, and at least as much.
    pub(crate) short_align: u32,
    pub(crate) eagain: u16,
    pub(crate) eintr: u16,
    pub(crate) refused_submission: u16,
    /// Every submission after this many is refused.
    pub(crate) refused_after: Option<u64>,
    pub(crate) delay: u16,
    /// The nth answer is this error number instead.
    pub(crate) nth: Option<(u64, i32)>,
    /// What the first read of every ring is answered.
    pub(crate) first_read: Option<i32>,
    /// What the bell of every ring is answered.
    pub(crate) bell: Option<i32>,
    /// The ring of this number breaks with its first submission.
    pub(crate) broken_ring: Option<u32>,
    /// Every answer waits this long.
    pub(crate) slow: Duration,
}

#[derive(Debug)]
pub(crate) struct Faults {
    chances: Chances,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: u64,
    answers: u64,
    submissions: u64,
}

impl Faults {
    pub(crate) fn new(chances: Chances, seed: u64) -> Self {
        Self { chances, state: Mutex::new(State { random: seed | 1, answers: 0, submissions: 0 }) }
    }

    /// The answer to pass on, and how long to hold it. What a shortened answer leaves out is poisoned, as if the
    /// kernel had not written it.
    pub(crate) fn answer(&self, answer: i32, landing: NonNull<u8>) -> (i32, Duration) {
        let mut state = lock(&self.state);
        state.answers += 1;
        let chances = &self.chances;
        let mut delay = chances.slow;
        if state.happens(chances.delay) {
            delay += Duration::from_micros(u64::from(state.next() as u16) / 32);
        }
        if let Some((n, errno)) = chances.nth
            && n == state.answers
        {
            return (-errno, delay);
        }
        if answer <= 0 {
            return (answer, delay);
        }
        let poison = |from: i32| {
            for at in from..answer {
                // SAFETY: the kernel has just reported `answer` bytes at `landing`, inside a slot of a live job.
                unsafe { landing.add(at as usize).write(0xee) };
            }
        };
        if state.happens(chances.eagain) {
            poison(0);
            return (-nix::libc::EAGAIN, delay);
        }
        if state.happens(chances.eintr) {
            poison(0);
            return (-nix::libc::EINTR, delay);
        }
        let align = chances.short_align.max(1) as i32;
        if state.happens(chances.short) && answer > align {
            let short = (state.next() as i32 & i32::MAX) % answer / align * align;
            let short = short.max(align);
            poison(short);
            return (short, delay);
        }
        (answer, delay)
    }

    pub(crate) fn first_read(&self) -> Option<i32> {
        self.chances.first_read
    }

    pub(crate) fn bell(&self) -> Option<i32> {
        self.chances.bell
    }

    /// The error number that a submission to the ring of that number fails with.
    pub(crate) fn submission(&self, ring: u32) -> Option<i32> {
        if self.chances.broken_ring == Some(ring) {
            return Some(nix::libc::EBADF);
        }
        let mut state = lock(&self.state);
        state.submissions += 1;
        if self.chances.refused_after.is_some_and(|after| state.submissions > after) {
            return Some(nix::libc::EAGAIN);
        }
        state.happens(self.chances.refused_submission).then_some(match state.next() % 3 {
            0 => nix::libc::EAGAIN,
            1 => nix::libc::EBUSY,
            _ => nix::libc::EINTR,
        })
    }

    pub(crate) fn shuffle<T>(&self, answers: &mut [T]) {
        let mut state = lock(&self.state);
        for i in (1..answers.len()).rev() {
            answers.swap(i, (state.next() % (i as u64 + 1)) as usize);
        }
    }
}

impl State {
    /// A xorshift: any will do, if it is the same for the same seed.
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 8
    }

    fn happens(&mut self, chance: u16) -> bool {
        u16::from(self.next() as u8) < chance
    }
}
