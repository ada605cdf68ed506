//! What is to be asked of cuFile next: pieces that go on, then pieces of the jobs in turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::error::CuFileFault;
use super::job::Job;
use super::transfer::{Ask, Next, Piece};
use crate::sync::lock;
use crate::sys::cufile::Answer;

/// A piece under way, with the job that it keeps alive.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) job: Arc<Mutex<Job>>,
    pub(super) piece: Piece,
}

impl Flight {
    pub(super) fn ask(&self) -> Option<Ask> {
        lock(&self.job).ask(&self.piece)
    }

    /// Ends the flight, and with it the job, with a fault.
    pub(super) fn fail(self, fault: CuFileFault) {
        lock(&self.job).fail(self.piece.index, self.piece.at, fault);
    }

    /// Ends the flight with a fault though cuFile may still be at it: its memory is never used again.
    pub(super) fn lose(self, why: &str) {
        lock(&self.job).leak(&self.piece);
        self.fail(CuFileFault::Lost(why.into()));
    }
}

#[derive(Debug)]
pub(super) struct Backlog {
    /// Jobs with pieces to begin.
    jobs: VecDeque<Arc<Mutex<Job>>>,
    again: VecDeque<Flight>,
    later: Vec<(Instant, Flight)>,
    /// The most bytes of a piece.
    most: u64,
}

impl Backlog {
    pub(super) fn new(most: u64) -> Self {
        Self { jobs: VecDeque::new(), again: VecDeque::new(), later: Vec::new(), most }
    }

    pub(super) fn add(&mut self, job: Job) {
        self.jobs.push_back(Arc::new(Mutex::new(job)));
    }

    /// Whether nothing is left to begin or to go on with.
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.again.is_empty() && self.later.is_empty()
    }

    /// When the first of the pieces that wait is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.later.iter().map(|&(when, _)| when).min()
    }

    /// The next flight; each time of another job, so that a long one does not hold up the short ones. Jobs that have
    /// nothing more to begin go to `over`, to be dropped by the caller when it holds no lock: whoever hears of their end
    /// may come back here.
    pub(super) fn next(&mut self, over: &mut Vec<Arc<Mutex<Job>>>) -> Option<Flight> {
        let now = Instant::now();
        while let Some(due) = self.later.iter().position(|&(when, _)| when <= now) {
            self.again.push_back(self.later.swap_remove(due).1);
        }
        while let Some(flight) = self.again.pop_front() {
            if lock(&flight.job).is_alive() {
                return Some(flight);
            }
            over.push(flight.job);
        }
        while let Some(job) = self.jobs.pop_front() {
            let mut state = lock(&job);
            let begun = state.begin(self.most);
            let more = !state.is_begun();
            drop(state);
            let Some(piece) = begun else {
                over.push(job);
                continue;
            };
            if more {
                self.jobs.push_back(Arc::clone(&job));
            }
            return Some(Flight { job, piece });
        }
        None
    }

    /// Takes the answer to a flight: it goes on from here, or is over.
    pub(super) fn answered(&mut self, mut flight: Flight, answer: Answer) {
        let next = lock(&flight.job).answer(&mut flight.piece, answer);
        match next {
            Next::Read => self.again.push_back(flight),
            Next::Later(pause) => self.later.push((Instant::now() + pause, flight)),
            Next::Done => {}
            Next::Failed(fault, at) => lock(&flight.job).fail(flight.piece.index, at, fault),
        }
    }
}
