use std::path::Path;
use std::sync::{Arc, Mutex};

use cudarc::driver::CudaContext;

use super::context::Context;
use super::counters::{Counters, Counting};
use super::error::{CuFileError, Refusal};
use super::properties::Properties;
use super::version::{Verdict, Version, judge};
use crate::memory::Owner;
use crate::sync::lock;
use crate::sys::cufile::{self, Calls, CuFileCode, feature};

/// cuFile, opened: once per process, whatever the number of devices.
///
/// It is never closed. Others of this process may use it; the order in which libraries are torn down when a process
/// exits is nobody's to know; and cuFile closes itself then. The whole process shares its settings: of them only the
/// level of its statistics is changed, and that only while somebody [counts](CuFile::count).
#[derive(Debug)]
pub(crate) struct CuFile {
    pub(super) calls: &'static Calls,
    properties: Properties,
    version: Option<Version>,
    counting: Mutex<Counting>,
    /// The process that opened it.
    owner: Owner,
}

impl CuFile {
    /// Opens cuFile, or gives what was opened before. It is opened with `context` current, which it needs, though it
    /// serves any context afterwards.
    ///
    /// # Errors
    /// [`CuFileError`], where there is no library, it cannot be opened, the nvidia-fs driver is one that is known to be
    /// broken, or this process was forked from the one that opened it.
    pub(crate) fn open(context: &Arc<CudaContext>) -> Result<Arc<Self>, CuFileError> {
        static OPENED: Mutex<Option<Arc<CuFile>>> = Mutex::new(None);
        let mut opened = lock(&OPENED);
        if let Some(cufile) = &*opened {
            cufile.check_process()?;
            return Ok(Arc::clone(cufile));
        }
        let calls = cufile::library()?;
        let nvidia_fs = Version::of_nvidia_fs(Path::new("/"));
        let cufile = Self::with(calls, &Context::new(context)?, nvidia_fs)?;
        Ok(Arc::clone(opened.insert(cufile)))
    }

    pub(super) fn with(
        calls: &'static Calls,
        context: &Context,
        nvidia_fs: Option<Version>,
    ) -> Result<Arc<Self>, CuFileError> {
        let verdict = nvidia_fs.map_or(Verdict::Good, judge);
        if verdict == Verdict::Broken {
            return Err(CuFileError::BrokenNvidiaFs);
        }
        let _current = context.enter()?;
        // SAFETY: a context is current.
        let status = unsafe { (calls.driver_open)() };
        // Another user of this process may have been first.
        if status.err != CuFileCode::DRIVER_ALREADY_OPEN.0 {
            Refusal::check("cuFileDriverOpen", status)?;
        }
        let (properties, status_flags) = Properties::ask(calls, nvidia_fs)?;
        if verdict == Verdict::BadForRdma && status_flags & feature::RDMA != 0 {
            tracing::warn!(
                "cuFile: nvidia-fs before 2.28.4 may corrupt reads over RDMA of buffers beyond 4 GiB; install 2.28.4"
            );
        }
        let (counting, owner) = (Mutex::default(), Owner::this());
        Ok(Arc::new(Self { calls, properties, version: library_version(calls), counting, owner }))
    }

    /// What it can do, as it said when it was opened.
    pub(crate) fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The version of the library. `None` before CUDA 12.3, which brought the question.
    pub(crate) fn version(&self) -> Option<Version> {
        self.version
    }

    /// Has cuFile count until what is returned is dropped. The level of its statistics is raised to 3 meanwhile if it is lower.
    pub(crate) fn count(self: &Arc<Self>) -> Count {
        if let Some(stats) = self.calls.stats.as_ref().filter(|_| self.is_ours()) {
            lock(&self.counting).enter(stats);
        }
        Count(Arc::clone(self))
    }

    /// Refuses in a process that was forked from the one that opened cuFile.
    pub(super) fn check_process(&self) -> Result<(), CuFileError> {
        if self.is_ours() { Ok(()) } else { Err(CuFileError::Forked) }
    }

    pub(super) fn is_ours(&self) -> bool {
        self.owner.is_here()
    }
}

/// While this lives, cuFile counts.
#[derive(Debug)]
pub(crate) struct Count(Arc<CuFile>);

impl Count {
    /// What cuFile itself has counted in this process: take it before the reads and after them. `None` where the library keeps no
    /// counts (before CUDA 13.0), or refuses.
    pub(crate) fn now(&self) -> Option<Counters> {
        self.0.check_process().ok()?;
        lock(&self.0.counting).now(self.0.calls.stats.as_ref()?)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        if let Some(stats) = self.0.calls.stats.as_ref().filter(|_| self.0.is_ours()) {
            lock(&self.0.counting).leave(stats);
        }
    }
}

fn library_version(calls: &Calls) -> Option<Version> {
    let mut number = 0;
    // SAFETY: cuFile writes one number.
    let status = unsafe { calls.version?(&mut number) };
    if status.err == 0 { Version::of_library(number) } else { None }
}
