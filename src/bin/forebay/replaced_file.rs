//! Files that are replaced whole: a command that is killed half way leaves the old one.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use forebay::temporary::Temporary;

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
            _ => file.temporary().map(drop).map(|()| file),
        }
    }

    /// The file keeps who may read and write it.
    pub fn replace(&self, text: &[u8]) -> io::Result<()> {
        let temporary = self.temporary()?;
        let mut file = temporary.file()?;
        file.write_all(text)?;
        if let Ok(before) = fs::metadata(&self.target) {
            file.set_permissions(before.permissions())?;
        }
        file.sync_all()?;
        temporary.replace(&self.target)
    }

    fn temporary(&self) -> io::Result<Temporary> {
        if self.target.file_name().is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Temporary::create(self.target.parent().unwrap_or(Path::new("")), "forebay-saved")
    }
}
