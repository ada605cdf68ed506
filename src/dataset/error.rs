use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::source::DataFile;
use super::text::{brief, shown};
use crate::storage::{Change, OpenFault};

/// A dataset that cannot be opened, or a sample that cannot be found.
#[derive(Debug)]
#[non_exhaustive]
pub struct DatasetError {
    /// The file's path, as given; empty where no file is to blame.
    pub path: PathBuf,
    /// The offset in the file, in bytes, where one is to blame.
    pub offset: Option<u64>,
    /// What is wrong.
    pub fault: DatasetFault,
}

/// Why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetFault {
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenFault),
    /// Reading of what describes the data failed.
    #[error("cannot read: {0}; check the file system and the device under it")]
    Io(#[source] io::Error),
    /// The file ends before what it says it has.
    #[error("{what} needs {missing} bytes more than the file has; the file was cut short, get it again")]
    Truncated {
        /// What does not fit.
        what: String,
        /// Bytes that are missing.
        missing: u64,
    },
    /// The file breaks a rule of its format.
    #[error("{what}; {fix}")]
    Malformed {
        /// What is wrong.
        what: String,
        /// What to do.
        fix: &'static str,
    },
    /// The file is sound, but of a kind that is not read.
    #[error("{what}; {fix}")]
    Unsupported {
        /// What is not read.
        what: String,
        /// What to do.
        fix: &'static str,
    },
    /// A setting is missing, or does not fit the files.
    #[error("{what}; {fix}")]
    Setting {
        /// What is wrong.
        what: String,
        /// What to do.
        fix: &'static str,
    },
    /// A sample lacks a field that others of the dataset have.
    #[error(
        "the sample has no field {field}, which {present} of {samples} samples have{}{}; {}",
        First(&hints.first), Alike(&hints.alike), fix_of_missing(*present, *samples, hints.alike.is_some())
    )]
    #[non_exhaustive]
    MissingField {
        /// The field's name.
        field: Box<str>,
        /// How many samples have it.
        present: u64,
        /// How many samples there are.
        samples: u64,
        /// What explains that it is missing, as far as is known.
        hints: Box<FieldHints>,
    },
    /// Files of a set, as their names say how many it has, are not there.
    #[error("{what}; get them, or ask for what there is (allow_incomplete, --allow-incomplete)")]
    Incomplete {
        /// Which are missing.
        what: String,
    },
    /// The file is not the one that was looked at when the dataset was opened.
    #[error("{0}; open the dataset again to use what is there now")]
    Changed(Change),
    /// There is no such sample.
    #[error("there is no sample {index}, since the dataset has {len}; ask for a lower one")]
    NoSample {
        /// The sample asked for, from 0.
        index: u64,
        /// How many there are.
        len: u64,
    },
}

/// Whether a field is one that few samples have: then these samples are the exception, and not those that lack it.
pub(crate) fn is_rare(present: u64, samples: u64) -> bool {
    present < samples.saturating_sub(present)
}

fn fix_of_missing(present: u64, samples: u64, has_alike: bool) -> &'static str {
    match is_rare(present, samples) {
        _ if has_alike => "give both one name, or allow absent rows (`LoaderBuilder::missing`, --missing allow)",
        true => {
            "remove it there if it is stray, or allow absent rows (`LoaderBuilder::missing`, --missing allow): to leave out \
             samples that lack it leaves out most"
        }
        false => {
            "add it, or leave such samples out or allow absent rows (`LoaderBuilder::missing`, --missing skip or allow)"
        }
    }
}

struct Alike<'a>(&'a Option<String>);

impl fmt::Display for Alike<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(alike) => write!(f, ", but it has {alike}, whose name differs only in letter case"),
            None => Ok(()),
        }
    }
}

struct First<'a>(&'a Option<String>);

impl fmt::Display for First<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(first) => write!(f, ", the first of them {first}"),
            None => Ok(()),
        }
    }
}

/// What explains that a sample lacks a field.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FieldHints {
    /// The first sample that has the field and where, where fewer than half of the samples do.
    pub first: Option<String>,
    /// A field of the sample whose name differs only in letter case.
    pub alike: Option<String>,
}

impl DatasetError {
    /// A fault at a place of a file. For formats of one's own, too.
    pub fn new(path: impl Into<PathBuf>, offset: impl Into<Option<u64>>, fault: DatasetFault) -> Self {
        Self { path: path.into(), offset: offset.into(), fault }
    }

    /// A file that breaks a rule of its format: what is wrong, and what to do.
    pub fn malformed(
        path: impl Into<PathBuf>,
        offset: impl Into<Option<u64>>,
        what: impl Into<String>,
        fix: &'static str,
    ) -> Self {
        Self::new(path, offset, DatasetFault::Malformed { what: brief(what.into()), fix })
    }

    /// A sound file of a kind that is not read: what it is, and what to do.
    pub fn unsupported(
        path: impl Into<PathBuf>,
        offset: impl Into<Option<u64>>,
        what: impl Into<String>,
        fix: &'static str,
    ) -> Self {
        Self::new(path, offset, DatasetFault::Unsupported { what: brief(what.into()), fix })
    }

    /// A setting that is missing or does not fit: what is wrong, and what to do. `path` may be empty.
    pub fn setting(path: impl Into<PathBuf>, what: impl Into<String>, fix: &'static str) -> Self {
        Self::new(path, None, DatasetFault::Setting { what: brief(what.into()), fix })
    }

    /// A dataset of no samples, which these files make.
    pub fn no_samples(files: &[DataFile]) -> Self {
        const SHOWN: usize = 8;
        let paths: Vec<_> = files.iter().take(SHOWN).map(|file| shown(file.path())).collect();
        let fix = "check that its files are the ones you mean";
        let what = match files {
            [] | [_] => "the dataset has no samples".to_owned(),
            _ if files.len() > SHOWN => {
                let more = files.len() - SHOWN;
                format!("the dataset has no samples: none is in {} and {more} more files", paths.join(", "))
            }
            _ => format!("the dataset has no samples: none is in {}", paths.join(", ")),
        };
        Self::setting(files.first().map_or(Path::new(""), DataFile::path), what, fix)
    }

    /// Sample `index` asked of a dataset of `len`.
    pub fn no_sample(index: u64, len: u64) -> Self {
        Self::new(PathBuf::new(), None, DatasetFault::NoSample { index, len })
    }
}

impl fmt::Display for DatasetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.as_os_str().is_empty() {
            f.write_str(&shown(&self.path))?;
            if let Some(offset) = self.offset {
                write!(f, " at {offset}")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}", self.fault)
    }
}

/// The message tells the fault in full, so the source is what lies behind the fault.
impl std::error::Error for DatasetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.fault.source()
    }
}
