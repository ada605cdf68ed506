//! Reads in the order of a CUDA stream of our own: one thread has many under way at once.

mod lane;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::lane::Lane;
use super::backlog::{Backlog, Flight};
use super::context::Context;
use super::error::{CuFileError, CuFileFault, Group};
use super::form::{Emptied, Form, Inbox, Naps, admit, close_and_wait};
use super::job::Job;
use super::library::CuFile;
use super::threads::start;
use crate::sync::Threads;

/// The most reads under way: cuFile has been seen to fail with 134 and more.
const DEPTH: usize = 64;

/// A thread that reads on a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    cufile: Arc<CuFile>,
    context: Context,
    inbox: Arc<Inbox>,
    threads: Arc<Threads>,
}

impl Stream {
    /// Starts the thread, with `context` current, and registers a stream with cuFile.
    ///
    /// # Errors
    /// Where cuFile has no stream reads, or refuses the stream.
    pub(crate) fn new(cufile: &Arc<CuFile>, context: &Context) -> Result<Self, CuFileError> {
        cufile.check_process()?;
        let calls = cufile.calls.stream.as_ref().filter(|_| cufile.properties().streams);
        let calls = calls.ok_or(CuFileError::Lacks(Group::Stream))?;
        let backlog = Backlog::new(cufile.properties().max_direct_io);
        let inbox = Arc::<Inbox>::default();
        let form = Self {
            cufile: Arc::clone(cufile),
            context: context.clone(),
            inbox: Arc::clone(&inbox),
            threads: Arc::default(),
        };
        let context = context.clone();
        start(
            &form.threads,
            "forebay-gds-stream".into(),
            move || {
                context.bind()?;
                let lane = Lane::new(calls, context, DEPTH)?;
                Ok(Worker { lane, flying: VecDeque::with_capacity(DEPTH), backlog, inbox: Emptied(inbox) })
            },
            |mut worker| worker.work(),
        )?;
        Ok(form)
    }
}

impl Form for Stream {
    fn take(&self, job: Job) {
        if let Some(job) = admit(job, &self.cufile, &self.context) {
            self.inbox.post(job);
        }
    }

    fn close(&self) {
        if self.cufile.is_ours() {
            self.inbox.close();
        }
    }

    fn ended_by(&self, until: Option<Instant>) -> bool {
        !self.cufile.is_ours() || self.threads.ended_by(until)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !close_and_wait(self, &self.threads, &self.cufile) {
            self.inbox.hurry();
        }
    }
}

#[derive(Debug)]
struct Worker {
    lane: Lane,
    /// In the order of the stream.
    flying: VecDeque<Flight>,
    backlog: Backlog,
    // After the flights: their jobs are over when it is closed.
    inbox: Emptied,
}

impl Worker {
    fn work(&mut self) {
        /// How long what is under way is awaited when nobody waits for the end any longer.
        const LAST_WAIT: Duration = Duration::from_secs(30);
        let mut naps = Naps::new();
        let mut wait = None;
        let mut hurried = None;
        loop {
            let letters = self.inbox.0.empty(wait);
            letters.jobs.into_iter().for_each(|job| self.backlog.add(job));
            let begun = self.fill();
            let Ok(heard) = self.poll() else { return };
            let flying = !self.flying.is_empty();
            if letters.closed && !flying && self.backlog.is_empty() {
                return;
            }
            if letters.hurry && hurried.get_or_insert_with(Instant::now).elapsed() > LAST_WAIT {
                return;
            }
            if begun || heard {
                naps.reset();
            }
            wait = match self.backlog.due() {
                _ if flying => Some(naps.next()),
                Some(due) => Some(due.saturating_duration_since(Instant::now())),
                None if self.backlog.is_empty() => None,
                None => Some(Duration::ZERO),
            };
        }
    }

    /// Orders reads while there is room. Whether any was.
    fn fill(&mut self) -> bool {
        let mut over: Vec<Arc<Mutex<Job>>> = Vec::new();
        let mut begun = false;
        while self.flying.len() < DEPTH
            && let Some(flight) = self.backlog.next(&mut over)
        {
            let Some(ask) = flight.ask() else { continue };
            self.lane.order(&ask);
            self.flying.push_back(flight);
            begun = true;
        }
        begun
    }

    /// Takes the answers of the reads that the stream has passed. Whether there was any.
    fn poll(&mut self) -> Result<bool, ()> {
        let mut heard = false;
        while !self.flying.is_empty() {
            let answer = match self.lane.first() {
                Ok(None) => break,
                Ok(Some(answer)) => answer,
                Err(error) => {
                    tracing::error!(
                        "cuFile: {} reads of a stream are lost, and their memory with them: {error}",
                        self.flying.len()
                    );
                    self.lose(&error.to_string());
                    return Err(());
                }
            };
            heard = true;
            let Some(flight) = self.flying.pop_front() else { break };
            match answer {
                Ok(answer) => self.backlog.answered(flight, answer),
                Err(refusal) => flight.fail(CuFileFault::Refused(refusal)),
            }
        }
        Ok(heard)
    }

    fn lose(&mut self, why: &str) {
        self.flying.drain(..).for_each(|flight| flight.lose(why));
        self.lane.lose();
    }
}

impl Drop for Worker {
    /// Reads are under way only where they were given up, or the thread panics.
    fn drop(&mut self) {
        if !self.flying.is_empty() {
            self.lose("the reading thread ended");
        }
    }
}
