//! The flags of the commands that go through a dataset batch by batch.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use forebay::LoaderBuilder;
use forebay::dataset::{Dataset, DatasetError, Fingerprint, shown};
use forebay::sampler::{Order, Remainder, Sampler, Shuffle, State, World};

use crate::args::{DatasetFlags, heading};
use crate::failure::Failure;
use crate::saver::Saver;
use crate::state_file::{self, StateFile};
use crate::stderr;
use crate::whole_number::within;

#[derive(Debug, Args)]
pub struct LoaderFlags {
    #[command(flatten)]
    pub dataset: DatasetFlags,
    /// Samples in a batch of one rank
    #[arg(
        long, value_name = "SAMPLES", default_value_t = 32, value_parser = within::<u64>(1..=u64::MAX),
        help_heading = heading::ORDER
    )]
    pub batch_size: u64,
    /// Which order a shuffle gives; 0 when not given, and with --resume the state's
    #[arg(long, value_parser = within::<u64>(0..=u64::MAX), help_heading = heading::ORDER)]
    pub seed: Option<u64>,
    /// How samples are mixed, anew in every epoch: none, full, or blocks:N, which mixes blocks of N samples that follow each
    /// other, and the samples in each; none when not given, and with --resume the state's
    #[arg(long, help_heading = heading::ORDER)]
    pub shuffle: Option<Shuffle>,
    /// How many epochs there are in all, those before a resumed one counted
    #[arg(
        long, default_value_t = 1, value_parser = within::<u64>(1..=u64::MAX),
        help_heading = heading::ORDER
    )]
    pub epochs: u64,
    /// Which of the processes that share each epoch this one is, from 0
    #[arg(long, requires = "world_size", value_parser = within::<u32>(0..=u32::MAX.into()), help_heading = heading::ORDER)]
    pub rank: Option<u32>,
    /// How many processes share each epoch; one when not given
    #[arg(long, requires = "rank", value_parser = within::<u32>(1..=u32::MAX.into()), help_heading = heading::ORDER)]
    pub world_size: Option<u32>,
    /// Takes rank and world size from the environment, as torchrun, mpirun, srun and others set it, and says from which
    /// variables; an error where they disagree, or where a launcher tells no rank
    #[arg(long, value_enum, conflicts_with_all = ["rank", "world_size"], help_heading = heading::ORDER)]
    pub world: Option<WorldFrom>,
    /// What becomes of the samples at the end of an epoch that make no full batch for every rank: drop leaves out fewer
    /// than there are ranks, pad repeats some from the beginning of the epoch, and uneven gives some ranks one more than
    /// others
    #[arg(long, default_value_t = Remainder::Pad, help_heading = heading::ORDER)]
    pub remainder: Remainder,
    /// Leaves out the last batch of an epoch where it is not full for every rank
    #[arg(long, help_heading = heading::ORDER)]
    pub drop_last: bool,
    /// Threads that transform samples, at most 1024; `order` has no use for them
    #[arg(
        long,
        value_name = "THREADS",
        value_parser = within::<usize>(0..=LoaderBuilder::MOST_WORKERS as u64),
        help_heading = heading::READING
    )]
    pub workers: Option<usize>,
    /// The most batches that are read ahead; `order` reads none
    #[arg(
        long,
        value_name = "BATCHES",
        value_parser = within::<usize>(1..=u64::MAX),
        help_heading = heading::READING
    )]
    pub prefetch: Option<usize>,
    /// Goes on from where the run stood that wrote FILE with --save-state, with as many ranks as there are now
    #[arg(long, value_name = "FILE", help_heading = heading::ORDER)]
    pub resume: Option<PathBuf>,
    /// Writes where it stood after the last batch that was printed to FILE: at least once a second, at the end, and at SIGINT,
    /// SIGTERM and SIGHUP, which end it, and SIGUSR1, which does not; where stdout is a file, once that is on disk
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    pub save_state: Option<PathBuf>,
    /// Ends after so many batches
    #[arg(
        long,
        value_name = "BATCHES",
        value_parser = within::<u64>(0..=u64::MAX),
        help_heading = heading::ORDER
    )]
    pub max_batches: Option<u64>,
    /// Leaves out samples that are corrupt, up to so many; 0 when not given. `order` looks into none
    #[arg(
        long,
        value_name = "SAMPLES",
        default_value_t = 0,
        hide_default_value = true,
        value_parser = within::<u64>(0..=u64::MAX),
        help_heading = heading::READING
    )]
    pub skip_corrupt: u64,
    /// What becomes of a sample that lacks a field which others of the dataset have
    #[arg(long, value_enum, default_value_t = Missing::Error, help_heading = heading::READING)]
    pub missing: Missing,
}

