//! Transfers that are waited for together.
//!
//! The memory rule of the storage floor holds here, too: a job owns its handles and registrations, whoever asks cuFile
//! for a piece of it holds the job, and lets go only when cuFile has answered. The waiter hears of it when the last has
//! let go, and by then nothing writes to the memory any more.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use super::error::{CuFileFault, TransferFault};
use super::transfer::{Ask, Next, Piece, Transfer};
use crate::sys::cufile::Answer;

/// What a job brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Landed {
    /// Bytes that cuFile says it has read, those beyond the needed ones and those read twice included.
    pub bytes: u64,
    /// Answers of cuFile.
    pub answers: u64,
}

type Outcome = Result<Landed, TransferFault>;

/// Transfers for a form of reading to carry out.
#[derive(Debug)]
pub(crate) struct Job {
    transfers: Vec<Transfer>,
    /// The next piece to begin: of which transfer, and from where in it.
    next: (usize, u64),
    /// Needed bytes that have not landed.
    left: u64,
    landed: Landed,
    failure: Option<TransferFault>,
    waiter: Option<oneshot::Sender<Outcome>>,
    /// What must live until the last answer.
    held: Option<Arc<dyn Any + Send + Sync>>,
}

impl Job {
    /// A job of some transfers, and who waits for it. If that one is dropped, no further pieces begin; those under way
    /// are awaited all the same.
    pub(crate) fn new(transfers: Vec<Transfer>) -> (Self, Waiter) {
        let (waiter, outcome) = oneshot::channel();
        let left = transfers.iter().map(Transfer::need).sum();
        let job = Self {
            transfers,
            next: (0, 0),
            left,
            landed: Landed::default(),
            failure: None,
            waiter: Some(waiter),
            held: None,
        };
        (job, Waiter(outcome))
    }

    /// Holds on to something until the last answer, such as the loan of the memory that is read into.
    pub(crate) fn holding(mut self, what: Arc<dyn Any + Send + Sync>) -> Self {
        self.held = Some(what);
        self
    }

    pub(super) fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// Whether pieces may still begin.
    pub(super) fn is_alive(&self) -> bool {
        self.failure.is_none() && self.waiter.as_ref().is_some_and(|waiter| !waiter.is_closed())
    }

    /// Begins the next piece, of at most `most` bytes.
    pub(super) fn begin(&mut self, most: u64) -> Option<Piece> {
        if !self.is_alive() {
            return None;
        }
        self.skip_done();
        let piece = self.transfers.get(self.next.0)?.piece(self.next.0, self.next.1, most)?;
        self.next.1 = piece.range.end;
        self.skip_done();
        Some(piece)
    }

    /// Moves on to the next transfer of which something is needed that has not begun.
    fn skip_done(&mut self) {
        while self.transfers.get(self.next.0).is_some_and(|transfer| self.next.1 >= transfer.need()) {
            self.next = (self.next.0 + 1, 0);
        }
    }

    /// Whether every piece has begun.
    pub(super) fn is_begun(&self) -> bool {
        self.next.0 >= self.transfers.len()
    }

    /// The read that a piece asks for now. `None` for a piece of another job.
    pub(super) fn ask(&self, piece: &Piece) -> Option<Ask> {
        Some(self.transfers.get(piece.index)?.ask(piece))
    }

    /// Takes the answer to it, and says what follows.
    pub(super) fn answer(&mut self, piece: &mut Piece, answer: Answer) -> Next {
        let next = piece.answer(answer);
        self.landed.answers += 1;
        if let (Answer::Bytes(bytes), Next::Read | Next::Done) = (answer, &next) {
            self.landed.bytes += bytes;
        }
        if matches!(next, Next::Done) {
            self.left = self.left.saturating_sub(piece.need - piece.range.start);
        }
        next
    }

    /// Ends the job with a fault, at an offset of one of its transfers. The first one counts.
    pub(super) fn fail(&mut self, index: usize, at: u64, fault: CuFileFault) {
        let at = self.transfers.get(index).map_or(at, |transfer| transfer.in_file(at));
        self.failure.get_or_insert(TransferFault { index, at, fault });
    }

    /// Keeps the memory and the file of a piece for ever, as cuFile may still be at it.
    pub(super) fn leak(&self, piece: &Piece) {
        std::mem::forget((self.transfers.get(piece.index).cloned(), self.held.clone()));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        let outcome = match self.failure.take() {
            Some(fault) => Err(fault),
            None if self.left == 0 => Ok(self.landed),
            None => {
                let (index, at) = (self.next.0.min(self.transfers.len().saturating_sub(1)), self.next.1);
                let at = self.transfers.get(index).map_or(at, |transfer| transfer.in_file(at));
                Err(TransferFault { index, at, fault: CuFileFault::Closed })
            }
        };
        // Before the waiter hears, so that what it lets go of next is let go of for good.
        self.transfers.clear();
        self.held = None;
        let _ = waiter.send(outcome);
    }
}

/// Waits for a job.
#[derive(Debug)]
#[must_use = "a job that nobody waits for is given up"]
pub(crate) struct Waiter(oneshot::Receiver<Outcome>);

impl Future for Waiter {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.0).poll(task).map(|heard| {
            // A job always says how it ended, were it in its drop.
            heard.unwrap_or(Err(TransferFault { index: 0, at: 0, fault: CuFileFault::Closed }))
        })
    }
}

impl Waiter {
    /// Waits on this thread.
    pub(crate) fn wait(self) -> Outcome {
        // Inside a tokio task, its budget may be used up, and nothing here yields to renew it.
        pollster::block_on(unconstrained(self))
    }
}
