use std::fmt;
use std::ops::{Index, Range};
use std::sync::Arc;

use bytes::Bytes;

use super::request::Request;
use super::stats::Stats;

/// The bytes of each extent of one read, in the order asked, where they landed: nothing is copied.
///
/// A process that is forked from this one does not have the bytes: there each extent is empty.
///
/// The memory goes back to the arena when this, and every [`Bytes`] taken from it, is gone.
pub struct Pieces {
    /// Absent where no extent had a byte.
    request: Option<Arc<Request>>,
    ranges: Vec<Range<usize>>,
}

impl Pieces {
    /// `request` is whole, and no job of it is left.
    pub(super) fn new(request: Option<Arc<Request>>, ranges: Vec<Range<usize>>) -> Self {
        Self { request, ranges }
    }

    /// Those of nothing.
    pub(crate) fn none() -> Self {
        Self { request: None, ranges: Vec::new() }
    }

    /// How many extents were read.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether no extent was asked for.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The bytes of one extent, or `None` past the last.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.ranges.get(index).and_then(|range| self.landed().get(range.clone()))
    }

    /// The bytes of each extent, in the order asked.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.ranges.iter().map(|range| self.landed().get(range.clone()).unwrap_or_default())
    }

    /// The bytes of one extent as a shared handle, which keeps the memory of the whole read.
    ///
    /// # Panics
    /// Where `index` is past the last extent, as indexing a slice does.
    pub fn bytes(&self, index: usize) -> Bytes {
        let range = self.ranges[index].clone();
        match &self.request {
            Some(request) if !range.is_empty() => Bytes::from_owner(Shared { request: Arc::clone(request), range }),
            _ => Bytes::new(),
        }
    }

    /// Bytes by the way they came; `None` where there was nothing to read.
    pub(crate) fn carried(&self) -> Option<Stats> {
        self.request.as_ref().map(|request| request.carried())
    }

    pub(super) fn request(&self) -> Option<&Arc<Request>> {
        self.request.as_ref()
    }

    /// The read itself, with the memory that it landed in; `None` where there was nothing to read.
    pub(crate) fn into_request(self) -> Option<Arc<Request>> {
        self.request
    }

    fn landed(&self) -> &[u8] {
        self.request.as_ref().map_or(&[], |request| request.landed())
    }
}

impl Index<usize> for Pieces {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        &self.landed()[self.ranges[index].clone()]
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces").field("len", &self.len()).finish_non_exhaustive()
    }
}

struct Shared {
    request: Arc<Request>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.request.landed()[self.range.clone()]
    }
}
