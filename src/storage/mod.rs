//! Open files and how their bytes are read: alignment, page cache, engines, and the reader that joins them.
//!
//! Owns: descriptors, the plan of a read (sorted, coalesced, split, widened), the engines that carry it out and the
//! rule for every answer the kernel can give. May touch: `memory`, `sys`, and nothing above itself.

mod align;
mod builder;
mod descriptors;
mod direct;
mod engine;
mod error;
mod extent;
mod file;
mod group;
mod identity;
mod latency;
mod layout;
mod pieces;
mod plan;
mod progress;
mod proof;
mod read;
mod reader;
mod request;
mod settings;
mod stats;
mod straight;
mod stream;
#[cfg(all(test, not(forebay_loom)))]
mod tests;

pub use align::Alignment;
pub use builder::ReaderBuilder;
pub(crate) use descriptors::{Descriptors, open_plain};
pub use direct::{CacheCause, NoDirect};
#[cfg(test)]
pub(crate) use engine::faults;
pub use engine::{EngineChoice, EngineError, EngineKind, EngineStep, RingFeatures};
pub use error::{Change, OpenError, OpenFault, ReadError, ReadFault};
pub use extent::Extent;
pub(crate) use file::Inner as FileInner;
pub use file::{File, FileKind};
pub(crate) use group::{Group, groups};
pub(crate) use identity::Identity;
pub(crate) use latency::Histogram;
pub use latency::Latencies;
pub(crate) use layout::{Part, Via};
pub use pieces::Pieces;
pub use plan::Mode;
pub(crate) use plan::{Plan, PlanRoom, PlanSettings};
pub use read::Read;
pub(crate) use read::{explained, unchanged};
pub use reader::Reader;
pub(crate) use request::Watch;
pub use settings::ReaderSettings;
pub(crate) use stats::Counters;
pub use stats::Stats;
pub(crate) use straight::{Place, straight};
pub use stream::{BlockingStream, ReadStream};
