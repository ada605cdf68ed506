//! Starting a group of threads, and waiting for their end with a limit.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use nix::libc;

use super::lock;
use crate::sys::limits::{self, ThreadLimits};
use crate::sys::process;
use crate::units::Size;

/// Tells when every thread of a group has ended.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    running: Mutex<usize>,
    ended: Condvar,
}

impl Threads {
    /// To be held by a thread from its start to its end.
    fn enter(self: &Arc<Self>) -> Running {
        *lock(&self.running) += 1;
        Running(Arc::clone(self))
    }

    /// Starts one of `wanted` threads, of which `started` are running already, and counts it until its end.
    ///
    /// # Errors
    /// [`ThreadError`] tells how many are missing, and why.
    pub(crate) fn start(
        self: &Arc<Self>,
        name: String,
        (started, wanted): (usize, usize),
        work: impl FnOnce() + Send + 'static,
    ) -> Result<Thread, ThreadError> {
        let running = self.enter();
        let body = move || {
            // Held until the thread's last act: what `work` owns is dropped by then.
            let _running = running;
            work();
        };
        let spawned = thread::Builder::new().name(name).spawn(body);
        spawned
            .map(|handle| handle.thread().clone())
            .map_err(|error| ThreadError::new(wanted.saturating_sub(started).max(1), wanted, error))
    }

    pub(crate) fn ended_by(&self, until: Option<Instant>) -> bool {
        let mut running = lock(&self.running);
        while *running > 0 {
            let wait = match until {
                None => Duration::MAX,
                Some(until) => match until.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => left,
                    _ => return false,
                },
            };
            running = match self.ended.wait_timeout(running, wait) {
                Ok((running, _)) => running,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        true
    }
}

#[derive(Debug)]
struct Running(Arc<Threads>);

impl Drop for Running {
    fn drop(&mut self) {
        *lock(&self.0.running) -= 1;
        self.0.ended.notify_all();
    }
}

/// Threads that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{missing} of {wanted} threads could not be started: {error}; {fix}")]
#[non_exhaustive]
pub struct ThreadError {
    /// How many could not.
    pub missing: usize,
    /// How many were to be started.
    pub wanted: usize,
    /// The kernel's answer to the first of those that are missing.
    #[source]
    pub error: io::Error,
    fix: String,
}

impl ThreadError {
    pub(crate) fn new(missing: usize, wanted: usize, error: io::Error) -> Self {
        let fix = fix(&error, &limits::threads());
        Self { missing, wanted, error, fix }
    }

    /// A single thread, which ended before it could do its work.
    pub(crate) fn ended() -> Self {
        Self::new(1, 1, io::Error::other("the thread panicked while it was set up"))
    }
}

/// `pthread_create` answers EAGAIN where a limit of threads is reached and where its stack cannot be mapped.
fn fix(error: &io::Error, limits: &ThreadLimits) -> String {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOMEM) => {
            let known = known(limits);
            let known = if known.is_empty() { String::new() } else { format!("{}: ", known.join(", ")) };
            format!(
                "{known}raise the limit of threads (`ulimit -u`, pids.max of the control group), free memory, or use fewer threads"
            )
        }
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => process::forbidden("new threads (clone3 and clone)"),
        Some(_) => "see the kernel log".into(),
        None => "this is a fault of forebay, report it".into(),
    }
}

fn known(limits: &ThreadLimits) -> Vec<String> {
    let user = limits.user.map(|limit| format!("RLIMIT_NPROC is {limit}"));
    let group = limits.group.as_ref().map(|(limit, file)| format!("{} is {limit}", file.display()));
    let space = limits.address_space.map(|limit| format!("RLIMIT_AS is {}", Size(limit)));
    let mappings = limits.mappings.map(|limit| format!("vm.max_map_count is {limit}"));
    [user, group, space, mappings].into_iter().flatten().collect()
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;

    fn said(errno: i32) -> String {
        let limits = ThreadLimits {
            user: Some(12),
            group: Some((34, "/g/pids.max".into())),
            address_space: None,
            mappings: Some(56),
        };
        fix(&io::Error::from_raw_os_error(errno), &limits)
    }

    #[test]
    fn a_limit_that_is_reached_is_named_with_its_number() {
        let said = said(libc::EAGAIN);
        assert!(
            said.contains("RLIMIT_NPROC is 12, /g/pids.max is 34, vm.max_map_count is 56")
                && said.contains("ulimit -u"),
            "{said}"
        );
        assert!(!said.contains("RLIMIT_AS") && !said.contains("seccomp"), "{said}");
    }

    #[test]
    fn a_forbidden_call_is_named_and_no_limit() {
        let said = said(libc::EPERM);
        assert!(said.contains("clone3") && !said.contains("RLIMIT") && !said.contains("io_uring"), "{said}");
    }

    #[test]
    fn an_error_tells_how_many_are_missing() {
        let error = ThreadError::new(3, 16, io::Error::from_raw_os_error(libc::EAGAIN)).to_string();
        assert!(error.starts_with("3 of 16 threads could not be started: Resource temporarily unavailable"), "{error}");
        // One place where what is wrong ends and what to do begins.
        assert_eq!(error.matches("; ").count(), 1, "{error}");
    }

    #[test]
    fn a_thread_counts_until_it_has_ended() {
        let threads = Arc::<Threads>::default();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        threads
            .start("one".into(), (0, 1), move || {
                let _ = wait.recv();
            })
            .unwrap();
        assert!(!threads.ended_by(Some(Instant::now())));
        drop(go);
        assert!(threads.ended_by(None));
    }
}
