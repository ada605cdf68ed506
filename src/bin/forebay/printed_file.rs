//! Stdout, where it is a file: what was printed is on disk before a state that counts it, or a power loss would leave the state ahead
//! of the output. Of a pipe or a terminal, what was printed is its reader's.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use crate::failure::{Failure, Outcome, fix_of_write};

pub struct PrintedFile {
    file: Option<File>,
    /// With what error the disk has not taken it, once. The kernel says so once only, and the next time that all is well.
    failed: Option<i32>,
}

impl PrintedFile {
    pub fn stdout() -> Result<Self, Failure> {
        let file = io::stdout().as_fd().try_clone_to_owned().map(File::from);
        let is_file = |file: &File| file.metadata().map(|found| found.is_file());
        let file = file.and_then(|file| Ok(is_file(&file)?.then_some(file)));
        file.map(|file| Self { file, failed: None }).map_err(|error| Failure::of_stdout(&error))
    }

    /// Has the disk take all that was printed until now.
    pub fn sync(&mut self) -> Outcome {
        let Some(file) = &self.file else { return Ok(()) };
        let synced = match self.failed {
            Some(error) => Err(io::Error::from_raw_os_error(error)),
            None => file.sync_data(),
        };
        synced.map_err(|error| {
            self.failed = error.raw_os_error();
            let fix = fix_of_write(&error, "check the disk that the output goes to, and resume from the state before");
            Failure::Error(format!(
                "stdout: the disk did not take what was printed, so no state is saved that counts it: {error}; {fix}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_disk_did_not_take_is_not_forgotten_when_it_takes_more() {
        let (_reader, pipe) = io::pipe().unwrap();
        let mut printed = PrintedFile { file: Some(File::from(std::os::fd::OwnedFd::from(pipe))), failed: None };
        assert!(printed.sync().is_err());
        printed.file = Some(tempfile::tempfile().unwrap());
        assert!(printed.sync().is_err());
        printed.failed = None;
        assert!(printed.sync().is_ok());
    }
}
