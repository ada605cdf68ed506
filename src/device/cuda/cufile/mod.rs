//! cuFile: reads from the drive into device memory, with no stop in host memory where the machine can do that.
//!
//! Owns: the opened driver, what is registered with it, and the threads that call it. May touch: `sys` and `sync`.
//! Knows of files only their descriptors.
//!
//! Three forms carry out the same [`Job`]s: [`Pool`] (synchronous reads on threads, which every cuFile has), [`Batch`]
//! and [`Stream`]. One rule, in `transfer`, says for all of them what an answer means.

mod backlog;
mod batch;
mod context;
mod counters;
mod error;
mod form;
mod handle;
mod job;
mod library;
mod pool;
mod properties;
mod registration;
mod stream;
mod threads;
mod transfer;
mod version;

#[cfg(test)]
mod tests;

pub(crate) use batch::Batch;
pub(crate) use context::Context;
pub use counters::Counters;
pub use error::{CuFileError, CuFileFault, EntryState, Refusal, TransferFault};
pub(crate) use form::Form;
pub(crate) use handle::Handle;
pub use job::Landed;
pub(crate) use job::{Job, Waiter};
pub(crate) use library::{Count, CuFile};
pub(crate) use pool::Pool;
pub use properties::Properties;
pub(crate) use registration::Registration;
pub(crate) use stream::Stream;
pub(crate) use transfer::{PAGE, Transfer};
pub use version::Version;
