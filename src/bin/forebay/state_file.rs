//! The files that `--resume` and `--save-state` name.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use forebay::dataset::shown;
use forebay::sampler::{SamplerError, State};
use serde_json::error::Category;

use crate::failure::{Failure, Outcome, fix_of_write};
use crate::json;
use crate::replaced_file::ReplacedFile;

/// More than any state has, so that a large file given by mistake is not read whole.
const MOST: u64 = 1 << 16;

/// The state in a file, if it passes the check.
pub fn read(path: &Path, check: impl FnOnce(&State) -> Result<(), SamplerError>) -> Result<State, Failure> {
    let failure = |what: String| Failure::Error(format!("{}: {what}", shown(path)));
    let text = text_of(path).map_err(|error| failure(format!("cannot read: {error}; give a file of --save-state")))?;
    let state: State = serde_json::from_slice(&text).map_err(|error| match error.classify() {
        Category::Data => failure(error.to_string()),
        _ => {
            let why = json::fault(&text, &error);
            failure(format!("no state, since it is not JSON: {why}; give a file of --save-state"))
        }
    })?;
    check(&state).map_err(|error| failure(error.to_string()))?;
    Ok(state)
}

fn text_of(path: &Path) -> io::Result<Vec<u8>> {
    // To open a FIFO would wait for whoever writes to it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(MOST).read_to_end(&mut text)?;
    Ok(text)
}

/// Where a state goes.
#[derive(Clone, Debug)]
pub struct StateFile(ReplacedFile);

impl StateFile {
    /// Sees that the file can be written before the run that is to be saved.
    pub fn at(path: &Path) -> Result<Self, Failure> {
        ReplacedFile::at(path).map(Self).map_err(|error| failure(path, &error))
    }

    pub fn save(&self, state: &State) -> Outcome {
        let text = json::line(state)? + "\n";
        self.0.replace(text.as_bytes()).map_err(|error| failure(&self.0.path, &error))
    }
}

fn failure(path: &Path, what: &io::Error) -> Failure {
    let (path, fix) = (shown(path), fix_of_write(what, "give --save-state a file in a directory of yours"));
    Failure::Error(format!("{path}: cannot write the state: {what}; {fix}"))
}
