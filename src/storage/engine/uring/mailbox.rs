//! How work reaches a ring's thread: a queue, and a bell that is rung only when the thread sleeps.

use crate::sync::checked::{Mutex, lock};

#[derive(Debug)]
pub(super) struct Mailbox<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    letters: Vec<T>,
    /// The thread sleeps, or is about to: it has looked into the box for the last time.
    asleep: bool,
    closed: bool,
}

impl<T> Mailbox<T> {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(State { letters: Vec::new(), asleep: false, closed: false }) }
    }

    /// Leaves a letter, and says whether the bell must be rung; gives it back where the box is closed.
    pub(super) fn post(&self, letter: T) -> Result<bool, T> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(letter);
        }
        state.letters.push(letter);
        Ok(std::mem::take(&mut state.asleep))
    }

    /// Takes all letters, into an empty vector. Whoever looks is awake.
    pub(super) fn empty_into(&self, letters: &mut Vec<T>) {
        let mut state = lock(&self.state);
        state.asleep = false;
        std::mem::swap(&mut state.letters, letters);
    }

    /// Whether the thread may sleep now. If so, the next letter rings the bell.
    pub(super) fn may_sleep(&self) -> bool {
        let mut state = lock(&self.state);
        state.asleep = state.letters.is_empty();
        state.asleep
    }

    /// Closes the box if it is empty; whether it is closed.
    pub(super) fn close_if_empty(&self) -> bool {
        let mut state = lock(&self.state);
        state.closed |= state.letters.is_empty();
        state.closed
    }

    /// Closes the box and takes what is left in it.
    pub(super) fn close(&self) -> Vec<T> {
        let mut state = lock(&self.state);
        state.closed = true;
        std::mem::take(&mut state.letters)
    }
}

#[cfg(all(test, forebay_loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Notify};

    /// A sleeper and two senders: whatever the order, the sleeper gets both letters, and never sleeps through one.
    #[test]
    fn loom_no_letter_is_slept_through() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let mailbox = Arc::new(Mailbox::new());
            let bell = Arc::new(Notify::new());
            let senders: Vec<_> = (0..2)
                .map(|letter| {
                    let (mailbox, bell) = (Arc::clone(&mailbox), Arc::clone(&bell));
                    loom::thread::spawn(move || {
                        if mailbox.post(letter) == Ok(true) {
                            bell.notify();
                        }
                    })
                })
                .collect();
            let mut received = 0;
            while received < 2 {
                let mut letters = Vec::new();
                mailbox.empty_into(&mut letters);
                received += letters.len();
                if received < 2 && mailbox.may_sleep() {
                    bell.wait();
                }
            }
            senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
        });
    }
}
