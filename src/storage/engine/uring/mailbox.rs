//! How work reaches a ring's thread: a queue, and a bell that is rung only when the thread sleeps.

use crate::sync::{AtomicBool, Mutex, Ordering, lock};

#[derive(Debug)]
pub(super) struct Mailbox<T> {
    /// Absent once the box is closed.
    letters: Mutex<Option<Vec<T>>>,
    /// The thread sleeps, or is about to: it has looked into the box for the last time.
    asleep: AtomicBool,
}

impl<T> Mailbox<T> {
    pub(super) fn new() -> Self {
        Self { letters: Mutex::new(Some(Vec::new())), asleep: AtomicBool::new(false) }
    }

    /// Leaves a letter, and says whether the bell must be rung; gives it back where the box is closed.
    pub(super) fn post(&self, letter: T) -> Result<bool, T> {
        match &mut *lock(&self.letters) {
            Some(letters) => letters.push(letter),
            None => return Err(letter),
        }
        Ok(self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst))
    }

    /// Takes all letters, into an empty vector.
    pub(super) fn empty_into(&self, letters: &mut Vec<T>) {
        if let Some(posted) = &mut *lock(&self.letters) {
            std::mem::swap(posted, letters);
        }
    }

    /// Closes the box if it is empty; whether it is closed.
    pub(super) fn close_if_empty(&self) -> bool {
        let mut letters = lock(&self.letters);
        if letters.as_ref().is_some_and(|letters| !letters.is_empty()) {
            return false;
        }
        *letters = None;
        true
    }

    /// Closes the box and takes what is left in it.
    pub(super) fn close(&self) -> Vec<T> {
        lock(&self.letters).take().unwrap_or_default()
    }

    /// Whether the thread may sleep now. If so, the next letter rings the bell.
    pub(super) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        if lock(&self.letters).as_ref().is_none_or(Vec::is_empty) {
            return true;
        }
        self.asleep.store(false, Ordering::SeqCst);
        false
    }

    /// The thread is awake again.
    pub(super) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(all(test, forebay_loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Condvar};

    /// A sleeper and two senders: whatever the order, the sleeper gets both letters, and never sleeps through one.
    #[test]
    fn loom_no_letter_is_slept_through() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::new());
            let bell = Arc::new((Mutex::new(0_u32), Condvar::new()));
            let senders: Vec<_> = (0..2)
                .map(|letter| {
                    let (mailbox, bell) = (Arc::clone(&mailbox), Arc::clone(&bell));
                    loom::thread::spawn(move || {
                        if mailbox.post(letter) == Ok(true) {
                            *lock(&bell.0) += 1;
                            bell.1.notify_one();
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
                    let mut rung = lock(&bell.0);
                    while *rung == 0 {
                        rung = bell.1.wait(rung).expect("no panic");
                    }
                    *rung -= 1;
                    mailbox.awake();
                }
            }
            senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
        });
    }
}
