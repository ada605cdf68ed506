//! Many small copies as few: by the CPU, for drivers without a call for many.

use crate::device::Span;
use crate::memory::{Arena, Slot};

/// Copies as many as this are not worth packing.
const FEW: usize = 8;
/// Bytes of a copy, on the average, from which on the calls are cheaper than the packing: the CPU copies 32 KiB in
/// about the time that a call takes.
const LARGE: usize = 32 << 10;

/// The bytes of `spans` in the order of their destinations, in a slot of their own, and how they are copied from there.
/// Nothing where that would not make few of many, or no memory is free.
pub(super) fn packed(arena: &Arena, slot: &Slot, spans: &[Span]) -> Option<(Slot, Vec<Span>)> {
    let bytes: usize = spans.iter().map(|span| span.len).sum();
    if spans.len() <= FEW || bytes / spans.len() >= LARGE {
        return None;
    }
    let joined = joined(spans);
    if joined.len() > spans.len() / FEW {
        return None;
    }
    let mut packed = arena.try_loan(bytes).ok()??;
    let mut at = 0;
    for span in spans {
        packed.get_mut(at..at + span.len)?.copy_from_slice(slot.get(span.from..span.from + span.len)?);
        at += span.len;
    }
    Some((packed, joined))
}

/// Spans, in the order of their destinations, when their sources lie one behind the other.
fn joined(spans: &[Span]) -> Vec<Span> {
    let mut joined: Vec<Span> = Vec::new();
    let mut from = 0;
    for &Span { to, len, .. } in spans {
        match joined.last_mut().filter(|last| last.to + last.len == to) {
            Some(last) => last.len += len,
            None => joined.push(Span { from, to, len }),
        }
        from += len;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(arena: &Arena, len: usize) -> Slot {
        let mut slot = arena.try_loan(len).unwrap().unwrap();
        slot.iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
        slot
    }

    #[test]
    fn many_small_pieces_of_one_destination_become_one_copy() {
        let arena = Arena::new(1 << 20).unwrap();
        let slot = slot(&arena, 10_000);
        let spans: Vec<Span> = (0..64).map(|i| Span { from: 9000 - i * 100, to: 50 + i * 10, len: 10 }).collect();
        let (packed, joined) = packed(&arena, &slot, &spans).unwrap();
        assert_eq!(joined, [Span { from: 0, to: 50, len: 640 }]);
        for (i, span) in spans.iter().enumerate() {
            assert_eq!(packed[i * 10..][..10], slot[span.from..][..10]);
        }
    }

    #[test]
    fn what_would_stay_many_or_is_large_is_not_packed() {
        let arena = Arena::new(8 << 20).unwrap();
        let slot = slot(&arena, 4 << 20);
        let apart: Vec<Span> = (0..64).map(|i| Span { from: i * 100, to: i * 20, len: 10 }).collect();
        assert!(packed(&arena, &slot, &apart).is_none());
        let large: Vec<Span> = (0..16).map(|i| Span { from: i * 200_000, to: i * 65536, len: 65536 }).collect();
        assert!(packed(&arena, &slot, &large).is_none());
    }

    #[test]
    fn without_free_memory_nothing_is_packed() {
        let arena = Arena::new(16 << 10).unwrap();
        let slot = slot(&arena, 16 << 10);
        let spans: Vec<Span> = (0..64).map(|i| Span { from: 9000 - i * 100, to: i * 10, len: 10 }).collect();
        assert!(packed(&arena, &slot, &spans).is_none());
    }
}
