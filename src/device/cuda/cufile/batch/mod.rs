//! Batches of reads: one thread has many under way at once.

mod entry;
mod lane;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::lane::Lane;
use super::backlog::Backlog;
use super::context::Context;
use super::error::{CuFileError, Group};
use super::form::{Emptied, Form, Inbox, Naps, admit, close_and_wait};
use super::job::Job;
use super::library::CuFile;
use super::threads::start;
use crate::sync::Threads;
use crate::sys::cufile::BatchCalls;

/// Into how many of cuFile's batches the entries are divided: one is filled while others are read, as none may be
/// filled again before the last of its entries is done.
const LANES: u32 = 4;

/// A thread that reads in batches.
#[derive(Debug)]
pub(crate) struct Batch {
    cufile: Arc<CuFile>,
    context: Context,
    inbox: Arc<Inbox>,
    threads: Arc<Threads>,
}

impl Batch {
    /// Starts the thread, with `context` current, and sets its batches up.
    ///
    /// # Errors
    /// Where cuFile has no batches, or refuses one.
    pub(crate) fn new(cufile: &Arc<CuFile>, context: &Context) -> Result<Self, CuFileError> {
        cufile.check_process()?;
        let properties = cufile.properties();
        let calls = cufile.calls.batch.as_ref().filter(|_| properties.batch && properties.max_batch > 0);
        let calls = calls.ok_or(CuFileError::Lacks(Group::Batch))?;
        let lanes = lane_sizes(properties.entries_at_once());
        let backlog = Backlog::new(properties.max_batch_entry.min(properties.max_direct_io));
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
            "forebay-gds-batch".into(),
            move || {
                context.bind()?;
                let lanes = set_up(calls, &lanes)?;
                Ok(Worker { lanes, backlog, inbox: Emptied(inbox), hurried: None })
            },
            |mut worker| worker.work(),
        )?;
        Ok(form)
    }
}

/// Divides so many entries among lanes.
fn lane_sizes(entries: u32) -> Vec<u32> {
    let lanes = LANES.min(entries).max(1);
    (0..lanes).map(|lane| (entries.max(1) + lanes - 1 - lane) / lanes).collect()
}

/// The lanes that cuFile grants; it may grant fewer batches than asked for, but not none.
fn set_up(calls: &'static BatchCalls, sizes: &[u32]) -> Result<Vec<Lane>, CuFileError> {
    let mut lanes = Vec::new();
    for &size in sizes {
        match Lane::new(calls, size) {
            Ok(lane) => lanes.push(lane),
            Err(error) if lanes.is_empty() => return Err(error.into()),
            Err(error) => {
                tracing::debug!("cuFile grants {} batches and not {}: {error}", lanes.len(), sizes.len());
                break;
            }
        }
    }
    Ok(lanes)
}

impl Form for Batch {
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

impl Drop for Batch {
    /// What is still under way after a while is cancelled, and awaited by the thread.
    fn drop(&mut self) {
        if !close_and_wait(self, &self.threads, &self.cufile) {
            self.inbox.hurry();
        }
    }
}

#[derive(Debug)]
struct Worker {
    // Before the inbox: their jobs are over when it is closed.
    lanes: Vec<Lane>,
    backlog: Backlog,
    inbox: Emptied,
    /// When what was under way was cancelled.
    hurried: Option<Instant>,
}

impl Worker {
    fn work(&mut self) {
        let mut naps = Naps::new();
        let mut wait = None;
        loop {
            let letters = self.inbox.0.empty(wait);
            letters.jobs.into_iter().for_each(|job| self.backlog.add(job));
            if letters.hurry {
                self.cancel();
            }
            let begun = self.fill();
            let heard = self.poll();
            let flying = self.lanes.iter().any(Lane::is_flying);
            if self.lanes.is_empty() || (letters.closed && !flying && self.backlog.is_empty()) {
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

    /// Fills the lanes that are free, and has them read. Whether any was.
    fn fill(&mut self) -> bool {
        let mut over: Vec<Arc<Mutex<Job>>> = Vec::new();
        let mut begun = false;
        let backlog = &mut self.backlog;
        self.lanes.retain_mut(|lane| {
            if lane.is_flying() {
                return true;
            }
            while lane.has_room()
                && let Some(flight) = backlog.next(&mut over)
            {
                lane.add(flight);
            }
            begun |= lane.has_entries();
            lane.submit()
        });
        begun
    }

    /// Hears what cuFile has to say of the lanes. Whether it was anything.
    fn poll(&mut self) -> bool {
        let mut heard = false;
        let backlog = &mut self.backlog;
        self.lanes.retain_mut(|lane| {
            let (usable, news) = lane.poll(|flight, answer| backlog.answered(flight, answer));
            heard |= news;
            usable
        });
        heard
    }

    /// Cancels what is under way, once, and gives up on what does not come back even so.
    fn cancel(&mut self) {
        const LAST_WAIT: Duration = Duration::from_secs(30);
        let since = *self.hurried.get_or_insert_with(|| {
            self.lanes.iter().filter(|lane| lane.is_flying()).for_each(Lane::cancel);
            Instant::now()
        });
        if since.elapsed() > LAST_WAIT {
            self.lanes.retain(|lane| !lane.is_flying());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::lane_sizes;

    #[test]
    fn entries_are_divided_whole() {
        assert_eq!(lane_sizes(128), [32; 4]);
        assert_eq!(lane_sizes(7), [2, 2, 2, 1]);
        assert_eq!(lane_sizes(3), [1, 1, 1]);
        assert_eq!(lane_sizes(1), [1]);
        for entries in 1..=256 {
            assert_eq!(lane_sizes(entries).into_iter().sum::<u32>(), entries);
        }
    }
}
