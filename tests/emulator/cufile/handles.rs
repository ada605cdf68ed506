//! Registered files. A handle is a number; what it stands for is checked at every use, because the descriptor belongs
//! to the program, which may close it.

use super::abi::{Descr, HANDLE_TYPE_FD, Handle, Status, code};
use super::settings::{self, Path};
use super::{counters, gate, state, stats};
use crate::violations;
use nix::libc;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A registered file. `uses` counts the operations in flight, one more than there are.
#[derive(Clone, Debug)]
pub struct OpenHandle {
    pub fd: i32,
    device: u64,
    inode: u64,
    pub path: Path,
    pub uses: Arc<()>,
}

impl OpenHandle {
    /// The descriptor must still be the file that was registered.
    pub fn check_descriptor(&self, what: &str) -> Result<(), i32> {
        let fd = self.fd;
        let now = stat(fd).map(|stat| (stat.st_dev, stat.st_ino));
        match now {
            Some(now) if now == (self.device, self.inode) => Ok(()),
            Some(_) => {
                violations::report(format!("{what}: descriptor {fd} was closed and is another file now"));
                Err(libc::EBADF)
            }
            None => {
                violations::report(format!("{what}: descriptor {fd} was closed before its handle was deregistered"));
                Err(libc::EBADF)
            }
        }
    }
}

/// # Safety
/// As cuFile: `fh` and `descr` are null or point to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileHandleRegister(fh: *mut Handle, descr: *mut Descr) -> Status {
    let result = gate::enter_open("cuFileHandleRegister").and_then(|_| {
        let (fh, descr) = (gate::not_null(fh)?, gate::not_null(descr)?);
        // SAFETY: not null, and valid by this function's contract.
        let (kind, fd) = unsafe { ((*descr).kind, (*descr).handle.fd) };
        if kind != HANDLE_TYPE_FD {
            return Err(Status::of(code::IO_NOT_SUPPORTED));
        }
        let id = register(fd).map_err(Status::of);
        stats::operation(|level1| &mut level1.hdl_register_ops, id.is_ok());
        // SAFETY: as above.
        unsafe { *fh = id? as Handle };
        counters::add(&counters::HANDLE_REGISTRATIONS, 1);
        Ok(())
    });
    gate::answer(result)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileHandleDeregister(fh: Handle) {
    // It returns nothing, so a scripted failure has nothing to say.
    if gate::enter_open("cuFileHandleDeregister").is_err() {
        return;
    }
    let handle = state::lock().handles.remove(&(fh as usize));
    stats::operation(|level1| &mut level1.hdl_deregister_ops, handle.is_some());
    let Some(handle) = handle else {
        violations::report("cuFileHandleDeregister: this handle is not registered".into());
        return;
    };
    let _ = handle.check_descriptor("cuFileHandleDeregister");
    if Arc::strong_count(&handle.uses) > 1 {
        violations::report("cuFileHandleDeregister: operations on this file are in flight".into());
    }
}

fn register(fd: i32) -> Result<usize, i32> {
    if let Some(code) = settings::code("cufile_refuse_handle") {
        return Err(code);
    }
    let stat = stat(fd).ok_or(code::INVALID_VALUE)?;
    if !matches!(stat.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK) {
        return Err(code::INVALID_FILE_TYPE);
    }
    // SAFETY: asks for flags of a descriptor; any number is answered.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags & REFUSED_FLAGS != 0 {
        return Err(code::INVALID_FILE_OPEN_FLAG);
    }
    let path = path_of(fd, flags)?;
    let mut state = state::lock();
    if state.handles.values().any(|handle| handle.fd == fd) {
        return Err(code::HANDLE_ALREADY_REGISTERED);
    }
    let id = state.fresh_id();
    let handle = OpenHandle { fd, device: stat.st_dev, inode: stat.st_ino, path, uses: Arc::new(()) };
    state.handles.insert(id, handle);
    Ok(id)
}

/// The documentation's list. Of these the kernel forgets `O_NOCTTY` once a file is open, so no library can see it.
const REFUSED_FLAGS: i32 = libc::O_APPEND
    | libc::O_NOCTTY
    | libc::O_NONBLOCK
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | (libc::O_TMPFILE & !libc::O_DIRECTORY);

/// The way that the bytes of this file take, or the code that refuses it.
fn path_of(fd: i32, flags: i32) -> Result<Path, i32> {
    let refused = if settings::path() == Path::Compat {
        code::IO_NOT_SUPPORTED
    } else if !file_system_is_direct(fd) {
        code::INTERNAL_ERROR
    } else if flags & libc::O_DIRECT == 0 {
        code::DIO_NOT_SET
    } else {
        return Ok(settings::path());
    };
    if settings::compat_allowed() { Ok(Path::Compat) } else { Err(refused) }
}

fn file_system_is_direct(fd: i32) -> bool {
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    let mut about = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel fills the structure, and says 0 only if it did.
    let kind = unsafe {
        if libc::fstatfs(fd, about.as_mut_ptr()) != 0 {
            return false;
        }
        about.assume_init().f_type
    };
    !matches!(kind, libc::TMPFS_MAGIC | libc::OVERLAYFS_SUPER_MAGIC | RAMFS_MAGIC)
}

fn stat(fd: i32) -> Option<libc::stat> {
    let mut about = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel fills the structure, and says 0 only if it did.
    unsafe { (libc::fstat(fd, about.as_mut_ptr()) == 0).then(|| about.assume_init()) }
}