/// What becomes of a sample that lacks a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Missing {
    /// An error that names the sample and the field
    Error,
    /// Leaves the sample out, and counts it
    Skip,
    /// Keeps the sample; its row of that field is absent
    Allow,
}

impl From<Missing> for forebay::Missing {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Error => Self::Error,
            Missing::Skip => Self::Skip,
            Missing::Allow => Self::Allow,
        }
    }
}

/// Where the rank is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorldFrom {
    /// From the launcher that started this process last: torchrun, any other by RANK and WORLD_SIZE, Open MPI, MVAPICH, PALS,
    /// PMI (MPICH, Intel MPI), Flux, JSM, Slurm
    Env,
}

/// Where a run begins, and in which order it goes on.
pub struct Beginning {
    /// Of the dataset.
    pub fingerprint: Fingerprint,
    pub seed: u64,
    pub shuffle: Shuffle,
    pub world: World,
    /// What is resumed, found to belong to the dataset and the flags.
    pub resumed: Option<State>,
    /// Where the state goes.
    save: Option<StateFile>,
}

impl Beginning {
    /// What saves the state as batches are printed, where that is asked for.
    pub fn saver(&self, begun: impl FnOnce() -> State) -> Result<Option<Saver>, Failure> {
        self.save.clone().map(|file| Saver::start(file, begun())).transpose()
    }
}

impl LoaderFlags {
    /// Looks at the flags that the dataset and the files of states have a say in, before anything is read.
    pub fn begin(&self, dataset: &dyn Dataset) -> Result<Beginning, Failure> {
        if dataset.is_empty() {
            return Err(Failure::of(DatasetError::no_samples(dataset.files())));
        }
        let world = self.world()?;
        let save = self.save_state.as_deref().map(StateFile::at).transpose()?;
        let fingerprint = dataset.fingerprint();
        let resumed = match &self.resume {
            Some(path) => Some(state_file::read(path, |state| state.check(&fingerprint, self.seed, self.shuffle))?),
            None => None,
        };
        let seed = self.seed.or(resumed.as_ref().map(State::seed)).unwrap_or(0);
        let shuffle = self.shuffle.or(resumed.as_ref().map(State::shuffle)).unwrap_or_default();
        Ok(Beginning { fingerprint, seed, shuffle, world, resumed, save })
    }

    fn world(&self) -> Result<World, Failure> {
        match (self.world, self.rank, self.world_size) {
            (Some(WorldFrom::Env), ..) => from_environment(),
            (None, Some(rank), Some(size)) => {
                World::new(rank, size).map_err(|error| Failure::Usage(format!("--rank {rank}: {error}")))
            }
            _ => Ok(World::single()),
        }
    }

    /// The steps of this rank, from where the run begins, through that many samples.
    pub fn sampler(&self, beginning: &Beginning, samples: u64) -> Result<Sampler, Failure> {
        let Beginning { fingerprint, seed, shuffle, world, resumed, .. } = beginning;
        let order = Order::new(fingerprint, samples, *seed, *shuffle);
        let (remainder, drop_last, epochs) = (self.remainder, self.drop_last, Some(self.epochs));
        let sampler =
            Sampler::new(order, *world, self.batch_size, remainder, drop_last, epochs).map_err(Failure::of)?;
        match (resumed, &self.resume) {
            (Some(state), Some(path)) => {
                let of_file = |error| Failure::Error(format!("{}: {error}", shown(path)));
                sampler.start_at(state.cursor()).map_err(of_file)
            }
            _ => Ok(sampler),
        }
    }
}

fn from_environment() -> Result<World, Failure> {
    let (world, source) = World::detect().map_err(Failure::of)?;
    let from = match source.variables() {
        None => "no launcher's variables are set".to_owned(),
        Some([rank, size]) => format!("from {rank} and {size} ({source})"),
    };
    stderr::line(&format!("rank {} of {}: {from}", world.rank(), world.size()));
    Ok(world)
}
