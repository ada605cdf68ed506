//! forebay carries training data from NVMe to the GPU.
//!
//! A [`Carrier`] takes lists of [`Extent`]s of any files to the memory of a [`Device`], by the best [`Route`] that each
//! file has: by cuFile straight into device memory, or through pinned host memory, which is read into while the device
//! copies from it. Its [`Decision`] says why each other route was not taken, and [`RouteBytes`] which one carried what.
//!
//! ```
//! # fn main() -> Result<(), forebay::Error> {
//! # let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
//! use forebay::{Carrier, Device, Extent};
//!
//! let device = Device::auto(); // the first GPU, or the host where there is none
//! let carrier = Carrier::builder().device(&device).budget(64 << 20).device_budget(64 << 20).build()?;
//! let file = carrier.open(path)?;
//! let landed = carrier.carry_blocking(&[Extent::new(&file, 0, 9), Extent::new(&file, 10, 4)])?;
//! assert_eq!(landed.to_host(1)?, b"name");
//! println!("{:?} by {:?}", landed.device_address(1), landed.carried());
//! # Ok(())
//! # }
//! ```
//!
//! Below it stands a [`Reader`], for those whose bytes stay on the host: it takes lists of extents into one [`Arena`] of
//! registered memory, through io_uring and `O_DIRECT` where the machine allows it, and through what it does allow where
//! not.
//!
//! ```
//! # fn main() -> Result<(), forebay::Error> {
//! # let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
//! use forebay::{Extent, Reader};
//!
//! let reader = Reader::builder().budget(64 << 20).build()?;
//! let file = reader.open(path)?;
//! let pieces = reader.read_blocking(&[Extent::new(&file, 0, 9), Extent::new(&file, 10, 4)])?;
//! assert_eq!(&pieces[0], b"[package]");
//! assert_eq!(&pieces[1], b"name");
//! # Ok(())
//! # }
//! ```
//!
//! The same with a runtime, which may be any: reads and carries are futures, and dropping one is safe at any moment.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), forebay::Error> {
//! # let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
//! use forebay::{Extent, ReadFault, Reader};
//!
//! let reader = Reader::builder().budget(64 << 20).build()?;
//! let file = reader.open(path)?;
//! let pieces = tokio::select! {
//!     pieces = reader.read(&[Extent::new(&file, 0, 9)]) => pieces?,
//!     () = tokio::time::sleep(std::time::Duration::from_secs(30)) => panic!("the disk is asleep"),
//! };
//! assert_eq!(&pieces[0], b"[package]");
//!
//! let error = reader.read(&[Extent::new(&file, file.len(), 1)]).await.unwrap_err();
//! assert!(matches!(error.fault, ReadFault::PastEnd { .. }));
//! # Ok(())
//! # }
//! ```

pub mod checkpoint;
pub mod dataset;
mod device;
#[cfg(test)]
#[path = "../tests/common/effort.rs"]
mod effort;
pub mod element;
#[cfg(test)]
mod emulated;
mod error;
pub mod facts;
pub mod loader;
mod memory;
pub mod pack;
mod route;
pub mod sampler;
#[cfg(test)]
#[path = "../tests/common/skipped.rs"]
mod skipped;
mod storage;
mod sync;
mod sys;
#[doc(hidden)]
pub mod temporary;
pub mod tuning;
mod units;
#[cfg(test)]
#[path = "../tests/common/work.rs"]
mod work;

pub use device::cufile::{
    Counters as CuFileCounters, CuFileFault, EntryState, Properties as CuFileProperties, Refusal,
    Version as CuFileVersion,
};
pub use device::{Device, DeviceBuffer, DeviceError, DeviceFault, DeviceKind, LinkRates};
pub use error::{BuildError, Error};
pub use loader::{Batch, BatchTensor, Loader, LoaderBuilder, LoaderError, LoaderFault, Missing, Ragged};
pub use memory::{Arena, Loan, MemoryError, PageKind, Slot};
pub use route::{
    Carrier, CarrierBuilder, Carry, CarryError, CarryFault, CarryInto, Decision, DirectForm, Hindrance, Landed,
    NoRoute, Placed, Rejected, Route, RouteBytes, Switch,
};
pub use sampler::{Remainder, Shuffle, State, World};
pub use storage::{
    Alignment, BlockingStream, CacheCause, Change, EngineChoice, EngineError, EngineKind, EngineStep, Extent, File,
    FileKind, Latencies, Mode, NoDirect, OpenError, OpenFault, Pieces, Read, ReadError, ReadFault, ReadStream, Reader,
    ReaderBuilder, ReaderSettings, RingFeatures, Stats,
};
pub use sync::ThreadError;
pub use sys::cuda::{CudaCode, NoCudaLibrary};
pub use sys::cufile::CuFileCode;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
