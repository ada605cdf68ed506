//! Where the bytes of a request lie, in the files and in the memory that they land in: pure arithmetic.
//!
//! Extents are sorted by file and offset; neighbours with a small gap between them become one run; each run is widened
//! to its file's alignment, given a place in the slot, and cut into parts of at most a chunk. Each extent is then a
//! range of the slot.

use std::ops::Range;

use super::align::{up, widen};

/// One extent, its file by number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) file: u32,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// What one read to the kernel is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) file: u32,
    /// What must be read: bytes that somebody asked for, and small gaps between such; never empty.
    pub(crate) need: Range<u64>,
    /// `need`, widened to the alignment.
    pub(crate) wide: Range<u64>,
    /// Bytes of extents that lie in `need`, each extent for itself: over all parts, the bytes that are delivered.
    pub(crate) asked: u64,
    /// Where `wide` begins in the slot.
    pub(crate) landing: usize,
    pub(crate) via: Via,
}

/// The way one read takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// Past the page cache.
    Direct,
    /// Through it.
    Buffered,
}

#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// By file and offset.
    pub(crate) parts: Vec<Part>,
    /// For each extent, in the order given, its range of the slot.
    pub(crate) pieces: Vec<Range<usize>>,
    /// Bytes of the slot.
    pub(crate) len: usize,
}

/// How one file is read, and what its reads must be multiples of: 1 through the page cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileAlign {
    pub(crate) via: Via,
    pub(crate) memory: usize,
    pub(crate) offset: u64,
}

/// Lays out `spans`, whose ends are at most `i64::MAX`; `aligns` is by file number, `chunk` a multiple of each
/// alignment.
///
/// # Errors
/// The bytes of memory that they take, where these are more than `most`. They are not cut into parts then, of which there could
/// be more than memory holds.
pub(crate) fn layout(spans: &[Span], aligns: &[FileAlign], chunk: u64, gap: u64, most: usize) -> Result<Layout, u64> {
    const UNTOLD: u64 = u64::MAX;
    let count = u32::try_from(spans.len()).map_err(|_| UNTOLD)?;
    let mut order: Vec<u32> = (0..count).filter(|&i| spans[i as usize].len > 0).collect();
    if !order.is_sorted_by_key(|&i| place(&spans[i as usize])) {
        order.sort_unstable_by_key(|&i| place(&spans[i as usize]));
    }
    let mut layout = Layout { parts: Vec::with_capacity(order.len()), pieces: vec![0..0; spans.len()], len: 0 };
    let mut rest = order.as_slice();
    while let Some(&first) = rest.first() {
        let align = aligns[spans[first as usize].file as usize];
        let (count, run) = one_run(spans, rest, align.offset, gap);
        let (members, later) = rest.split_at(count);
        rest = later;
        let wide = widen(&run, align.offset);
        // As far from a multiple of this as in the file, so that what is aligned there is here, too.
        const KEPT: u64 = 64;
        let start = up(layout.len as u64, landing_align(&wide, align)) + wide.start % KEPT;
        let start = usize::try_from(start).map_err(|_| UNTOLD)?;
        let len = usize::try_from(wide.end - wide.start).map_err(|_| UNTOLD)?;
        layout.len = start.checked_add(len).ok_or(UNTOLD)?;
        if layout.len > most {
            continue;
        }
        let first_part = layout.parts.len();
        let mut part =
            Part { file: spans[first as usize].file, need: run, wide, asked: 0, landing: start, via: align.via };
        let wide_start = part.wide.start;
        while let Some(rest) = cut(&mut part, chunk) {
            layout.parts.push(std::mem::replace(&mut part, rest));
        }
        layout.parts.push(part);
        for &i in members {
            let span = &spans[i as usize];
            let from = start + (span.offset - wide_start) as usize;
            layout.pieces[i as usize] = from..from + span.len as usize;
            let holding = ((span.offset - wide_start) / chunk) as usize;
            for part in &mut layout.parts[first_part + holding..] {
                let held = part.need.end.min(span.offset + span.len).saturating_sub(part.need.start.max(span.offset));
                if held == 0 {
                    break;
                }
                part.asked += held;
            }
        }
    }
    if layout.len > most { Err(layout.len as u64) } else { Ok(layout) }
}

fn place(span: &Span) -> (u32, u64) {
    (span.file, span.offset)
}

/// How many of the sorted extents make the first run, and the bytes that they span.
fn one_run(spans: &[Span], sorted: &[u32], align: u64, gap: u64) -> (usize, Range<u64>) {
    let first = &spans[sorted[0] as usize];
    let mut run = first.offset..first.offset + first.len;
    let mut members = 1;
    for &i in &sorted[1..] {
        let span = &spans[i as usize];
        // Nearer than the gap, or in a block that is read anyhow.
        let near = span.offset <= run.end.saturating_add(gap) || span.offset < up(run.end, align);
        if span.file != first.file || !near {
            break;
        }
        run.end = run.end.max(span.offset + span.len);
        members += 1;
    }
    (members, run)
}

