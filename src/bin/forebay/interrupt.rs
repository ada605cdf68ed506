//! Signals. SIGINT, SIGTERM and SIGHUP end a command: at the first one it finishes what it is doing, at the second it ends at
//! once. SIGUSR1, by which schedulers warn of an end that is still to come, saves the state and goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;
use std::{fs, process, thread};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::saver::Saver;

/// How long a command that a signal ends may take to finish, which it cannot where nobody reads its output.
const GRACE: Duration = Duration::from_secs(1);

/// The signal that ends this command; 0 before one has come.
static CAME: AtomicI32 = AtomicI32::new(0);

/// As shells say it of a command that a signal has ended.
pub fn exit_code() -> u8 {
    let number = CAME.load(Ordering::SeqCst);
    u8::try_from(128 + number).unwrap_or(u8::MAX)
}

/// A file that grows past the limit of file sizes is an error of the write, as a full disk is, and not the end of the process.
pub fn hold_off_file_size_signal() {
    // Where this cannot be registered, the signal ends us as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Whether a signal has come that ends the command.
pub struct Interrupt(());

impl Interrupt {
    /// From now on these signals call `stop` and save the state, and the command has [`GRACE`] to end.
    pub fn stopping(stop: impl Fn() + Send + 'static, saver: Option<Saver>) -> Result<Self, Failure> {
        let save = move || saver.iter().for_each(Saver::request);
        let end = {
            let save = save.clone();
            move || {
                stop();
                save();
                thread::sleep(GRACE);
                process::exit(i32::from(exit_code()));
            }
        };
        handle(&[SIGINT, SIGTERM, SIGHUP, SIGUSR1], end, save)
    }

    /// From now on these signals are noted, for whoever asks whether one has come.
    pub fn watching() -> Result<Self, Failure> {
        handle(&[SIGINT, SIGTERM, SIGHUP], || (), || ())
    }

    pub fn has_come(&self) -> bool {
        CAME.load(Ordering::SeqCst) != 0
    }
}

fn handle(
    signals: &[i32],
    end: impl FnOnce() + Send + 'static,
    save: impl Fn() + Send + 'static,
) -> Result<Interrupt, Failure> {
    let failed = |error| Failure::Error(format!("signals cannot be handled: {error}; please report this"));
    // What `nohup` ignores stays ignored.
    let handled = signals.iter().filter(|&&signal| signal != SIGHUP || !is_ignored(SIGHUP));
    let mut signals = Signals::new(handled).map_err(failed)?;
    let (mut end, threads) = (Some(end), thread::Builder::new().name("forebay-signals".to_owned()));
    let take = move || {
        for signal in signals.forever() {
            if signal == SIGUSR1 {
                save();
                continue;
            }
            match end.take().filter(|_| CAME.swap(signal, Ordering::SeqCst) == 0) {
                // A thread of its own: a second signal is heard while it waits.
                Some(end) => {
                    if thread::Builder::new().spawn(end).is_err() {
                        process::exit(i32::from(exit_code()));
                    }
                }
                None => process::exit(i32::from(exit_code())),
            }
        }
    };
    threads.spawn(take).map_err(failed)?;
    Ok(Interrupt(()))
}

/// As the kernel tells it; without /proc nothing is.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
