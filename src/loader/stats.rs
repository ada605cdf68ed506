//! What a loader has done so far, for reports.

use std::time::Duration;

use super::stage::Stage;
use crate::route::RouteBytes;

/// What a loader has done since it was built: a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LoaderStats {
    /// Batches handed out.
    pub batches: u64,
    /// Samples in them, with those that are repeated to pad.
    pub samples: u64,
    /// Bytes of these samples in their files.
    pub bytes: u64,
    /// Those bytes by the route that carried them.
    pub routes: RouteBytes,
    /// Corrupt samples that were skipped.
    pub skipped: u64,
    /// Samples that were [left out](super::Missing::Skip) since they lack a field.
    pub missing: u64,
    /// Time since the loader was built.
    pub age: Duration,
    /// Time that the consumer has waited for batches, and for what.
    pub stalls: Stalls,
    /// What each stage has done.
    pub stages: Stages,
    /// Batches that are ready now.
    pub ready_batches: u64,
    /// Bytes of memory of those.
    pub ready_bytes: u64,
    /// Batches that are under way now.
    pub under_way_batches: u64,
    /// Bytes that may be ready and under way at once, at present.
    pub depth_bytes: u64,
    /// Time in which nothing more was begun since the consumer had enough.
    pub idle: Duration,
}

/// Time that the consumer waited for batches, by what these were waiting for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stalls {
    /// Planning, and opening files.
    pub plan: Duration,
    /// Storage; on a CUDA device without work of the processor's, also the copies, which overlap with it.
    pub storage: Duration,
    /// Transforms, checks and packing.
    pub transform: Duration,
    /// Copies to the device of what the processor has worked on.
    pub copy: Duration,
    /// Memory that the consumer himself held.
    pub consumer: Duration,
}

impl Stalls {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.plan + self.storage + self.transform + self.copy + self.consumer
    }

    pub(super) fn add(&mut self, stage: Stage, time: Duration) {
        match stage {
            Stage::Plan => self.plan += time,
            Stage::Read => self.storage += time,
            Stage::Transform => self.transform += time,
            // It may be taken.
            Stage::Ready => {}
            Stage::Copy => self.copy += time,
            Stage::Memory => self.consumer += time,
        }
    }

    /// By name, as reports show them.
    pub fn by_name(&self) -> [(&'static str, Duration); 5] {
        [
            ("plan", self.plan),
            ("storage", self.storage),
            ("transform", self.transform),
            ("copy", self.copy),
            ("consumer", self.consumer),
        ]
    }
}

/// What each stage has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stages {
    /// Planning.
    pub plan: StageStats,
    /// Waiting for memory.
    pub memory: StageStats,
    /// Reading, or carrying to the device.
    pub read: StageStats,
    /// The processor's part.
    pub transform: StageStats,
    /// Copying to the device what the processor has worked on.
    pub copy: StageStats,
}

/// What one stage has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StageStats {
    /// Batches that have been through it.
    pub batches: u64,
    /// Bytes of their samples in the files.
    pub bytes: u64,
    /// Time that they spent in it, each for itself: of those that are in it at the same time, the sum.
    pub time: Duration,
}

impl Stages {
    pub(super) fn of(&mut self, stage: Stage) -> Option<&mut StageStats> {
        match stage {
            Stage::Plan => Some(&mut self.plan),
            Stage::Memory => Some(&mut self.memory),
            Stage::Read => Some(&mut self.read),
            Stage::Transform => Some(&mut self.transform),
            Stage::Copy => Some(&mut self.copy),
            Stage::Ready => None,
        }
    }

    /// By name, as reports show them.
    pub fn by_name(&self) -> [(&'static str, StageStats); 5] {
        [
            (Stage::Plan.name(), self.plan),
            (Stage::Memory.name(), self.memory),
            (Stage::Read.name(), self.read),
            (Stage::Transform.name(), self.transform),
            (Stage::Copy.name(), self.copy),
        ]
    }
}
