use std::io;
use std::path::{Path, PathBuf};

use nix::libc;

use crate::dataset::{DatasetError, brief, shown};
use crate::error::BuildError;
use crate::memory::MemoryError;
use crate::route::CarryError;

/// A dataset that could not be packed. No file is left under a name of the result, unless one was replaced before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The dataset failed.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// What reads the payload could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The payload could not be read.
    #[error(transparent)]
    Carry(#[from] CarryError),
    /// A file or folder of the result could not be written.
    #[error("{}{}: cannot {doing}: {source}; {}", shown(path), at(*offset), fix(source))]
    Io {
        /// The file or folder, by its final name.
        path: PathBuf,
        /// Where in the file, in bytes, where that is known.
        offset: Option<u64>,
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Files with names of the result are there already.
    #[error(
        "{} already; ask for overwriting (`PackOptions::overwrite`, --overwrite), or pack to another place",
        listed(paths)
    )]
    Exists {
        /// Which.
        paths: Vec<PathBuf>,
    },
    /// A sample that cannot be written.
    #[error("sample {index} ({}): {}; {fix}", brief(format!("{id:?}")), brief(what.clone()))]
    Sample {
        /// Its number.
        index: u64,
        /// Its name.
        id: String,
        /// What is wrong.
        what: String,
        /// What to do.
        fix: &'static str,
    },
    /// A tensor that cannot be written.
    #[error("tensor {}: {}; {fix}", brief(format!("{name:?}")), brief(what.clone()))]
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong.
        what: String,
        /// What to do.
        fix: &'static str,
    },
    /// A setting that does not fit the data.
    #[error("{what}; {fix}")]
    Setting {
        /// What is wrong.
        what: String,
        /// What to do.
        fix: &'static str,
    },
}

impl PackError {
    pub(super) fn io(path: &Path, offset: impl Into<Option<u64>>, doing: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), offset: offset.into(), doing, source }
    }

    pub(super) fn setting(what: impl Into<String>, fix: &'static str) -> Self {
        Self::Setting { what: what.into(), fix }
    }

    pub(super) fn tensor(name: &str, what: impl Into<String>, fix: &'static str) -> Self {
        Self::Tensor { name: name.to_owned(), what: what.into(), fix }
    }
}

impl From<MemoryError> for PackError {
    fn from(error: MemoryError) -> Self {
        Self::Build(error.into())
    }
}

fn at(offset: Option<u64>) -> String {
    offset.map(|offset| format!(" at {offset}")).unwrap_or_default()
}

fn fix(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => "free space there, or pack to another disk",
        Some(libc::EFBIG) => "raise the limit of file sizes (`ulimit -f`), or ask for smaller shards",
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => "pack to a place that may be written to",
        Some(libc::EEXIST) => "something else is called so, such as a link that leads nowhere: remove it",
        Some(libc::ENOENT) => "make the folder first",
        Some(libc::ENOTDIR | libc::EISDIR) => "a name that ends in .safetensors is a file, any other a folder",
        _ => "check the file system and the device under it",
    }
}

/// The first few, and how many more.
fn listed(paths: &[PathBuf]) -> String {
    const SHOWN: usize = 3;
    let some: Vec<String> = paths.iter().take(SHOWN).map(|path| shown(path).into_owned()).collect();
    let (mut text, verb) = (some.join(", "), if paths.len() == 1 { "is" } else { "are" });
    if let Some(more) = paths.len().checked_sub(SHOWN).filter(|&more| more > 0) {
        text += &format!(" and {more} more");
    }
    format!("{text} {verb} there")
}
