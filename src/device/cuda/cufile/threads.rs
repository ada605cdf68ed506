use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use super::error::CuFileError;
use crate::sync::Threads;

/// Starts a thread that first sets up what it works with, which need not be able to leave it. Returns once that is
/// done, with its error if it failed.
pub(super) fn start<W>(
    threads: &Arc<Threads>,
    name: String,
    set_up: impl FnOnce() -> Result<W, CuFileError> + Send + 'static,
    work: impl FnOnce(W) + Send + 'static,
) -> Result<(), CuFileError> {
    let (ready, heard) = mpsc::channel();
    let running = threads.enter();
    let body = move || {
        let _running = running;
        match set_up() {
            Ok(tools) => {
                let _ = ready.send(Ok(()));
                work(tools);
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        }
    };
    thread::Builder::new().name(name).spawn(body).map_err(CuFileError::Thread)?;
    heard.recv().unwrap_or_else(|_| Err(CuFileError::Thread(io::Error::other("it panicked while it was set up"))))
}
