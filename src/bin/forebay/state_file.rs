//! The files that `--resume` and `--save-state` name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use forebay::dataset::shown;
use forebay::sampler::{SamplerError, State};
use serde_json::error::Category;

use crate::failure::{Failure, Outcome};
use crate::json;

/// More than any state has, so that a large file given by mistake is not read whole.
const MOST: u64 = 1 << 16;

/// The state in a file, if it passes the check.
pub fn read(path: &Path, check: impl FnOnce(&State) -> Result<(), SamplerError>) -> Result<State, Failure> {
    let failure = |what: String| Failure::Error(format!("{}: {what}", shown(path)));
    let text = text_of(path).map_err(|error| failure(format!("cannot read: {error}; give a file of --save-state")))?;
    let state: State = serde_json::from_slice(&text).map_err(|error| match error.classify() {
        Category::Data => failure(error.to_string()),
        _ => failure(format!("no state, since it is not JSON: {error}; give a file of --save-state")),
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

/// Where a state goes. The file is replaced whole: one that is killed half way leaves the old one.
#[derive(Debug)]
pub struct StateFile {
    /// As it was given.
    path: PathBuf,
    /// Without links, which stay what they are.
    target: PathBuf,
}

impl StateFile {
    /// Sees that the file can be written before the run that is to be saved.
    pub fn at(path: &Path) -> Result<Self, Failure> {
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = Self { path: path.to_owned(), target };
        match fs::metadata(&file.target) {
            Ok(found) if !found.is_file() => Err(file.failure("not a file")),
            _ => file
                .temporary()
                .map(|(_, made)| drop(made))
                .map_err(|error| file.failure(&error.to_string()))
                .map(|()| file),
        }
    }

    pub fn save(&self, state: &State) -> Outcome {
        let text = json::line(state)? + "\n";
        self.replace(text.as_bytes()).map_err(|error| self.failure(&error.to_string()))
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let (mut file, made) = self.temporary()?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&made.0, &self.target)
    }

    /// A file beside the target, which goes away where it is not renamed.
    fn temporary(&self) -> io::Result<(File, Made)> {
        let name = self.target.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.tmp", std::process::id()));
        let path = self.target.with_file_name(hidden);
        // One that was killed may have had our number, and left it.
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        Ok((file, Made(path)))
    }

    fn failure(&self, what: &str) -> Failure {
        let path = shown(&self.path);
        Failure::Error(format!("{path}: cannot write the state: {what}; give --save-state a file in a folder of yours"))
    }
}

struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        // After a rename there is none.
        let _ = fs::remove_file(&self.0);
    }
}
