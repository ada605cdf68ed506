//! Which process made a thing: a forked child has its parent's handles, but neither the parent's threads nor the pages of its
//! arenas, and a lock that another thread held at the fork is held in the child for ever.

use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::MmapOptions;
use nix::libc;

/// The process that made something. To ask costs a load: reads ask several times each, and a system call each time would cost as
/// much as the read of a warm block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u32);

/// The number of the process that this memory was copied from last. Others than 0, and each child's is one more than its parent's:
/// siblings may have the same, and share no handle.
static LAST: AtomicU32 = AtomicU32::new(0);

impl Owner {
    /// This process.
    pub(crate) fn this() -> Self {
        let Some(number) = number() else { return Self(process::id()) };
        match number.load(Ordering::Relaxed) {
            0 => Self(first(number)),
            known => Self(known),
        }
    }

    /// Whether this is that process, and not one forked from it.
    pub(crate) fn is_here(self) -> bool {
        self.0 == number().map_or_else(process::id, |number| number.load(Ordering::Relaxed))
    }
}

/// The first time that this process is asked for.
#[cold]
fn first(number: &AtomicU32) -> u32 {
    let next = LAST.load(Ordering::Relaxed).wrapping_add(1).max(1);
    match number.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            LAST.store(next, Ordering::Relaxed);
            next
        }
        // Another thread was first.
        Err(known) => known,
    }
}

/// A page that is zeros in every forked child: `None` before Linux 4.14, which has none.
fn number() -> Option<&'static AtomicU32> {
    const LEN: usize = 4096;
    static PAGE: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    *PAGE.get_or_init(|| {
        let mut page = MmapOptions::new().len(LEN).map_anon().ok()?;
        let address = page.as_mut_ptr().cast::<u32>();
        // SAFETY: exactly this mapping, of which nothing has been used yet.
        let refused = unsafe { libc::madvise(address.cast(), LEN, libc::MADV_WIPEONFORK) } != 0;
        if refused {
            return None;
        }
        std::mem::forget(page);
        // SAFETY: the page is mapped for ever, aligned, zeroed, and only ever used as this atomic.
        Some(unsafe { AtomicU32::from_ptr(address) })
    })
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;

    /// The exit status of a forked child.
    fn forked(work: impl FnOnce() -> bool) -> i32 {
        // SAFETY: the child only asks who it is, and leaves.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = i32::from(!work());
            // SAFETY: a plain call.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: the child is ours.
        unsafe { libc::waitpid(child, &mut status, 0) };
        status
    }

    #[test]
    fn no_child_is_its_parent_or_its_parents_parent() {
        let parent = Owner::this();
        assert!(parent.is_here() && parent == Owner::this());
        let child = || {
            let was_none = !parent.is_here();
            let child = Owner::this();
            let grandchild = || {
                let grandchild = Owner::this();
                !parent.is_here() && !child.is_here() && grandchild.is_here()
            };
            was_none && child.is_here() && child != parent && !parent.is_here() && forked(grandchild) == 0
        };
        assert_eq!(forked(child), 0);
        assert!(parent.is_here());
    }
}
