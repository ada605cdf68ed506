//! A ring's table of fixed files: those that are read often, a bounded number of them.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{Submitter, types::Fixed};

use super::super::super::descriptors::Descriptors;
use super::super::super::layout::Via;
use super::{Inbox, Letter};
use crate::sys::limits;

/// Registering costs a system call: a file that is read this often is worth it.
const OFTEN: u32 = 8;

#[derive(Debug)]
pub(super) struct FixedFiles {
    /// By pair of descriptors.
    known: HashMap<u64, Known>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Known {
    reads: u32,
    buffered: Option<u32>,
    direct: Option<u32>,
}

impl FixedFiles {
    /// An empty table in the kernel; one of no places where it refuses.
    pub(super) fn register(submitter: &Submitter<'_>) -> Self {
        const MOST: u64 = 512;
        let places = (limits::open_files() / 2).min(MOST) as u32;
        let free = match submitter.register_files_sparse(places) {
            Ok(()) => (0..places).rev().collect(),
            Err(error) => {
                tracing::debug!("io_uring runs without fixed files: {error}");
                Vec::new()
            }
        };
        Self { known: HashMap::new(), free }
    }

    pub(super) fn has_places(&self) -> bool {
        !self.free.is_empty()
    }

    /// The fixed file of a pair's descriptor, registered now if it is read often and a place is free.
    pub(super) fn fixed(
        &mut self,
        pair: &Arc<Descriptors>,
        via: Via,
        submitter: &Submitter<'_>,
        inbox: &Arc<Inbox>,
    ) -> Option<Fixed> {
        if self.free.is_empty() && self.known.is_empty() {
            return None;
        }
        let known = self.known.entry(pair.id).or_insert_with(|| {
            // Weak, or a file that outlives its reader would keep the ring's bell.
            let inbox = Arc::downgrade(inbox);
            pair.on_close(Box::new(move |id| {
                if let Some(inbox) = inbox.upgrade() {
                    let _ = inbox.post(Letter::Closed(id));
                }
            }));
            Known::default()
        });
        let place = match via {
            Via::Buffered => &mut known.buffered,
            Via::Direct => &mut known.direct,
        };
        if place.is_none() {
            known.reads += 1;
            if known.reads >= OFTEN
                && let Some(free) = self.free.pop()
            {
                let fd = match via {
                    Via::Buffered => Some(pair.buffered().as_raw_fd()),
                    Via::Direct => pair.direct().ok().map(|fd| fd.as_raw_fd()),
                };
                let registered = fd.and_then(|fd| submitter.register_files_update(free, &[fd]).ok());
                match registered {
                    Some(1..) => *place = Some(free),
                    _ => self.free.push(free),
                }
            }
        }
        place.map(Fixed)
    }

    /// Lets go of a pair that was closed: until then the kernel keeps its files open.
    pub(super) fn forget(&mut self, pair: u64, submitter: &Submitter<'_>) {
        let Some(known) = self.known.remove(&pair) else { return };
        for place in [known.buffered, known.direct].into_iter().flatten() {
            if submitter.register_files_update(place, &[-1]).is_ok() {
                self.free.push(place);
            }
        }
    }
}
