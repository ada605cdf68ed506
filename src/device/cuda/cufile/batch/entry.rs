//! What cuFile says of an entry of a batch.

use super::super::error::{CuFileFault, EntryState};
use crate::sys::cufile::{Answer, IoEvent, decode, io_status};

/// How an entry is.
#[derive(Debug)]
pub(super) enum Entry {
    /// It is still under way.
    Flying,
    /// It is done, well or not.
    Answered(Answer),
    /// It will not be read, and cuFile does not promise that nothing writes to its memory any more.
    Doubtful(CuFileFault),
}

/// Both the state and the number must be looked at: a failed entry may carry a number of bytes, and a completed one an
/// error.
pub(super) fn entry(event: &IoEvent) -> Entry {
    const ENDED: u32 =
        io_status::INVALID | io_status::CANCELED | io_status::COMPLETE | io_status::TIMEOUT | io_status::FAILED;
    const KNOWN: u32 = ENDED | io_status::WAITING | io_status::PENDING;
    let state = event.status;
    let number = decode(event.ret.cast_signed());
    let has = |bit| state & bit != 0;
    if state & !KNOWN != 0 {
        return Entry::Doubtful(CuFileFault::Entry(EntryState::Unknown(state)));
    }
    if state & ENDED == 0 {
        return Entry::Flying;
    }
    if has(io_status::FAILED) || has(io_status::INVALID) {
        let how = if has(io_status::INVALID) { EntryState::Invalid } else { EntryState::Failed };
        return match number {
            Answer::Bytes(_) => Entry::Doubtful(CuFileFault::Entry(how)),
            error => Entry::Answered(error),
        };
    }
    if has(io_status::CANCELED) {
        return Entry::Doubtful(CuFileFault::Entry(EntryState::Cancelled));
    }
    if has(io_status::TIMEOUT) {
        return Entry::Doubtful(CuFileFault::Entry(EntryState::TimedOut));
    }
    Entry::Answered(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cufile::CuFileCode;

    fn of(status: u32, ret: isize) -> Entry {
        entry(&IoEvent { cookie: std::ptr::null_mut(), status, ret: ret.cast_unsigned() })
    }

    #[test]
    fn state_and_number_are_both_looked_at() {
        assert!(matches!(of(16, 4096), Entry::Answered(Answer::Bytes(4096))));
        assert!(matches!(of(16, -5), Entry::Answered(Answer::Errno(Some(5)))));
        assert!(matches!(of(16, -5030), Entry::Answered(Answer::Code(CuFileCode(5030)))));
        assert!(matches!(of(64, -5), Entry::Answered(Answer::Errno(Some(5)))));
        assert!(matches!(of(4, -5022), Entry::Answered(Answer::Code(CuFileCode(5022)))));
        assert!(matches!(of(64, 4096), Entry::Doubtful(CuFileFault::Entry(EntryState::Failed))));
        assert!(matches!(of(64, 0), Entry::Doubtful(CuFileFault::Entry(EntryState::Failed))));
        assert!(matches!(of(64 | 16, 4096), Entry::Doubtful(CuFileFault::Entry(EntryState::Failed))));
    }

    #[test]
    fn only_ended_entries_end() {
        for state in [0, 1, 2, 3] {
            assert!(matches!(of(state, 4096), Entry::Flying), "{state}");
        }
        for (state, expected) in [
            (4, EntryState::Invalid),
            (8, EntryState::Cancelled),
            (32, EntryState::TimedOut),
            (128, EntryState::Unknown(128)),
        ] {
            let Entry::Doubtful(CuFileFault::Entry(found)) = of(state, 4096) else { panic!("{state} passed") };
            assert_eq!(found, expected);
        }
    }
}
