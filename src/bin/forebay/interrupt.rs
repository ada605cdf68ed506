//! Ctrl-C: the first time what is under way is finished with, the second time the command ends at once.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::loader::Stopper;

use crate::failure::Failure;

/// As shells say it of a command that SIGINT has ended.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Whether SIGINT has come.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT stops this loader. Until now it ended the command.
    pub fn stopping(stopper: Stopper) -> Result<Self, Failure> {
        Self::doing(move || stopper.stop())
    }

    /// From now on SIGINT is noted, for whoever asks whether it has come.
    pub fn watching() -> Result<Self, Failure> {
        Self::doing(|| ())
    }

    fn doing(stop: impl Fn() + Send + 'static) -> Result<Self, Failure> {
        let come = Arc::new(AtomicBool::new(false));
        let handler = {
            let come = Arc::clone(&come);
            move || {
                if come.swap(true, Ordering::SeqCst) {
                    process::exit(i32::from(EXIT_INTERRUPTED));
                }
                stop();
            }
        };
        match ctrlc::set_handler(handler) {
            Ok(()) => Ok(Self(come)),
            Err(error) => Err(Failure::Error(format!("SIGINT cannot be handled: {error}; please report this"))),
        }
    }

    pub fn has_come(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
