//! Files that are replaced whole: a command that is killed half way leaves the old one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct ReplacedFile {
    /// As it was given.
    pub path: PathBuf,
    /// Without links, which stay what they are.
    target: PathBuf,
}

impl ReplacedFile {
    /// Sees that the file can be written, before the work whose outcome it is to hold.
    pub fn at(path: &Path) -> io::Result<Self> {
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = Self { path: path.to_owned(), target };
        match fs::metadata(&file.target) {
            Ok(found) if !found.is_file() => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file")),
            _ => file.temporary().map(|(_, made)| drop(made)).map(|()| file),
        }
    }

    pub fn replace(&self, text: &[u8]) -> io::Result<()> {
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
}

struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        // After a rename there is none.
        let _ = fs::remove_file(&self.0);
    }
}
