//! Which extents of a list can be read straight to the places where their bytes are to lie, and which must be read
//! elsewhere and copied: pure arithmetic.

use super::error::ReadError;
use super::extent::Extent;
use super::file::File;
use super::layout::{FileAlign, Layout, Part, Span, Via, cut};
use super::plan::{Plan, PlanSettings, file_align, number_files};

/// An extent, and where in a slot its bytes are to lie.
pub(crate) type Place = (Extent, usize);

/// Divides `places`, whose slot begins at a multiple of 4096, into a plan that reads to the places themselves, and what
/// is left.
///
/// Extents that follow each other both in their file and in the slot are one run. A run goes straight to its place where
/// its ends are blocks of the file and the place is aligned for the drive; of a long one the middle does. Short runs with
/// others near them in the file are left, to be read at once with those.
pub(crate) fn straight(places: Vec<Place>, settings: PlanSettings) -> Result<(Plan, Vec<Place>), ReadError> {
    let extents: Vec<Extent> = places.iter().map(|(extent, _)| extent.clone()).collect();
    let (files, spans) = number_files(&extents)?;
    let aligns = files.iter().map(|file| file_align(file, settings)).collect::<Result<Vec<_>, _>>()?;
    let mut order: Vec<usize> = (0..spans.len()).filter(|&i| spans[i].len > 0).collect();
    let key = |&i: &usize| (spans[i].file, spans[i].offset, places[i].1);
    if !order.is_sorted_by_key(key) {
        order.sort_unstable_by_key(key);
    }
    let runs = runs(&order, &spans, |i| places[i].1);
    let (mut parts, mut rest) = (Vec::new(), Vec::new());
    for (number, run) in runs.iter().enumerate() {
        let near = |other: &Run| other.file == run.file && other.is_within(settings.gap, run);
        let crowded = runs[..number].last().is_some_and(near) || runs.get(number + 1).is_some_and(near);
        let middle = match crowded && run.len < LONG {
            true => None,
            false => run.straight(aligns[run.file as usize]),
        };
        let members = &order[run.members.clone()];
        let Some((from, to)) = middle else {
            rest.extend(members.iter().map(|&i| places[i].clone()));
            continue;
        };
        let file = &files[run.file as usize];
        for (start, end) in [(run.offset, from), (to, run.offset + run.len)] {
            if start < end {
                rest.push((Extent::new(file, start, end - start), run.at + (start - run.offset) as usize));
            }
        }
        let landing = run.at + (from - run.offset) as usize;
        let via = aligns[run.file as usize].via;
        let mut part = Part { file: run.file, need: from..to, wide: from..to, asked: to - from, landing, via };
        while let Some(next) = cut(&mut part, settings.chunk) {
            part.asked = part.need.end - part.need.start;
            parts.push(std::mem::replace(&mut part, next));
        }
        part.asked = part.need.end - part.need.start;
        parts.push(part);
    }
    let mut plan = Plan { files, layout: Layout { parts, pieces: Vec::new(), len: 0 }, memory_align: 1 };
    drop_unread_files(&mut plan);
    Ok((plan, rest))
}

/// Each file of a plan is looked at after the read, and so must be read from.
fn drop_unread_files(plan: &mut Plan) {
    let mut kept: Vec<File> = Vec::new();
    for parts in plan.layout.parts.chunk_by_mut(|a, b| a.file == b.file) {
        kept.push(plan.files[parts[0].file as usize].clone());
        parts.iter_mut().for_each(|part| part.file = kept.len() as u32 - 1);
    }
    plan.files = kept;
}

/// Bytes from which a run is read by itself whatever is near it.
const LONG: u64 = 128 << 10;
/// Bytes from which the middle of a run is read to its place though its ends are not: up to two more reads of a block cost
/// less than the copy of so many.
const WORTH_SPLITTING: u64 = 64 << 10;
/// The same where blocks would not lie in pages of their own, which some drivers read in pieces.
const WORTH_SPLITTING_ASKEW: u64 = 512 << 10;

/// Extents that follow each other in their file and in the slot.
#[derive(Debug)]
struct Run {
    file: u32,
    offset: u64,
    len: u64,
    at: usize,
    /// Which of the sorted ones.
    members: std::ops::Range<usize>,
}

fn runs(order: &[usize], spans: &[Span], at: impl Fn(usize) -> usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (number, &i) in order.iter().enumerate() {
        let Span { file, offset, len } = spans[i];
        let goes_on = |run: &&mut Run| {
            run.file == file && run.offset + run.len == offset && run.at as u64 + run.len == at(i) as u64
        };
        match runs.last_mut().filter(goes_on) {
            Some(run) => {
                run.len += len;
                run.members.end = number + 1;
            }
            None => runs.push(Run { file, offset, len, at: at(i), members: number..number + 1 }),
        }
    }
    runs
}

impl Run {
    /// The bytes of the file that can be read straight to their place; none where that is not worth it.
    fn straight(&self, align: FileAlign) -> Option<(u64, u64)> {
        let (start, end) = (self.offset, self.offset + self.len);
        if align.via == Via::Buffered {
            return Some((start, end));
        }
        let from = start.next_multiple_of(align.offset);
        let to = end - end % align.offset;
        let whole = from == start && to == end;
        let place = self.at as u64 + (from - start);
        let fits = place.is_multiple_of(align.memory as u64) && align.memory <= 4096;
        let worth = if place.is_multiple_of(4096) { WORTH_SPLITTING } else { WORTH_SPLITTING_ASKEW };
        (fits && from < to && (whole || self.len >= worth)).then_some((from, to))
    }

