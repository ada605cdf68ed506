use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cudarc::driver::CudaStream;

use super::account::Account;
use super::assemble::Work;
use super::batch::Origin;
use super::course::Settings;
use super::depth::Depth;
use super::loader::Loader;
use super::means::Means;
use super::missing::Missing;
use super::pipeline::Pipeline;
use super::plan::Planner;
use super::pool::Pool;
use super::rows::Ragged;
use super::shared::Shared;
use super::transform::{Chain, Transform};
use super::watchdog::{Patience, watch};
use crate::dataset::{Dataset, DatasetError};
use crate::device::{Device, DeviceKind};
use crate::error::{BuildError, Error};
use crate::route::{Carrier, CarrierBuilder};
use crate::sampler::{Order, Remainder, Sampler, Shuffle, State, World};
use crate::storage::EngineError;
use crate::sync::Threads;
use crate::tuning;

/// Sets up a [`Loader`].
///
/// ## Defaults
/// device host, batches of 32, no shuffle, seed 0, one epoch, one rank, the last batch padded where ranks would have
/// different numbers of samples, as many workers as the machine has cores but one (at most 8), a budget of 256 MiB of host
/// memory and 512 MiB of device memory, as many batches ahead as that allows, no corrupt sample skipped, a missing field an
/// error, rows of different shapes packed, a warning after 10 s without a batch, no deadline; for reading what [`CarrierBuilder`] says.
#[must_use = "a builder builds nothing until `build` is called"]
pub struct LoaderBuilder {
    dataset: Arc<dyn Dataset>,
    device: Device,
    carrier: CarrierBuilder,
    batch_size: u64,
    shuffle: Option<Shuffle>,
    seed: Option<u64>,
    epochs: Option<u64>,
    world: World,
    remainder: Remainder,
    drop_last: bool,
    workers: Option<usize>,
    prefetch: usize,
    budget: u64,
    device_budget: u64,
    resume: Option<State>,
    transform: Option<Arc<dyn Transform>>,
    skips: Option<u64>,
    ragged: Ragged,
    missing: Missing,
    stream: Option<Arc<CudaStream>>,
    patience: Patience,
    tuned: bool,
}

impl LoaderBuilder {
    pub(super) fn new(dataset: Arc<dyn Dataset>) -> Self {
        Self {
            dataset,
            device: Device::host(),
            carrier: Carrier::builder(),
            batch_size: 32,
            shuffle: None,
            seed: None,
            epochs: Some(1),
            world: World::single(),
            remainder: Remainder::default(),
            drop_last: false,
            workers: None,
            prefetch: usize::MAX,
            budget: 256 << 20,
            device_budget: 512 << 20,
            resume: None,
            transform: None,
            skips: None,
            ragged: Ragged::default(),
            missing: Missing::default(),
            stream: None,
            patience: Patience { warns_after: Duration::from_secs(10), deadline: None },
            tuned: false,
        }
    }

    /// Where batches are to land.
    pub fn device(mut self, device: &Device) -> Self {
        self.device = device.clone();
        self
    }

    /// How files are read: route, engine, depth, rings. Its device and its budgets are set by this builder.
    pub fn carrier(mut self, carrier: CarrierBuilder) -> Self {
        self.carrier = carrier;
        self
    }

    /// Reads as `forebay bench --tune --save` found best for where the dataset's first file lies and for the device, in place
    /// of what the reader of [`carrier`](Self::carrier) says; see [`tuning`](crate::tuning).
    pub fn tuned(mut self) -> Self {
        self.tuned = true;
        self
    }

    /// Samples in a batch of this rank.
    pub fn batch_size(mut self, samples: u64) -> Self {
        self.batch_size = samples;
        self
    }

    /// The order of samples. Where it is not set, a resumed loader goes on with that of its state.
    pub fn shuffle(mut self, shuffle: Shuffle) -> Self {
        self.shuffle = Some(shuffle);
        self
    }

