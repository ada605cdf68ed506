//! From extents to a layout with the way each part takes: direct, or through the page cache where it is warm.

use std::ops::Range;
use std::sync::Arc;

use super::align::Alignment;
use super::descriptors::Descriptors;
use super::direct::NoDirect;
use super::error::{ReadError, ReadFault};
use super::extent::Extent;
use super::file::File;
use super::layout::{FileAlign, Layout, Part, Span, Via, layout};
use crate::memory::MemoryError;

/// Whether reads go past the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// What is in the page cache is read from there, the rest past it; buffered where there are no direct reads.
    #[default]
    Auto,
    /// Always past the page cache (`O_DIRECT`); an error where that cannot be had. Where a file system takes such reads and
    /// fills the page cache all the same, they are counted as buffered, and a warning says so.
    Direct,
    /// Always through the page cache.
    Buffered,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanSettings {
    pub(crate) mode: Mode,
    pub(crate) chunk: u64,
    pub(crate) gap: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) files: Vec<File>,
    pub(crate) layout: Layout,
    /// What the slot's address must be a multiple of.
    pub(crate) memory_align: usize,
}

/// The memory that a plan must fit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlanRoom {
    /// A host budget of so many bytes.
    Host(u64),
    /// A device budget.
    Device(u64),
    /// That of the caller, who has it already.
    Any,
}

impl Plan {
    pub(crate) fn new(extents: &[Extent], settings: PlanSettings, room: PlanRoom) -> Result<Self, ReadError> {
        Self::with_least(extents, settings, room, |_| 1)
    }

    /// As [`new`](Self::new), with every read of a file a multiple of at least `least(file)` bytes, a power of two, and
    /// landing at one.
    pub(crate) fn with_least(
        extents: &[Extent],
        settings: PlanSettings,
        room: PlanRoom,
        least: impl Fn(&File) -> u32,
    ) -> Result<Self, ReadError> {
        let (files, spans) = number_files(extents)?;
        let mut aligns = Vec::with_capacity(files.len());
        let mut memory_align = 1;
        for file in &files {
            let mut align = file_align(file, settings)?;
            let least = least(file);
            align.memory = align.memory.max(least as usize);
            align.offset = align.offset.max(u64::from(least));
            memory_align = memory_align.max(align.memory);
            aligns.push(align);
        }
        let layout = layout(&spans, &aligns, settings.chunk, settings.gap, room.bytes())
            .map_err(|asked| too_large(extents, room, asked))?;
        Ok(Self { files, layout, memory_align })
    }
}

/// Gives each file a number, in the order of opening, and checks every extent against its file.
pub(super) fn number_files(extents: &[Extent]) -> Result<(Vec<File>, Vec<Span>), ReadError> {
    let mut files: Vec<&File> = extents.iter().filter(|extent| !extent.is_empty()).map(Extent::file).collect();
    files.sort_unstable_by_key(|file| file.inner.id);
    files.dedup_by_key(|file| file.inner.id);
    let mut spans = Vec::with_capacity(extents.len());
    let mut last = 0;
    for extent in extents {
        let Extent { file, offset, len } = extent;
        if offset.checked_add(*len).is_none_or(|end| end > file.len().min(i64::MAX as u64 >> 1)) {
            let fault = ReadFault::PastEnd { len: *len, file_len: file.len() };
            return Err(ReadError { path: file.path().to_owned(), offset: *offset, fault });
        }
        if files.get(last).is_none_or(|known| known.inner.id != file.inner.id) {
            last = files.binary_search_by_key(&file.inner.id, |file| file.inner.id).unwrap_or(0);
        }
        spans.push(Span { file: last as u32, offset: *offset, len: *len });
    }
    Ok((files.into_iter().cloned().collect(), spans))
}

pub(super) fn file_align(file: &File, settings: PlanSettings) -> Result<FileAlign, ReadError> {
    let buffered = FileAlign { via: Via::Buffered, memory: 1, offset: 1 };
    match (settings.mode, file.direct()) {
        (Mode::Buffered, _) | (Mode::Auto, Err(_)) => Ok(buffered),
        // A block that does not divide a chunk is larger than any known one: whole ones are not worth their waste.
        (Mode::Auto, Ok(align)) if !settings.chunk.is_multiple_of(u64::from(align.offset)) => Ok(buffered),
        (_, Ok(Alignment { memory, offset })) => {
            Ok(FileAlign { via: Via::Direct, memory: memory as usize, offset: u64::from(offset) })
        }
        (Mode::Direct, Err(reason)) => Err(no_direct(file, reason)),
    }
}

fn no_direct(file: &File, reason: NoDirect) -> ReadError {
    ReadError { path: file.path().to_owned(), offset: 0, fault: ReadFault::NoDirect(reason) }
}

impl PlanRoom {
    fn bytes(self) -> usize {
        match self {
            Self::Host(bytes) | Self::Device(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
            Self::Any => usize::MAX,
        }
    }
}

fn too_large(extents: &[Extent], room: PlanRoom, asked: u64) -> ReadError {
    let (path, offset) =
        extents.first().map_or_else(Default::default, |first| (first.file.path().to_owned(), first.offset));
    let error = match room {
        PlanRoom::Host(budget) => MemoryError::OverBudget { asked, budget },
        PlanRoom::Device(budget) => MemoryError::OverDeviceBudget { asked, budget },
        PlanRoom::Any => MemoryError::OverBudget { asked, budget: usize::MAX as u64 },
    };
    ReadError { path, offset, fault: ReadFault::Memory(error) }
}

/// Sends the parts of one file that are already in the page cache through it. All `parts` are of `file`.
///
/// Asking costs a system call, which would be much for a read of 4 KiB: of many small parts a few are asked for, and
/// the others only where those few disagree.
pub(crate) fn prefer_warm(file: &File, pair: &Arc<Descriptors>, parts: &mut [Part]) {
    const FEW: usize = 16;
    const LARGE: u64 = 256 << 10;
    let warm = |part: &Part| file.inner.resident_share(pair, part.need.start, len(&part.need)) >= 0.875;
    let step = parts.len() / FEW;
    if step > 1 && parts.iter().all(|part| len(&part.need) < LARGE) {
        let asked = || parts.iter().step_by(step);
        let warm_ones = asked().filter(|part| warm(part)).count();
        if warm_ones == 0 {
            return;
        }
        if warm_ones == asked().count() {
            parts.iter_mut().for_each(|part| part.via = Via::Buffered);
            return;
        }
    }
    for part in parts {
        if warm(part) {
            part.via = Via::Buffered;
        }
    }
}

fn len(range: &Range<u64>) -> u64 {
    range.end - range.start
}
