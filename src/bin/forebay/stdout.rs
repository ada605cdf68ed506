//! Stdout as a plain file: the standard library's own handle looks for line ends in every byte that goes through it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use crate::failure::{Failure, Outcome};

pub struct Stdout(File);

impl Stdout {
    pub fn open() -> Result<Self, Failure> {
        let copy = io::stdout().as_fd().try_clone_to_owned();
        copy.map(|fd| Self(File::from(fd))).map_err(|error| Failure::of_stdout(&error))
    }

    pub fn write(&mut self, bytes: &[u8]) -> Outcome {
        self.write_counted(bytes).1
    }

    /// How many of the bytes were written, and whether that is all of them.
    pub fn write_counted(&mut self, bytes: &[u8]) -> (usize, Outcome) {
        let mut done = 0;
        while done < bytes.len() {
            match self.0.write(&bytes[done..]) {
                Ok(0) => return (done, Err(Failure::of_stdout(&io::ErrorKind::WriteZero.into()))),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (done, Err(Failure::of_stdout(&error))),
            }
        }
        (done, Ok(()))
    }
}