    /// Whether fewer than `gap` bytes lie between the two in the file.
    fn is_within(&self, gap: u64, other: &Self) -> bool {
        let (first, second) = if self.offset <= other.offset { (self, other) } else { (other, self) };
        second.offset <= (first.offset + first.len).saturating_add(gap)
    }
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;
    use crate::storage::{File, Mode, Reader};
    use proptest::prelude::*;

    const LEN: u64 = 3 << 20;

    fn byte(at: u64) -> u8 {
        (at ^ at >> 8 ^ at >> 16) as u8
    }

    fn in_a_file(mode: Mode, test: impl Fn(&Reader, &File)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, (0..LEN).map(byte).collect::<Vec<_>>()).unwrap();
        let reader = Reader::builder().mode(mode).budget(48 << 20).build().unwrap();
        let file = reader.open(&path).unwrap();
        test(&reader, &file);
    }

    /// Extents and the gap in front of each in the slot; offsets and lengths are often multiples of a block.
    fn lists() -> impl Strategy<Value = Vec<(u64, u64, usize)>> {
        let multiple = |of: u64, most: u64| (0..most / of).prop_map(move |n| n * of);
        let offset = prop_oneof![0..LEN, multiple(512, LEN), multiple(4096, LEN)];
        let len = prop_oneof![0_u64..9000, multiple(4096, 1 << 20)];
        // Both the slot and what is read beside it fit the budget: at most 17 MiB each.
        prop::collection::vec((offset, len, prop_oneof![Just(0_usize), 0_usize..5000]), 0..16)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// The oracle is the file. What was straight has landed in the slot, the rest is put there.
        #[test]
        fn what_goes_straight_and_the_rest_are_all_there_is(list in lists(), goes_on in any::<bool>()) {
            in_a_file(Mode::Auto, |reader, file| {
                let mut at = 0;
                let mut offset_next = 0;
                let places: Vec<Place> = list.iter().map(|&(offset, len, gap)| {
                    let offset = if goes_on { offset_next } else { offset }.min(LEN);
                    let len = len.min(LEN - offset);
                    let place = at + gap;
                    (at, offset_next) = (place + len as usize, offset + len);
                    (Extent::new(file, offset, len), place)
                }).collect();
                let mut slot = reader.arena().try_loan(at.max(1)).unwrap();
                let Some(mut slot) = slot.take() else { return };
                slot.fill(0x55);
                let (plan, rest) = straight(places.clone(), reader.settings()).unwrap();
                let asked: u64 = plan.layout.parts.iter().map(|part| part.asked).sum();
                let left: u64 = rest.iter().map(|(extent, _)| extent.len).sum();
                assert_eq!(asked + left, places.iter().map(|(extent, _)| extent.len).sum::<u64>());
                let is_empty = plan.layout.parts.is_empty();
                let pieces = reader.read_into(plan, slot);
                let mut slot = match pieces.wait().unwrap().into_request() {
                    Some(request) => request.into_slot().unwrap(),
                    None => { assert!(is_empty); return }
                };
                for (extent, at) in rest {
                    let bytes = reader.read_blocking(std::slice::from_ref(&extent)).unwrap();
                    slot[at..at + extent.len as usize].copy_from_slice(&bytes[0]);
                }
                let mut expected = vec![0x55; at.max(1)];
                for (extent, at) in places {
                    for i in 0..extent.len {
                        expected[at + i as usize] = byte(extent.offset + i);
                    }
                }
                assert!(slot[..] == expected[..], "bytes are not where they belong");
            });
        }
    }

    #[test]
    fn rows_of_whole_blocks_go_straight_and_short_neighbours_are_left_for_one_read() {
        in_a_file(Mode::Auto, |reader, file| {
            if file.direct().is_err() {
                crate::skipped::skipped("no direct reads here");
                return;
            }
            let whole = |i: usize| (Extent::new(file, (i as u64 * 7 % 11) * 262_144, 131_072), i * 131_072);
            let (plan, rest) = straight((0..11).map(whole).collect(), reader.settings()).unwrap();
            assert!(rest.is_empty() && plan.layout.parts.len() == 11);
            let near = |i: usize| (Extent::new(file, (i as u64 * 7 % 11) * 4096, 4096), i * 4096);
            let (plan, rest) = straight((0..11).map(near).collect(), reader.settings()).unwrap();
            assert!(plan.layout.parts.is_empty() && plan.files.is_empty() && rest.len() == 11);
            // Rows in order that begin anywhere are one long run, whose middle goes straight.
            let run = |i: usize| (Extent::new(file, 4096 + i as u64 * 100_000, 100_000), i * 100_000);
            let (_, rest) = straight((0..20).map(run).collect(), reader.settings()).unwrap();
            assert!(rest.iter().map(|(extent, _)| extent.len).sum::<u64>() < 8192);
        });
    }

    #[test]
    fn through_the_page_cache_everything_alone_goes_straight() {
        in_a_file(Mode::Buffered, |reader, file| {
            let row = |i: usize| (Extent::new(file, 77 + (i as u64 * 7 % 11) * 200_001, 1001), 13 + i * 1001);
            let (plan, rest) = straight((0..11).map(row).collect(), reader.settings()).unwrap();
            assert!(rest.is_empty() && plan.layout.parts.len() == 11);
        });
    }
}
