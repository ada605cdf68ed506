use std::fmt;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;

use super::error::{CuFileError, Refusal};
use super::library::CuFile;
use crate::sys::cufile::{Descriptor, FileHandle};

/// A file that cuFile may read from, for as long as this lives. A file is registered once, not once per read; its
/// descriptor stays open until it is registered no more.
pub(crate) struct Handle {
    cufile: Arc<CuFile>,
    raw: FileHandle,
    direct: bool,
    /// Dropped after `drop` has deregistered it.
    _fd: Arc<dyn AsFd + Send + Sync>,
}

// SAFETY: cuFile's handles may be used on any thread, on several at once too; the pointer is only handed to cuFile.
unsafe impl Send for Handle {}
// SAFETY: as for `Send`.
unsafe impl Sync for Handle {}

impl Handle {
    /// Registers an open file.
    ///
    /// # Errors
    /// [`CuFileError::OpenFlag`] and [`CuFileError::NotReadable`] where it was opened in a way that cuFile refuses;
    /// [`CuFileError::Refused`] where cuFile refuses for reasons of its own, such as the file system.
    pub(crate) fn new(cufile: &Arc<CuFile>, fd: Arc<dyn AsFd + Send + Sync>) -> Result<Arc<Self>, CuFileError> {
        cufile.check_process()?;
        let flags = fcntl(fd.as_fd(), FcntlArg::F_GETFL).map_err(|errno| CuFileError::Descriptor(errno.into()))?;
        check_flags(flags)?;
        let mut raw = std::ptr::null_mut();
        let mut descriptor = Descriptor::of(fd.as_fd().as_raw_fd());
        // SAFETY: the descriptor is open, and `_fd` keeps it open until `drop` has deregistered it; cuFile writes one
        // pointer.
        let status = unsafe { (cufile.calls.handle_register)(&mut raw, &mut descriptor) };
        Refusal::check("cuFileHandleRegister", status)?;
        let direct = flags & libc::O_DIRECT != 0;
        Ok(Arc::new(Self { cufile: Arc::clone(cufile), raw, direct, _fd: fd }))
    }

    /// Whether the file is open with `O_DIRECT`. Without, cuFile from CUDA 12.2 on takes it, but reads it through the
    /// page cache where it likes.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    pub(super) fn raw(&self) -> FileHandle {
        self.raw
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.cufile.is_ours() {
            // SAFETY: it is registered, and no read is under way: each holds this handle.
            unsafe { (self.cufile.calls.handle_deregister)(self.raw) };
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("raw", &self.raw).field("direct", &self.direct).finish_non_exhaustive()
    }
}

/// cuFile refuses these itself, with one code for all of them. O_NOCTTY is one of them, too, but the kernel keeps no
/// trace of it.
fn check_flags(flags: i32) -> Result<(), CuFileError> {
    // O_TMPFILE contains O_DIRECTORY.
    const REFUSED: [(OFlag, &str); 6] = [
        (OFlag::O_APPEND, "O_APPEND"),
        (OFlag::O_NONBLOCK, "O_NONBLOCK"),
        (OFlag::O_TMPFILE, "O_TMPFILE"),
        (OFlag::O_DIRECTORY, "O_DIRECTORY"),
        (OFlag::O_NOFOLLOW, "O_NOFOLLOW"),
        (OFlag::O_NOATIME, "O_NOATIME"),
    ];
    let flags = OFlag::from_bits_retain(flags);
    if let Some(&(_, name)) = REFUSED.iter().find(|(flag, _)| flags.contains(*flag)) {
        return Err(CuFileError::OpenFlag(name));
    }
    if flags.contains(OFlag::O_PATH) || flags & OFlag::O_ACCMODE == OFlag::O_WRONLY {
        return Err(CuFileError::NotReadable);
    }
    Ok(())
}
