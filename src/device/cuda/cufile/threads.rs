use std::sync::{Arc, mpsc};

use super::error::CuFileError;
use crate::sync::{ThreadError, Threads};

/// Starts a thread that first sets up what it works with, which need not be able to leave it. Returns once that is
/// done, with its error if it failed.
pub(super) fn start<W>(
    threads: &Arc<Threads>,
    name: String,
    set_up: impl FnOnce() -> Result<W, CuFileError> + Send + 'static,
    work: impl FnOnce(W) + Send + 'static,
) -> Result<(), CuFileError> {
    let (ready, heard) = mpsc::channel();
    let body = move || match set_up() {
        Ok(tools) => {
            let _ = ready.send(Ok(()));
            work(tools);
        }
        Err(error) => {
            let _ = ready.send(Err(error));
        }
    };
    threads.start(name, (0, 1), body).map_err(CuFileError::Thread)?;
    heard.recv().unwrap_or_else(|_| Err(CuFileError::Thread(ThreadError::ended())))
}
