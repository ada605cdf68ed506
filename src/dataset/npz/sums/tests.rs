//! The oracle is crc32fast over all bytes at once.

use proptest::prelude::*;

use super::*;
use crate::dataset::heard::warnings;

fn member(crc: u32, rows: u64, row_bytes: u64, room: &Arc<Room>) -> MemberSum {
    MemberSum {
        name: "x".into(),
        start: 0,
        data: 0,
        rows,
        row_bytes,
        crc,
        header: OnceLock::new(),
        room: Arc::clone(room),
        state: Mutex::new(State::Idle),
    }
}

fn file() -> (tempfile::NamedTempFile, DataFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let data = DataFile::new(file.path()).unwrap();
    (file, data)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Rows by themselves and in runs, each order, some more than once, and pass after pass: damage is seen when the last row of a
    /// pass comes, and not before.
    #[test]
    fn a_pass_in_any_order_has_the_crc_of_all_bytes(
        header in prop::collection::vec(any::<u8>(), 0..200), rows in 1_usize..9000, row_bytes in 1_usize..9, seed: u32,
        asks in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(1_usize), 1_usize..6000]), 0..12),
        damaged_pass in prop::option::of(0_usize..3), damaged_row: prop::sample::Index,
    ) {
        let data: Vec<u8> = (0..rows * row_bytes).map(|i| (seed.wrapping_mul(i as u32 | 1) >> 13) as u8).collect();
        let (_file, file) = file();
        let room = Arc::default();
        let member = member(crc32fast::hash(&[&header[..], &data].concat()), rows as u64, row_bytes as u64, &room);
        let most = |first: usize, count: usize| count.min(rows - first).min(BLOCK as usize - first % BLOCK as usize);
        let mut expected_damage = false;
        for pass in 0..3 {
            let mut seen = vec![false; rows];
            let rest = (0..rows).rev().step_by(1 + seed as usize % 7).chain(0..rows).map(|row| (row, 1));
            let drawn = asks.iter().map(|(at, count)| (at.index(rows), *count));
            for (first, count) in drawn.chain(rest) {
                if seen.iter().all(|seen| *seen) {
                    break;
                }
                let count = most(first, count);
                let crcs: Vec<u32> = (first..first + count)
                    .map(|row| {
                        let mut bytes = data[row * row_bytes..][..row_bytes].to_vec();
                        if damaged_pass == Some(pass) && row == damaged_row.index(rows) {
                            bytes[0] ^= 0x10;
                        }
                        crc32fast::hash(&bytes)
                    })
                    .collect();
                seen[first..first + count].fill(true);
                expected_damage |= damaged_pass == Some(pass) && seen.iter().all(|seen| *seen);
                let noted = member.note(&file, first as u64, &crcs, || Ok(crc32fast::hash(&header)));
                prop_assert_eq!(noted.is_err(), expected_damage, "pass {} at {}", pass, first);
            }
        }
        prop_assert_eq!(room.used(), 0);
    }
}

/// The header is read when the last rows come, and until it is there, others go on.
#[test]
fn nobody_waits_while_the_header_is_read() {
    let (_file, file) = file();
    let crcs = [b"a", b"b", b"c"].map(|row| crc32fast::hash(row));
    let member = member(crc32fast::hash(b"head abc"), 3, 1, &Arc::default());
    let none = || -> Result<u32, DatasetError> { panic!("no header is needed") };
    member.note(&file, 0, &crcs[..2], none).unwrap();
    let failed = || Err(DatasetError::malformed(file.path(), 0, "it cannot be read", "try again"));
    member.note(&file, 2, &crcs[2..], failed).unwrap_err();
    let meanwhile = || {
        assert!(member.state.try_lock().is_ok(), "it is read under the lock");
        member.note(&file, 1, &crcs[1..2], none).unwrap();
        Ok(crc32fast::hash(b"head "))
    };
    member.note(&file, 2, &crcs[2..], meanwhile).unwrap();
    assert!(matches!(*lock(&member.state), State::Idle));
}

#[test]
fn a_member_for_which_there_is_no_room_is_not_checked_and_that_is_said_once() {
    let (_file, file) = file();
    let room = Room::full();
    let ((), said) = warnings(|| {
        for _ in 0..2 {
            let member = member(1, 2, 1, &room);
            for row in [0, 1, 0, 1] {
                member.note(&file, row, &[7], || panic!("no header is needed")).unwrap();
            }
        }
    });
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("the CRC-32 of array x") && said[0].contains("not checked"), "{said:?}");
}
