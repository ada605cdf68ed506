use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::stage::Stage;
use crate::dataset::{DatasetError, brief};
use crate::route::CarryError;

/// A batch that could not be made. The batches before it were delivered, and none comes after it.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoaderError {
    /// The id of the sample that is to blame, where one is.
    pub sample: Option<String>,
    /// The epoch, from 0.
    pub epoch: u64,
    /// The batch of that epoch, from 0.
    pub batch: u64,
    /// What is wrong.
    pub fault: LoaderFault,
}

/// Why a batch could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoaderFault {
    /// Bytes could not be read, or did not reach the device.
    #[error("{0}")]
    Carry(#[source] Box<CarryError>),
    /// The dataset has no such sample, or a file of it is another by now, or what was read does not match its checksum.
    #[error("{0}")]
    Dataset(#[source] Box<DatasetError>),
    /// A transform refused a sample, or panicked.
    #[error("{} at {offset}: {reason}; mend the sample or the transform, or let the loader skip corrupt samples", .path.display())]
    Transform {
        /// The file that the sample begins in.
        path: PathBuf,
        /// Where, in bytes.
        offset: u64,
        /// In the transform's words.
        reason: String,
    },
    /// The samples of a batch do not fit together.
    #[error("{what}; {fix}")]
    Fields {
        /// What does not fit.
        what: String,
        /// What to do.
        fix: &'static str,
    },
    /// More samples were corrupt than may be skipped.
    #[error("{last}; {limit} corrupt samples were skipped before it, which is the limit")]
    TooManySkipped {
        /// How many may be.
        limit: u64,
        /// What is wrong with the next one.
        last: Box<LoaderFault>,
    },
    /// A whole epoch gave no batch, since all of its samples were skipped as corrupt, which a loader without end would do
    /// again and again, or [left out](super::Missing::Skip).
    #[error(
        "{files}: all {skipped} samples of this epoch were skipped as corrupt or left out for a missing field; correct them or the transform, \
         allow absent rows, or check that it is the right dataset"
    )]
    #[non_exhaustive]
    AllSkipped {
        /// The path of the dataset's first file, and how many more it has.
        files: String,
        /// How many were, of this rank's share.
        skipped: u64,
    },
    /// The deadline has passed.
    #[error("{place}nothing has come for {}, stalled in {stage}; see what holds it up, or set a longer deadline", Seconds(*.age), place = Place(.path, *.offset))]
    Stalled {
        /// What is waited for.
        stage: Stage,
        /// The file, where one is waited for.
        path: Option<PathBuf>,
        /// The offset in it.
        offset: Option<u64>,
        /// For how long.
        age: Duration,
    },
    /// It was [stopped](super::Stopper::stop).
    #[error("the loader was stopped; build it again with the state of the last batch to go on")]
    Stopped,
    /// This process was forked from the one that built the loader, whose threads it does not have.
    #[error("the loader is of the process that this one was forked from; build one in this process")]
    Forked,
    /// A thread of the loader has ended before its time.
    #[error("the loader's {0} has ended before its time; this is a fault of the loader, report it")]
    Died(&'static str),
}

impl From<CarryError> for LoaderFault {
    fn from(error: CarryError) -> Self {
        Self::Carry(Box::new(error))
    }
}

impl From<DatasetError> for LoaderFault {
    fn from(error: DatasetError) -> Self {
        Self::Dataset(Box::new(error))
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}

/// As in `data.tar at 512: `, or nothing.
pub(super) struct Place<'a>(pub(super) &'a Option<PathBuf>, pub(super) Option<u64>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Some(path), Some(offset)) => write!(f, "{} at {offset}: ", path.display()),
            (Some(path), None) => write!(f, "{}: ", path.display()),
            (None, _) => Ok(()),
        }
    }
}

impl fmt::Display for LoaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sample, epoch, batch, fault } = self;
        match sample {
            Some(id) => write!(f, "{fault} (sample {}, in batch {batch} of epoch {epoch})", brief(id.clone())),
            None => write!(f, "{fault} (batch {batch} of epoch {epoch})"),
        }
    }
}

/// The message tells the fault in full, so the source is what lies behind the fault.
impl std::error::Error for LoaderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.fault.source()
    }
}
