use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::dataset::TensorSpec;
use crate::route::{Carrier, CarrierBuilder};

type Wanted = Arc<dyn Fn(&TensorSpec) -> bool + Send + Sync>;
type Axis = Arc<dyn Fn(&TensorSpec) -> Option<usize> + Send + Sync>;
type Tell = Arc<dyn Fn(Progress) + Send + Sync>;

/// What to load of a checkpoint, and how.
///
/// ## Defaults
/// every tensor, whole, by a carrier of its own with every route auto; on the host with two rings, where there are two
/// processors.
#[derive(Clone, Default)]
#[must_use = "options load nothing by themselves"]
pub struct LoadOptions {
    pub(super) names: Option<BTreeSet<String>>,
    pub(super) wanted: Option<Wanted>,
    pub(super) slice: Option<Slice>,
    pub(super) progress: Option<Tell>,
    pub(super) by: By,
    pub(super) budget: Option<u64>,
    pub(super) tuned: bool,
    pub(super) allow_incomplete: bool,
}

/// Who carries.
#[derive(Clone)]
pub(super) enum By {
    /// A carrier made for this load, its memory just large enough.
    Own(CarrierBuilder),
    Given(Carrier),
}

impl Default for By {
    fn default() -> Self {
        Self::Own(Carrier::builder())
    }
}

/// One rank's share of tensors that are divided among several.
#[derive(Clone)]
pub(super) struct Slice {
    pub(super) rank: u64,
    pub(super) world: u64,
    pub(super) axis: Axis,
}

/// How far a load has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes that have been read so far. Of files that cuFile reads, those of whole files.
    pub bytes: u64,
    /// Bytes in all.
    pub total: u64,
}

impl LoadOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Loads these tensors only. A name that is not there is an error.
    pub fn names<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.names = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Loads those tensors only for which `wanted` holds; with [`names`](Self::names), of those.
    pub fn filter(mut self, wanted: impl Fn(&TensorSpec) -> bool + Send + Sync + 'static) -> Self {
        self.wanted = Some(Arc::new(wanted));
        self
    }

    /// Loads the share of `rank` (from 0) among `world` equal ones of each tensor, divided along the dimension that `axis`
    /// gives; where it gives none, the whole tensor. Only the share is read, but for the rest of blocks that it begins
    /// and ends in: for the first dimension in one piece, for others in as many as the dimensions before them have
    /// elements. A carrier that [was given](Self::with) reads gaps, too, that its reader's
    /// [`coalesce_gap`](crate::ReaderBuilder::coalesce_gap) allows. cuFile alone, where the routes beside it are off, brings
    /// no shares of other dimensions than the first.
    pub fn tensor_parallel(
        mut self,
        rank: u64,
        world: u64,
        axis: impl Fn(&TensorSpec) -> Option<usize> + Send + Sync + 'static,
    ) -> Self {
        self.slice = Some(Slice { rank, world, axis: Arc::new(axis) });
        self
    }

    /// Calls `tell` about ten times a second while loading, and once at the end; on the thread that loads.
    pub fn progress(mut self, tell: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(tell));
        self
    }

    /// Carries with a carrier that is built so: its routes, its engine, its chunk. Device and budgets are those of
    /// the load.
    pub fn carrier(mut self, carrier: CarrierBuilder) -> Self {
        self.by = By::Own(carrier);
        self
    }

    /// Reads as `forebay bench --tune --save` found best for where the checkpoint's first file lies and for the device of the
    /// load, in place of what the reader of [`carrier`](Self::carrier) says; see [`tuning`](crate::tuning). A carrier that
    /// [was given](Self::with) stays as it is.
    pub fn tuned(mut self) -> Self {
        self.tuned = true;
        self
    }

    /// Whether files may be missing of a set whose names say how many it has, where no index names them; otherwise that is
    /// an error.
    pub fn allow_incomplete(mut self, yes: bool) -> Self {
        self.allow_incomplete = yes;
        self
    }

    /// Takes at most this many bytes of host memory: on the host for the tensors, and up to 16 MiB for shares of other
    /// dimensions than the first to pass through; on a GPU for all to pass through, where it is 64 MiB without.
    pub fn budget(mut self, bytes: u64) -> Self {
        self.budget = Some(bytes);
        self
    }

    /// Carries with this carrier, whose device must be that of the load. On the host the tensors lie in its memory, which
    /// must have room for all of them, now and each file's in one piece; the same memory serves one load after the other, which saves the time that the
    /// kernel takes to give fresh memory.
    pub fn with(mut self, carrier: &Carrier) -> Self {
        self.by = By::Given(carrier.clone());
        self
    }
}

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("names", &self.names)
            .field("filtered", &self.wanted.is_some())
            .field("share", &self.slice.as_ref().map(|slice| (slice.rank, slice.world)))
            .finish_non_exhaustive()
    }
}
