//! Memory of the program under test that it may have freed by now: looked at through the kernel, which answers with an
//! error where a plain access would kill the process.

use nix::libc;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// The value at that address, or `None` where no memory is.
pub fn read<T: Copy>(address: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    let size = size_of::<T>();
    let here = libc::iovec { iov_base: value.as_mut_ptr().cast(), iov_len: size };
    let there = libc::iovec { iov_base: address as *mut c_void, iov_len: size };
    // SAFETY: `here` is memory of ours of that size; whatever `there` is, the kernel checks it.
    let moved = unsafe { libc::process_vm_readv(std::process::id() as libc::pid_t, &here, 1, &there, 1, 0) };
    // SAFETY: all bytes were written, and callers ask for integers and structures of integers and pointers only.
    (moved == size as isize).then(|| unsafe { value.assume_init() })
}

/// Writes there, and says whether there was memory to write to.
pub fn write(address: usize, bytes: &[u8]) -> bool {
    let here = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let there = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes.len() };
    // SAFETY: `here` is only read; whatever `there` is, the kernel checks it.
    let moved = unsafe { libc::process_vm_writev(std::process::id() as libc::pid_t, &here, 1, &there, 1, 0) };
    moved == bytes.len() as isize
}

/// Reads as many bytes as the slice has, and says whether there was memory to read.
pub fn read_bytes(address: usize, bytes: &mut [u8]) -> bool {
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let there = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes.len() };
    // SAFETY: `here` is memory of ours of that size; whatever `there` is, the kernel checks it.
    let moved = unsafe { libc::process_vm_readv(std::process::id() as libc::pid_t, &here, 1, &there, 1, 0) };
    moved == bytes.len() as isize
}
