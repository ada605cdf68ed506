use crate::dataset::DatasetError;
use crate::device::DeviceError;
use crate::error::BuildError;
use crate::route::CarryError;
use crate::storage::ReadError;
use crate::tuning::TuningError;
use crate::units::Size;

/// A checkpoint that could not be loaded. Nothing of it is delivered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Its files are not sound, or not those that were looked at.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Tuned settings were asked for and could not be looked up.
    #[error(transparent)]
    Tuning(#[from] TuningError),
    /// A tensor was asked for that is not there.
    #[error("{path}: there is no tensor {name:?}; ask for one that `forebay inspect` lists")]
    NoTensor {
        /// The checkpoint's path.
        path: String,
        /// The name asked for.
        name: String,
    },
    /// Two files hold a tensor of one name.
    #[error("{path}: tensor {name:?} is in {other}, too; give the model's index, or files that belong together")]
    Twice {
        /// The later file's path.
        path: String,
        /// The tensor's name.
        name: String,
        /// The earlier file's path.
        other: String,
    },
    /// A tensor cannot be divided as asked.
    #[error("tensor {name:?}: {what}; choose another axis for it, or none")]
    Slice {
        /// The tensor's name.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// A rank that does not exist was asked for.
    #[error("rank {rank} of {world} does not exist; ranks count from 0, and there must be one at least")]
    Rank {
        /// The rank asked for.
        rank: u64,
        /// How many there are.
        world: u64,
    },
    /// The carrier that was given is another device's.
    #[error("the carrier carries to {carrier} and the checkpoint is to be on {device}; give both the same device")]
    OtherDevice {
        /// The carrier's.
        carrier: String,
        /// The one that the checkpoint is to be on.
        device: String,
    },
    /// The budget, or the carrier that was given, has too little memory free.
    #[error("{}; raise it, or load fewer tensors at once", no_room(*need, *free, *budget))]
    NoRoom {
        /// Bytes that are needed at once.
        need: u64,
        /// Bytes that are not on loan.
        free: u64,
        /// Bytes in all.
        budget: u64,
    },
    /// The carrier that was given has enough memory free, but not in pieces that are large enough.
    #[error("the checkpoint takes {} and {} of a budget of {} are free, but in pieces that are too small; drop what lies between them, or give a carrier of its own", Size(*need), Size(*free), Size(*budget))]
    Scattered {
        /// Bytes that are needed at once.
        need: u64,
        /// Bytes that are not on loan.
        free: u64,
        /// Bytes in all.
        budget: u64,
    },
    /// The memory cannot be had, or the engine not started.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The device failed, or has too little memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Bytes did not arrive.
    #[error(transparent)]
    Carry(#[from] CarryError),
}

/// Of a budget that is all free there is only one number to tell.
fn no_room(need: u64, free: u64, budget: u64) -> String {
    let (need, budget_size) = (Size(need), Size(budget));
    match free < budget {
        true => format!("the checkpoint takes {need} and {} of a budget of {budget_size} are free", Size(free)),
        false => format!("the checkpoint needs {need} and the budget is {budget_size}"),
    }
}

impl From<ReadError> for CheckpointError {
    fn from(error: ReadError) -> Self {
        Self::Carry(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::CheckpointError::NoRoom;

    #[test]
    fn a_budget_that_is_too_small_and_one_that_is_in_use_are_told_apart() {
        let small = NoRoom { need: 4096, free: 100, budget: 100 }.to_string();
        assert!(small.starts_with("the checkpoint needs 4 KiB and the budget is 100 bytes; raise it"), "{small}");
        let in_use = NoRoom { need: 4096, free: 0, budget: 4096 }.to_string();
        assert!(in_use.contains("takes 4 KiB and 0 bytes of a budget of 4 KiB are free; raise it"), "{in_use}");
    }
}
