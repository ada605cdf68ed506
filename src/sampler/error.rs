use super::remainder::Remainder;
use super::shuffle::Shuffle;

/// An order of training that cannot be had, or a state that does not belong to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// A batch of no samples.
    #[error("a batch of 0 samples would never get through an epoch; make the batch size at least 1")]
    NoBatch,
    /// The dataset is empty.
    #[error("the dataset has no samples, so an epoch would have no batch; check that its files are the ones you mean")]
    NoSamples,
    /// This rank would not get one batch in a whole epoch.
    #[error(
        "an epoch of {samples} samples has no batch for rank {rank} of {size}: the batch size is {batch_size}, the \
         remainder policy {remainder}{}; {}",
        if *.drop_last { ", and the last batch is dropped where it is not full" } else { "" },
        fix_of_no_step(*.drop_last),
    )]
    NoStep {
        /// Samples of the dataset.
        samples: u64,
        /// The rank.
        rank: u32,
        /// How many ranks there are.
        size: u32,
        /// Samples of a rank's batch.
        batch_size: u64,
        /// What becomes of the last samples.
        remainder: Remainder,
        /// Whether they are dropped whatever the policy.
        drop_last: bool,
    },
    /// A rank that is none of the world's.
    #[error("there is no rank {rank} in a world of {size}; ranks count from 0 to the size less one")]
    Rank {
        /// The rank.
        rank: u32,
        /// The size of the world.
        size: u32,
    },
    /// A variable of the environment that does not tell a rank or the size of a world.
    #[error("{name}={value} in the environment {what}; set {pair} both, or neither")]
    Variable {
        /// The variable.
        name: &'static str,
        /// What it is set to.
        value: String,
        /// What is wrong with that.
        what: String,
        /// It and the one that goes with it.
        pair: String,
    },
    /// A launcher has started this process, and its environment does not tell the rank.
    #[error("{found} in the environment {what}; set RANK and WORLD_SIZE, or give both (--rank and --world-size)")]
    Unranked {
        /// The variables, with their values.
        found: String,
        /// What is missing.
        what: String,
    },
    /// Two launchers name ranks of which at most one can be right.
    #[error(
        "{taken} in the environment disagree with {other}; unset what is not of this process, or give the rank and the number \
         of ranks (--rank and --world-size)"
    )]
    Conflict {
        /// The variables that come first, with their values.
        taken: String,
        /// Those of the other launcher.
        other: String,
    },
    /// A state whose position is behind the end of the epoch.
    #[error("the state is at sample {position} of an epoch of {samples}; take a state of this dataset")]
    Position {
        /// The state's.
        position: u64,
        /// How many there are.
        samples: u64,
    },
    /// A state of another version of this crate.
    #[error(
        "the state has version {found}, and this version of forebay reads {}; resume with the one that wrote it",
        super::State::VERSION
    )]
    Version {
        /// The state's.
        found: u64,
    },
    /// A state that was saved from another dataset.
    #[error("the state was saved from other data: {difference}; resume with that data, or begin anew")]
    Foreign {
        /// What differs.
        difference: String,
    },
    /// A state that was saved with another seed.
    #[error("the state was saved with seed {saved}, and {asked} is asked for; leave the seed out, or give the same")]
    Seed {
        /// The state's.
        saved: u64,
        /// The one asked for.
        asked: u64,
    },
    /// A state that was saved with another shuffle.
    #[error(
        "the state was saved with shuffle {saved}, and {asked} is asked for; leave the shuffle out, or give the same"
    )]
    Shuffle {
        /// The state's.
        saved: Shuffle,
        /// The one asked for.
        asked: Shuffle,
    },
}

fn fix_of_no_step(drop_last: bool) -> &'static str {
    match drop_last {
        true => "use a smaller batch size or fewer ranks, or keep the last batch",
        false => "use fewer ranks, or the policy pad",
    }
}
