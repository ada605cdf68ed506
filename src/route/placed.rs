//! Extents with a place of their own: which cuFile can read there itself, and how the others are copied there.

use super::direct::least_align;
use super::error::{CarryError, CarryFault};
use super::job::Load;
use crate::device::Span;
use crate::storage::{Extent, Group, Part, Via};

/// An extent, and where its bytes are to lie.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The bytes of a file.
    pub extent: Extent,
    /// Where they begin in the buffer, in bytes.
    pub at: usize,
}

impl Placed {
    /// The bytes of `extent`, at `at` of the buffer.
    pub fn new(extent: Extent, at: usize) -> Self {
        Self { extent, at }
    }

    fn end(&self) -> Option<usize> {
        usize::try_from(self.extent.len).ok().and_then(|len| self.at.checked_add(len))
    }

    /// Whether cuFile can read exactly these bytes to exactly there: whole blocks, or up to the end of the file where
    /// the buffer of `len` bytes ends too. A drive writes its last block whole, so behind the end there must be nobody's
    /// bytes, and memory: `allocated` in all.
    pub(super) fn is_aligned(&self, len: usize, allocated: usize) -> bool {
        let block = u64::from(least_align(&self.extent.file));
        let (offset, bytes) = (self.extent.offset, self.extent.len);
        let room = bytes.checked_next_multiple_of(block).and_then(|bytes| usize::try_from(bytes).ok());
        let fits = room.and_then(|room| self.at.checked_add(room)).is_some_and(|end| end <= allocated);
        let to_the_end = offset + bytes == self.extent.file.len() && self.end() == Some(len);
        let ends_well = bytes.is_multiple_of(block) || to_the_end;
        offset.is_multiple_of(block) && (self.at as u64).is_multiple_of(block) && ends_well && fits
    }

    /// The whole blocks that it begins with, and the rest.
    pub(super) fn split(&self) -> (Self, Self) {
        let Extent { file, offset, len } = &self.extent;
        let whole = len - len % u64::from(least_align(file));
        let rest = Self::new(Extent::new(file, offset + whole, len - whole), self.at + whole as usize);
        (Self::new(Extent::new(file, *offset, whole), self.at), rest)
    }

    /// As one part of file number `file` of a list. Only where it [is aligned](Self::is_aligned).
    pub(super) fn part(&self, file: u32) -> Part {
        let block = u64::from(least_align(&self.extent.file));
        let need = self.extent.offset..self.extent.offset + self.extent.len;
        let wide = need.start..need.end.next_multiple_of(block);
        Part { file, need, wide, asked: self.extent.len, landing: self.at, via: Via::Direct }
    }
}

/// Sees that every extent has its place inside the buffer, and no two the same.
pub(super) fn check(placed: &[Placed], buffer: usize) -> Result<(), CarryError> {
    let wrong = |placed: &Placed, what| {
        let (path, offset) = (placed.extent.file.path().to_owned(), placed.extent.offset);
        Err(CarryError {
            path,
            offset,
            fault: CarryFault::Place { at: placed.at, len: placed.extent.len, buffer, what },
        })
    };
    let mut order: Vec<&Placed> = placed.iter().filter(|placed| !placed.extent.is_empty()).collect();
    order.sort_unstable_by_key(|placed| placed.at);
    let mut taken = 0;
    for placed in order {
        match placed.end() {
            Some(end) if end <= buffer => {
                if placed.at < taken {
                    return wrong(placed, "is another extent's too");
                }
                taken = end;
            }
            _ => return wrong(placed, "passes the end of the buffer"),
        }
    }
    Ok(())
}

/// The copies that bring each group of a layout to the places of the extents in it. `pieces` and `places` are by extent:
/// its range of the layout, and where it goes.
pub(super) fn loads(groups: Vec<Group>, pieces: &[std::ops::Range<usize>], places: &[usize]) -> Vec<Load> {
    let mut loads: Vec<Load> = groups.into_iter().map(|group| Load { group, spans: Vec::new() }).collect();
    for (piece, &place) in pieces.iter().zip(places).filter(|(piece, _)| !piece.is_empty()) {
        let first = loads.partition_point(|load| load.group.to + load.group.len <= piece.start);
        for Load { group, spans } in loads[first..].iter_mut().take_while(|load| load.group.to < piece.end) {
            let start = piece.start.max(group.to);
            let end = piece.end.min(group.to + group.len);
            let from = group.from + (start - group.to);
            spans.push(Span { from, to: place + (start - piece.start), len: end - start });
        }
    }
    for load in &mut loads {
        load.spans.sort_unstable_by_key(|span| span.to);
        load.spans.dedup_by(|next, last| {
            let goes_on = last.from + last.len == next.from && last.to + last.len == next.to;
            if goes_on {
                last.len += next.len;
            }
            goes_on
        });
    }
    loads
}
