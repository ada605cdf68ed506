//! Which bytes are free: the lowest span that fits is taken, and one that is released is joined with its free neighbours.

use std::collections::BTreeMap;

/// What spans are rounded up to, in bytes: a multiple of every sector size, so that neighbours never share one.
pub(crate) const GRAIN: usize = 4096;

/// A part of the arena: `start..start + len`, where `len` is a multiple of [`GRAIN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) len: usize,
}

impl Span {
    pub(super) fn end(&self) -> usize {
        self.start + self.len
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) len: usize,
    pub(super) align: usize,
}

#[derive(Debug)]
pub(super) struct Spans {
    /// Start and length of each free span; no two of them touch.
    free: BTreeMap<usize, usize>,
    len: usize,
    in_use: usize,
    limit: usize,
}

impl Spans {
    pub(super) fn new(len: usize) -> Self {
        Self { free: BTreeMap::from([(0, len)]), len, in_use: 0, limit: len }
    }

    /// Bytes in all.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that are taken.
    pub(super) fn in_use(&self) -> usize {
        self.in_use
    }

    /// Nothing beyond it is taken, but what is longer than that.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The lowest free span that fits: memory used last is near the start, and still in the CPU's caches.
    pub(super) fn take(&mut self, want: Want) -> Option<Span> {
        let len = want.len.max(1).checked_next_multiple_of(GRAIN)?;
        // What can never fit below the limit need not wait for it: its holder finds out whether the memory is there.
        let limit = if len > self.limit { usize::MAX } else { self.limit };
        let (from, size, start) = self.free.iter().find_map(|(&from, &size)| {
            let start = from.checked_next_multiple_of(want.align.max(GRAIN))?;
            (start.checked_add(len)? <= (from + size).min(limit)).then_some((from, size, start))
        })?;
        self.free.remove(&from);
        if start > from {
            self.free.insert(from, start - from);
        }
        if start + len < from + size {
            self.free.insert(start + len, from + size - start - len);
        }
        self.in_use += len;
        Some(Span { start, len })
    }

    pub(super) fn put(&mut self, span: Span) {
        let Span { mut start, mut len } = span;
        if len == 0 {
            return;
        }
        self.in_use -= len;
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            self.free.remove(&before);
            start = before;
            len += size;
        }
        if let Some(size) = self.free.remove(&(start + len)) {
            len += size;
        }
        self.free.insert(start, len);
    }
}
