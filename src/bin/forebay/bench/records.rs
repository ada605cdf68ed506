//! The file that is measured as a dataset for a loader, whose records have a place only while the clock runs.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use forebay::dataset::{
    DType, DataFile, Dataset, DatasetError, DatasetFault, Fields, FileRange, Fingerprint, SampleSpec, TensorSpec,
};

/// Records of one length from a file's first byte on, as the format `records` has them; here a file may end within one, which
/// then is none.
#[derive(Debug)]
pub struct Records {
    files: [DataFile; 1],
    record: TensorSpec,
    len: u64,
    bytes: u64,
    gate: Arc<Gate>,
}

impl Records {
    pub fn open(path: &Path, bytes: u64, gate: Arc<Gate>) -> Result<Self, DatasetError> {
        let file = DataFile::new(path)?;
        let len = file.len() / bytes;
        Ok(Self { files: [file], record: TensorSpec::new("record", DType::U8, [bytes]), len, bytes, gate })
    }
}

impl Dataset for Records {
    fn len(&self) -> u64 {
        self.len
    }

    fn files(&self) -> &[DataFile] {
        &self.files
    }

    /// Where the loader asks before it reads: on its own thread, which has nothing else to do before the first.
    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        if index >= self.len || !self.gate.lets_one_through() {
            return Err(DatasetError::no_sample(index, self.len));
        }
        sample.push(self.record.clone(), [FileRange { file: 0, offset: index * self.bytes, len: self.bytes }]);
        Ok(())
    }

    /// Without asking for one: the clock may not run yet.
    fn fields(&self) -> Option<Fields> {
        Some(Fields::uniform(std::slice::from_ref(&self.record), self.len))
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("records", self.record.shape.to_string(), self.len, &self.files)
    }
}

/// What a loader is told that asks behind the end.
pub fn is_closed(error: &DatasetError) -> bool {
    matches!(error.fault, DatasetFault::NoSample { .. })
}

/// Lets records be read from when the clock runs until the time is over.
#[derive(Debug)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    passage: Passage,
    /// Records that may still pass.
    left: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Passage {
    Waiting,
    Open,
    Over,
}

impl Gate {
    pub fn new(left: u64) -> Self {
        Self { state: Mutex::new(State { passage: Passage::Waiting, left }), changed: Condvar::new() }
    }

    pub fn pass(&self, passage: Passage) {
        self.state().passage = passage;
        self.changed.notify_all();
    }

    fn lets_one_through(&self) -> bool {
        let waits = |state: &mut State| state.passage == Passage::Waiting;
        let mut state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        let passes = state.passage == Passage::Open && state.left > 0;
        state.left -= u64::from(passes);
        passes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