/// Whole pages for what fills one, so that a read of 4 KiB touches one page and not two; less for less.
fn landing_align(wide: &Range<u64>, align: FileAlign) -> u64 {
    let size = (wide.end - wide.start).min(4096).next_power_of_two();
    size.max(align.memory as u64).max(64)
}

/// Cuts `part` to its first chunk and returns what is left of it.
pub(super) fn cut(part: &mut Part, chunk: u64) -> Option<Part> {
    let end = part.wide.start.saturating_add(chunk);
    if end >= part.wide.end {
        return None;
    }
    let rest =
        Part { need: end..part.need.end, wide: end..part.wide.end, landing: part.landing + chunk as usize, ..*part };
    part.need.end = end;
    part.wide.end = end;
    Some(rest)
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans() -> impl Strategy<Value = Vec<Span>> {
        let span = (0_u32..3, 0_u64..300_000, prop_oneof![Just(0_u64), 1_u64..200, 1_u64..40_000])
            .prop_map(|(file, offset, len)| Span { file, offset, len });
        prop::collection::vec(span, 0..40)
    }

    proptest! {
        /// The oracle: carry the parts out on files whose byte at offset o of file f is a mix of both.
        #[test]
        fn carried_out_a_layout_gives_every_extent_its_bytes(
            spans in spans(), powers in prop::array::uniform3(0_u32..13), chunk_power in 13_u32..17, gap in 0_u64..20_000
        ) {
            let aligns = powers.map(|p| FileAlign { via: Via::Direct, memory: 1 << p.min(12), offset: 1 << p });
            let layout = layout(&spans, &aligns, 1 << chunk_power, gap, usize::MAX).unwrap();
            let byte = |file: u32, offset: u64| (offset ^ (offset >> 8) ^ (offset >> 16)) as u8 ^ file as u8;
            let mut slot: Vec<Option<u8>> = vec![None; layout.len];
            for part in &layout.parts {
                let align = aligns[part.file as usize];
                prop_assert!(part.wide.start % align.offset == 0 && part.wide.end % align.offset == 0);
                prop_assert!(part.wide.end - part.wide.start <= 1 << chunk_power);
                prop_assert!(part.landing % align.memory == 0);
                prop_assert!(part.landing as u64 % 64 == part.wide.start % 64);
                prop_assert!(!part.need.is_empty());
                prop_assert!(part.wide.start <= part.need.start && part.need.end <= part.wide.end);
                for offset in part.wide.clone() {
                    let at = part.landing + (offset - part.wide.start) as usize;
                    assert!(slot[at].is_none(), "two parts land on one byte");
                    slot[at] = part.need.contains(&offset).then(|| byte(part.file, offset)).or(Some(0));
                }
            }
            let asked: u64 = layout.parts.iter().map(|part| part.asked).sum();
            prop_assert_eq!(asked, spans.iter().map(|span| span.len).sum::<u64>());
            for (span, piece) in spans.iter().zip(&layout.pieces) {
                prop_assert_eq!(piece.len() as u64, span.len);
                for (offset, at) in (span.offset..).zip(piece.clone()) {
                    assert_eq!(slot[at], Some(byte(span.file, offset)));
                }
            }
        }
    }

    #[test]
    fn neighbours_are_read_at_once_and_strangers_are_not() {
        let span = |offset, len| Span { file: 0, offset, len };
        let align = [FileAlign { via: Via::Direct, memory: 512, offset: 512 }];
        let near =
            layout(&[span(10_000, 100), span(0, 100), span(4000, 100)], &align, 1 << 20, 4096, usize::MAX).unwrap();
        assert_eq!(near.parts.iter().map(|part| part.need.clone()).collect::<Vec<_>>(), [0..4100, 10_000..10_100]);
        let same_block = layout(&[span(0, 10), span(500, 10)], &align, 1 << 20, 0, usize::MAX).unwrap();
        assert_eq!(same_block.parts.len(), 1);
        let next_block = layout(&[span(0, 10), span(512, 10)], &align, 1 << 20, 0, usize::MAX).unwrap();
        assert_eq!(next_block.parts.len(), 2);
    }

    #[test]
    fn small_extents_are_packed_and_not_rounded_up_to_pages() {
        let spans: Vec<Span> = (0..100).map(|i| Span { file: 0, offset: i << 20, len: 512 }).collect();
        let layout =
            layout(&spans, &[FileAlign { via: Via::Direct, memory: 512, offset: 512 }], 1 << 20, 4096, usize::MAX)
                .unwrap();
        assert_eq!(layout.len, 100 * 512);
    }

    #[test]
    fn offsets_near_the_largest_do_not_overflow() {
        let end = i64::MAX as u64 - 4096;
        let span = Span { file: 0, offset: end - 10, len: 10 };
        let layout =
            layout(&[span], &[FileAlign { via: Via::Direct, memory: 512, offset: 4096 }], 1 << 20, 4096, usize::MAX)
                .unwrap();
        assert_eq!(layout.parts[0].need, end - 10..end);
    }
}