    /// What shuffles are made from, and what [`Sample::random`](super::transform::Sample::random) is. Where it is not set,
    /// a resumed loader goes on with that of its state.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How many epochs there are, counted from the very first: a loader that is resumed in epoch 2 of 3 gives what is left
    /// of that one.
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = Some(epochs);
        self
    }

    /// Epoch after epoch, without end; but where all samples of a whole epoch are [skipped](Self::skip_corrupt), that is an
    /// error.
    pub fn endless(mut self) -> Self {
        self.epochs = None;
        self
    }

    /// Which rank this is, of how many: [`World::from_env`] reads what launchers say.
    pub fn world(mut self, world: World) -> Self {
        self.world = world;
        self
    }

    /// What becomes of the last samples of an epoch, where they are not as many for every rank.
    pub fn remainder(mut self, remainder: Remainder) -> Self {
        self.remainder = remainder;
        self
    }

    /// Whether the last batch of an epoch is dropped where it is not full for every rank.
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// The most [workers](Self::workers) that a loader can have.
    pub const MOST_WORKERS: usize = 1024;

    /// Threads that do the CPU's part, up to [`MOST_WORKERS`](Self::MOST_WORKERS); with 0 the loader's own thread does it. It
    /// changes nothing but the time it takes.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// The most batches that are made ahead, 1 at least; as many as the budget allows where it is not set. Once so many are
    /// there, no more are made until the consumer has taken half of them. It changes nothing but memory and time.
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = batches.max(1);
        self
    }

    /// The most bytes of host memory: a limit, of which no more is taken than what is there at once. On the host, batches lie
    /// in it: those that are handed out and not dropped, those that are ready, and those being read, with room for what must be
    /// read beside its place. On a CUDA device it is passed through. A batch that can never fit is refused before anything of it
    /// is read.
    pub fn budget(mut self, bytes: u64) -> Self {
        self.budget = bytes;
        self
    }

    /// Bytes of device memory, all allocated when the loader is built, that batches lie in.
    pub fn device_budget(mut self, bytes: u64) -> Self {
        self.device_budget = bytes;
        self
    }

    /// Goes on where a loader of the same dataset stood, in a world and with batches of any size.
    pub fn resume(mut self, state: State) -> Self {
        self.resume = Some(state);
        self
    }

    /// What is done to every sample before it joins its batch, on the workers. Called again, the next is done after it.
    pub fn map(mut self, transform: impl Transform + 'static) -> Self {
        self.transform = Some(match self.transform {
            None => Arc::new(transform),
            Some(before) => Arc::new(Chain::new(before, transform)),
        });
        self
    }

    /// Leaves out of their batches up to so many samples that cannot be read, do not match their checksum, or are refused by
    /// the transform, or that the dataset cannot locate. Each is warned about and [counted](super::LoaderStats::skipped); their
    /// batches are smaller by that, and a batch with no sample left does not come. The next one is an error; so is a sample
    /// that cannot be read if the budget has no room for it beside its batch, and an epoch that gives no batch if another
    /// epoch follows it.
    pub fn skip_corrupt(mut self, limit: u64) -> Self {
        self.skips = Some(limit);
        self
    }

    /// How rows of different shapes lie.
    pub fn ragged(mut self, ragged: Ragged) -> Self {
        self.ragged = ragged;
        self
    }

    /// What becomes of a sample that lacks a field which others of the dataset have: by default it is an error. A sample that
    /// is left out is not counted among those that [`skip_corrupt`](Self::skip_corrupt) limits.
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// The stream on which batches are used: a batch's memory is lent again only after that has passed what it was given
    /// before the batch was dropped. Work on other streams is told by [`Batch::used_on`](super::Batch::used_on).
    pub fn consumer_stream(mut self, stream: &Arc<CudaStream>) -> Self {
        self.stream = Some(Arc::clone(stream));
        self
    }

    /// After how long without a batch a warning says what is waited for: stage, file, offset.
    pub fn warn_after(mut self, time: Duration) -> Self {
        self.patience.warns_after = time.max(Duration::from_millis(1));
        self
    }

    /// After how long without a batch that is an error, [`LoaderFault::Stalled`](super::LoaderFault::Stalled).
    pub fn deadline(mut self, time: Duration) -> Self {
        self.patience.deadline = Some(time);
        self
    }

    /// Sets up the memory and starts the threads, which begin to read.
    ///
    /// # Errors
    /// [`Error::Dataset`] where the dataset has no samples; [`Error::Sampler`] where this rank would get none, or the state is of another dataset,
    /// seed or shuffle; [`Error::Build`] where there are too many workers, or memory, the device or the engine cannot be had; [`Error::Tuning`] where
    /// [`tuned`](Self::tuned) settings cannot be looked up.
    pub fn build(self) -> Result<Loader, Error> {
        if let Some(value) = self.workers.filter(|workers| *workers > Self::MOST_WORKERS) {
            let (setting, value) = ("workers", u64::try_from(value).unwrap_or(u64::MAX));
            return Err(BuildError::Engine(EngineError::Setting { setting, value, range: "0 to 1024" }).into());
        }
        let (origin, sampler) = self.sampler()?;
        let (batches_an_epoch, batches_left) = (sampler.steps_an_epoch(), sampler.steps_left());
        let carrier = self.carrier.clone().device(&self.device).budget(self.budget).device_budget(self.device_budget);
        let first = self.dataset.files().first().filter(|_| self.tuned);
        let carrier = match first.map(|file| tuning::saved(file.path(), &self.device)).transpose()?.flatten() {
            Some(settings) => carrier.map_reader(|reader| reader.settings(&settings)),
            None => carrier,
        };
        // Reads of single samples are small and many: one ring's thread is all busy with them before a drive is.
        let carrier = carrier.map_reader(|reader| reader.rings_unless_set(2));
        let at_start = self.touched_at_start();
        let carrier = carrier.map_reader(|reader| reader.touched_at_least(at_start)).build()?;
        if let Some(stream) = &self.stream {
            carrier.can_follow(stream).map_err(BuildError::Device)?;
        }
        let (engine, reads) = (carrier.reader().engine(), carrier.reader().counters());
        let settings = self.settings();
        let held = if self.device.kind() == DeviceKind::Host { self.budget } else { self.device_budget };
        // Of the host's budget some is for what is read beside its place.
        let depth = Depth::new(2 * settings.reading, held / 8 * 5);
        let shared = Arc::new(Shared::new(depth, sampler.cursor()));
        let threads = Arc::<Threads>::default();
        let refused = |of| {
            let shared = &shared;
            move |error| {
                shared.close();
                BuildError::Threads { of, error }
            }
        };
        let workers = self.workers.unwrap_or_else(default_workers);
        let pool = Pool::new(workers, &threads).map_err(refused("the loader's workers"))?;
        let origin = Arc::new(origin);
        let account = Account::new(self.skips, &sampler, Arc::clone(&origin), Arc::clone(&shared));
        let planner = Planner::new(
            Arc::clone(&self.dataset),
            self.transform.clone(),
            self.ragged,
            self.missing,
            self.skips.is_some(),
            sampler,
            carrier.clone(),
        );
        let work =
            Work { dataset: self.dataset, transform: self.transform, seed: origin.seed, goes_on: self.skips.is_some() };
        let means = Means::new(carrier, pool, work, self.ragged, Arc::clone(&shared));
        let pipeline = Pipeline::new(planner, means, settings, account, Arc::clone(&origin), Arc::clone(&shared));
        let watchdog = {
            let (shared, patience) = (Arc::clone(&shared), self.patience);
            move || watch(&shared, patience)
        };
        threads.start("forebay-watchdog".into(), (0, 1), watchdog).map_err(refused("the loader's watchdog"))?;
        let loader = {
            let shared = Arc::clone(&shared);
            move || {
                let _ = shared.thread.set(thread::current());
                pipeline.run();
            }
        };
        threads.start("forebay-loader".into(), (0, 1), loader).map_err(refused("the loader"))?;
        let device = self.device;
        Ok(Loader { shared, threads, origin, device, engine, reads, batches_an_epoch, batches_left })
    }

    /// Bytes of host memory that are touched before the first read. A loader reads as far ahead as its budget allows, so to touch
    /// them later would hold up its first batches. On a device the carrier does so itself.
    fn touched_at_start(&self) -> u64 {
        /// The default budget. More would take longer than a start should.
        const MOST: u64 = 256 << 20;
        match self.device.kind() {
            DeviceKind::Host => {
                self.dataset.files().iter().fold(0_u64, |bytes, file| bytes.saturating_add(file.len())).min(MOST)
            }
            _ => 0,
        }
    }

    /// The order, from where it begins.
    fn sampler(&self) -> Result<(Origin, Sampler), Error> {
        if self.dataset.is_empty() {
            return Err(DatasetError::no_samples(self.dataset.files()).into());
        }
        let fingerprint = self.dataset.fingerprint();
        if let Some(state) = &self.resume {
            state.check(&fingerprint, self.seed, self.shuffle)?;
        }
        let seed = self.seed.or(self.resume.as_ref().map(State::seed)).unwrap_or(0);
        let shuffle = self.shuffle.or(self.resume.as_ref().map(State::shuffle)).unwrap_or_default();
        let order = Order::new(&fingerprint, self.dataset.len(), seed, shuffle);
        let sampler = Sampler::new(order, self.world, self.batch_size, self.remainder, self.drop_last, self.epochs)?;
        let sampler = match &self.resume {
            Some(state) => sampler.start_at(state.cursor())?,
            None => sampler,
        };
        let (dataset, stream) = (Arc::clone(&self.dataset), self.stream.clone());
        Ok((Origin { dataset, fingerprint, seed, shuffle, stream }, sampler))
    }

    fn settings(&self) -> Settings {
        /// Enough to keep a fast drive busy, and for neighbours to be found that are read at once.
        const WINDOW: u64 = 2 << 20;
        const READING: u64 = 32 << 20;
        let held = if self.device.kind() == DeviceKind::Host { self.budget } else { self.device_budget };
        let most = self.budget.min(held) / 8;
        let window = match self.shuffle.or(self.resume.as_ref().map(State::shuffle)) {
            // A block is read at once, so that what is shuffled inside it is one read of its file.
            Some(Shuffle::Blocks(samples)) => self.block_bytes(samples).max(WINDOW),
            _ => WINDOW,
        };
        Settings {
            prefetch: self.prefetch,
            window: window.min(most),
            reading: READING.max(window.saturating_mul(2)).min(held / 2),
            memory: most.saturating_mul(2),
        }
    }

    /// About how many bytes a block has: as if its samples were as large as the average of the files.
    fn block_bytes(&self, samples: NonZeroU64) -> u64 {
        let bytes: u64 = self.dataset.files().iter().map(|file| file.len()).fold(0, u64::saturating_add);
        (bytes / self.dataset.len().max(1)).saturating_mul(samples.get())
    }
}

/// As many as there are cores but one, which reads.
fn default_workers() -> usize {
    const MOST: usize = 8;
    thread::available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1)).clamp(1, MOST)
}

impl fmt::Debug for LoaderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoaderBuilder")
            .field("dataset", &self.dataset)
            .field("device", &self.device)
            .field("batch_size", &self.batch_size)
            .field("shuffle", &self.shuffle)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
