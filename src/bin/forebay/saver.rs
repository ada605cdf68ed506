//! The state of a run, saved as its batches are printed: at once for the first of them, and then at most once a second, by a
//! thread of its own, so that nothing that is read or printed waits for the disk.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use forebay::sampler::State;

use crate::failure::{Failure, Outcome};
use crate::printed_file::PrintedFile;
use crate::state_file::StateFile;
use crate::stderr;

const PAUSE: Duration = Duration::from_secs(1);

/// Shared by the command, the thread that saves, and the one that takes signals.
#[derive(Clone)]
pub struct Saver(Arc<Shared>);

struct Shared {
    /// Held while it is written, so that a later state is never replaced by an earlier one.
    file: Mutex<Saved>,
    printed: Mutex<Printed>,
    changed: Condvar,
}

struct Saved {
    state: StateFile,
    output: PrintedFile,
}

struct Printed {
    /// After the last batch that stdout has taken.
    state: State,
    is_saved: bool,
    /// Asked to save now, even what is saved.
    is_requested: bool,
}

impl Saver {
    /// Nothing is saved before something is printed, or a signal asks for it: the file may hold an older state until then.
    pub fn start(file: StateFile, begun: State) -> Result<Self, Failure> {
        let printed = Mutex::new(Printed { state: begun, is_saved: true, is_requested: false });
        let saved = Saved { state: file, output: PrintedFile::stdout()? };
        let shared = Shared { file: Mutex::new(saved), printed, changed: Condvar::new() };
        let saver = Self(Arc::new(shared));
        let thread = saver.clone();
        let started = thread::Builder::new().name("forebay-state".to_owned()).spawn(move || thread.keep_saving());
        match started {
            Ok(_) => Ok(saver),
            Err(error) => Err(Failure::Error(format!(
                "cannot start the thread that saves the state: {error}; allow more threads, or leave out --save-state"
            ))),
        }
    }

    /// Stdout has taken all batches before this state.
    pub fn printed(&self, state: State) {
        let mut printed = self.lock();
        (printed.state, printed.is_saved) = (state, false);
        self.0.changed.notify_all();
    }

    /// Has what was printed saved soon.
    pub fn request(&self) {
        self.lock().is_requested = true;
        self.0.changed.notify_all();
    }

    /// Saves `end`, or without it the state after what was printed.
    pub fn finish(&self, end: Option<State>) -> Outcome {
        if let Some(end) = end {
            self.lock().state = end;
        }
        self.save()
    }

    fn keep_saving(&self) {
        let mut has_warned = false;
        loop {
            let idle = |printed: &mut Printed| printed.is_saved && !printed.is_requested;
            let printed = self.0.changed.wait_while(self.lock(), idle);
            printed.unwrap_or_else(PoisonError::into_inner).is_requested = false;
            if let Err(Failure::Error(error)) = self.save()
                && !has_warned
            {
                has_warned = true;
                stderr::line(&format!("warning: {error}"));
            }
            let paused = self.0.changed.wait_timeout_while(self.lock(), PAUSE, |printed| !printed.is_requested);
            drop(paused.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// What cannot be saved is tried again with the next state.
    fn save(&self) -> Outcome {
        let mut file = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        let state = {
            let mut printed = self.lock();
            printed.is_saved = true;
            printed.state.clone()
        };
        // Not before the state was taken: what is printed meanwhile is no part of it.
        file.output.sync()?;
        file.state.save(&state)
    }

    /// A panic while it was held leaves the state as good as it was.
    fn lock(&self) -> MutexGuard<'_, Printed> {
        self.0.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
