//! What a child works with: a device, cuFile, a file with known bytes, and the emulator's own voice.

use std::any::Any;
use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::libc;

use super::super::super::{Batch, Context, CuFile, CuFileError, Form, Handle, Pool, Registration, Stream, Transfer};
use crate::device::cuda::CudaDevice;
use crate::emulated::{Emulator, folder};

pub(super) struct Rig {
    pub(super) device: Arc<CudaDevice>,
    pub(super) context: Context,
    pub(super) cufile: Arc<CuFile>,
    pub(super) emulator: Emulator,
    dir: tempfile::TempDir,
}

impl Rig {
    pub(super) fn new() -> Self {
        let device = Arc::new(CudaDevice::new(0).unwrap());
        let context = Context::new(device.context()).unwrap();
        let cufile = CuFile::open(device.context()).unwrap();
        Self { device, context, cufile, emulator: Emulator::new(), dir: folder() }
    }

    pub(super) fn forms(&self) -> [(&'static str, Box<dyn Form>); 3] {
        [
            ("pool", Box::new(Pool::new(&self.cufile, &self.context, 4).unwrap())),
            ("batch", Box::new(Batch::new(&self.cufile, &self.context).unwrap())),
            ("stream", Box::new(Stream::new(&self.cufile, &self.context).unwrap())),
        ]
    }

    /// Registered device memory.
    pub(super) fn memory(&self, len: usize) -> Arc<Registration> {
        self.try_memory(len).unwrap()
    }

    pub(super) fn try_memory(&self, len: usize) -> Result<Arc<Registration>, CuFileError> {
        let memory = self.device.allocate(len).unwrap();
        let base = memory.address();
        let keep: Arc<dyn Any + Send + Sync> = Arc::new(memory);
        Registration::new(&self.cufile, &self.context, base, len, keep)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file of so many bytes, all known.
    pub(super) fn file(&self, name: &str, len: usize) -> (Vec<u8>, Arc<Handle>) {
        let bytes = noise(len, name.len() as u64 + len as u64);
        std::fs::write(self.path(name), &bytes).unwrap();
        (bytes, self.handle(name))
    }

    pub(super) fn handle(&self, name: &str) -> Arc<Handle> {
        let fd: Arc<dyn AsFd + Send + Sync> = Arc::new(open(&self.path(name), libc::O_DIRECT));
        Handle::new(&self.cufile, fd).unwrap()
    }

    /// A transfer of the pages around `from..from + need` of the file to `to` in the memory.
    pub(super) fn transfer(
        &self,
        handle: &Arc<Handle>,
        memory: &Arc<Registration>,
        from: u64,
        need: u64,
        to: u64,
    ) -> Transfer {
        Transfer::new(handle, memory, from, need.next_multiple_of(4096), need, to).unwrap()
    }

    /// Ends everything, and wants the emulator to have nothing to say against it.
    pub(super) fn end(self) {
        let Self { device, context, cufile, emulator, dir } = self;
        drop((device, context, cufile, dir));
        emulator.is_content();
        assert_eq!((emulator.counter("handles"), emulator.counter("buffers")), (0, 0));
    }
}

pub(super) fn open(path: &Path, flags: i32) -> File {
    OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap()
}

/// Bytes in which every eight tell where they are.
pub(super) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let word = |at: u64| (at ^ seed << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0..len.div_ceil(8) as u64).flat_map(word).take(len).collect()
}
