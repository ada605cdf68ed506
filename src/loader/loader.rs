use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;
use tokio::task::coop::unconstrained;

use super::batch::{Batch, Origin};
use super::builder::LoaderBuilder;
use super::error::LoaderError;
use super::shared::Shared;
use super::stats::LoaderStats;
use crate::dataset::Dataset;
use crate::device::Device;
use crate::sampler::State;
use crate::storage::{Counters, EngineKind, Histogram, Latencies, Stats};
use crate::sync::Threads;

/// Gives the batches of a dataset in the memory of a device, made ahead of whoever takes them.
///
/// It is a `futures::Stream` of batches, of which [`next`](Self::next) awaits one, on any runtime or none, and
/// [`blocking`](Self::blocking) makes an iterator. Which samples come in which order depends on the dataset, the seed, the
/// shuffle, the rank, the number of ranks and the batch size, and on nothing else.
///
/// **Errors.** A batch that cannot be made is an error, which comes after the batches before it; nothing comes after it.
/// An epoch is never shorter than it should be without one.
///
/// **Dropping** ends all that is under way, and waits for its threads for about a second at most. What takes longer, such
/// as a read of a dead mount, goes on by itself and frees its memory when it is done. Batches may outlive their loader.
///
/// ```
/// # fn main() -> Result<(), forebay::Error> {
/// # let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
/// use forebay::dataset::{self, DType, OpenOptions};
/// use forebay::{Device, Loader, Shuffle};
///
/// let text = dataset::open(&[path], &OpenOptions::new().seq_len(64).dtype(DType::U8))?;
/// let mut loader = Loader::builder(text)
///     .device(&Device::auto())
///     .batch_size(8)
///     .shuffle(Shuffle::Full)
///     .seed(7)
///     .epochs(2)
///     .budget(16 << 20)
///     .build()?;
/// for batch in loader.blocking() {
///     let batch = batch?;
///     let tokens = batch.tensor("tokens").expect("what a window of tokens is called");
///     println!("{}/{}: {:?} at {:?}", batch.epoch(), batch.number(), tokens.shape(), tokens.device_address());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Loader {
    pub(super) shared: Arc<Shared>,
    pub(super) threads: Arc<Threads>,
    pub(super) origin: Arc<Origin>,
    pub(super) device: Device,
    pub(super) engine: EngineKind,
    /// Its reader's, which goes with its threads.
    pub(super) reads: Arc<Counters>,
    pub(super) batches_an_epoch: u64,
    pub(super) batches_left: Option<u64>,
}

impl Loader {
    /// A loader to be set up; every setting has a default.
    pub fn builder(dataset: impl Dataset + 'static) -> LoaderBuilder {
        LoaderBuilder::new(Arc::new(dataset))
    }

    /// The next batch; `None` behind the last one, and after an error.
    ///
    /// Dropping the future loses nothing: the batch is the next one's.
    ///
    /// # Errors
    /// [`LoaderError`], which names the sample, the path and the offset.
    pub async fn next(&mut self) -> Option<Result<Batch, LoaderError>> {
        poll_fn(|context| self.shared.poll_take(context)).await
    }

    /// The batches as an iterator, which waits on its thread, with any runtime or none. It ends where the loader does.
    pub fn blocking(&mut self) -> Blocking<'_> {
        Blocking { loader: self }
    }

    /// Where to go on after the last batch that was handed out; what was made ahead is not counted. What
    /// [`LoaderBuilder::resume`] takes.
    pub fn state(&self) -> State {
        self.origin.state(self.shared.at())
    }

    /// What has been done so far.
    pub fn stats(&self) -> LoaderStats {
        self.shared.stats()
    }

    /// A handle that tells the same figures from any thread, also while [`blocking`](Self::blocking) has the loader.
    pub fn monitor(&self) -> Monitor {
        Monitor { shared: Arc::clone(&self.shared) }
    }

    /// A handle that stops this loader from any thread.
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: Arc::clone(&self.shared) }
    }

    /// How many batches this rank takes in a whole epoch.
    pub fn batches_an_epoch(&self) -> u64 {
        self.batches_an_epoch
    }

    /// How many batches there were before it when it was built; `None` without end.
    pub fn batches_in_all(&self) -> Option<u64> {
        self.batches_left
    }

    /// Where batches land.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What its reader has done so far, also for batches that nobody has taken yet. Bytes that cuFile carried are not
    /// among these.
    pub fn reader_stats(&self) -> Stats {
        self.reads.now()
    }

    /// How long its reads took so far, as [`Reader::latencies`](crate::Reader::latencies); `None` unless its
    /// [carrier's reader](LoaderBuilder::carrier) was [asked for them](crate::ReaderBuilder::latencies).
    pub fn latencies(&self) -> Option<Latencies> {
        self.reads.latencies().map(Histogram::now)
    }

    /// The engine that reads.
    pub fn engine(&self) -> EngineKind {
        self.engine
    }
}

impl Stream for Loader {
    type Item = Result<Batch, LoaderError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.shared.poll_take(context)
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        const PATIENCE: Duration = Duration::from_millis(900);
        if !self.shared.is_ours() {
            return;
        }
        self.shared.close();
        if !self.threads.ended_by(Some(Instant::now() + PATIENCE)) {
            tracing::warn!(
                "threads of a loader are still busy after {PATIENCE:?}; they end by themselves, and their memory stays \
                 until they have"
            );
        }
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("device", &self.device).field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// A loader's batches, waited for on the thread that asks.
#[derive(Debug)]
pub struct Blocking<'a> {
    loader: &'a mut Loader,
}

impl Blocking<'_> {
    /// The loader, to look at its figures or its state between two batches.
    pub fn loader(&self) -> &Loader {
        self.loader
    }
}

impl Iterator for Blocking<'_> {
    type Item = Result<Batch, LoaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Inside a tokio task its budget would end, and this thread does not yield.
        pollster::block_on(unconstrained(self.loader.next()))
    }
}

/// Tells what a loader has done, from any thread.
#[derive(Clone)]
pub struct Monitor {
    shared: Arc<Shared>,
}

impl Monitor {
    /// What has been done so far.
    pub fn stats(&self) -> LoaderStats {
        self.shared.stats()
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").finish_non_exhaustive()
    }
}

/// Stops a loader from any thread, a signal's for example.
#[derive(Clone)]
pub struct Stopper {
    shared: Arc<Shared>,
}

impl Stopper {
    /// Whoever waits for a batch gets [`LoaderFault::Stopped`](super::LoaderFault::Stopped) at once, and whoever asks next.
    pub fn stop(&self) {
        self.shared.stop();
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopper").finish_non_exhaustive()
    }
}
