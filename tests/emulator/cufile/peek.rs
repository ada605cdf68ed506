//! Memory of the program under test that it may have freed by now: moved by the kernel, which answers with an error where
//! a plain access would kill the process.

use nix::libc;
use std::ffi::c_void;
use std::mem::MaybeUninit;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Towards {
    Us,
    Them,
}

/// The value at that address, or `None` where no memory is. For integers, and structures of integers.
pub fn read<T: Copy>(address: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: `value` is ours and of that size.
    let moved = unsafe { shift(Towards::Us, value.as_mut_ptr().cast(), address, size_of::<T>()) };
    // SAFETY: all bytes were written, and any bytes are a value of such a type.
    moved.then(|| unsafe { value.assume_init() })
}

/// Reads as many bytes as the slice has, and says whether there was memory to read.
pub fn read_bytes(address: usize, bytes: &mut [u8]) -> bool {
    // SAFETY: the slice is ours and of that length.
    unsafe { shift(Towards::Us, bytes.as_mut_ptr(), address, bytes.len()) }
}

/// Writes there, and says whether there was memory to write to.
pub fn write(address: usize, bytes: &[u8]) -> bool {
    // SAFETY: the slice is ours, of that length, and only read.
    unsafe { shift(Towards::Them, bytes.as_ptr().cast_mut(), address, bytes.len()) }
}

/// # Safety
/// `ours` is memory of that length; it is written only towards us.
unsafe fn shift(towards: Towards, ours: *mut u8, theirs: usize, len: usize) -> bool {
    let here = libc::iovec { iov_base: ours.cast(), iov_len: len };
    let there = libc::iovec { iov_base: theirs as *mut c_void, iov_len: len };
    let pid = std::process::id() as libc::pid_t;
    // SAFETY: `here` is valid by this function's contract; whatever `there` is, the kernel checks it.
    let moved = unsafe {
        match towards {
            Towards::Us => libc::process_vm_readv(pid, &here, 1, &there, 1, 0),
            Towards::Them => libc::process_vm_writev(pid, &here, 1, &there, 1, 0),
        }
    };
    if moved >= 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) {
        return moved == len as isize;
    }
    // A sandbox forbids those calls, so a plain access has to do: it can be trusted as far as the program under test.
    let theirs = theirs as *mut u8;
    // SAFETY: as above, and `theirs` is what the program promised to keep.
    unsafe {
        match towards {
            Towards::Us => std::ptr::copy_nonoverlapping(theirs, ours, len),
            Towards::Them => std::ptr::copy_nonoverlapping(ours, theirs, len),
        }
    }
    true
}
