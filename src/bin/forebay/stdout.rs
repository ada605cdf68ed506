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
        self.0.write_all(bytes).map_err(|error| Failure::of_stdout(&error))
    }
}
