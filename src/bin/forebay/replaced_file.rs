//! Files that are replaced whole: a command that is killed half way leaves the old one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use forebay::temporary::{Temporary, behind_links, replace_file};

const MAKER: &str = "forebay-saved";

#[derive(Clone, Debug)]
pub struct ReplacedFile {
    /// As it was given.
    pub path: PathBuf,
}

impl ReplacedFile {
    /// Sees that the file can be written, before the work whose outcome it is to hold.
    pub fn at(path: &Path) -> io::Result<Self> {
        let target = behind_links(path)?;
        if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
        }
        if target.file_name().is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Temporary::create(target.parent().unwrap_or(Path::new("")), MAKER)?;
        Ok(Self { path: path.to_owned() })
    }

    pub fn replace(&self, text: &[u8]) -> io::Result<()> {
        replace_file(&self.path, MAKER, text)
    }
}
