//! What is asked of cuFile, and the rule for every answer that it can give: go on, again, later, done, or failed.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use nix::libc;

use super::error::{CuFileError, CuFileFault, Refusal};
use super::handle::Handle;
use super::registration::Registration;
#[cfg(test)]
use crate::emulated::mutant;
use crate::sys::cufile::{Answer, FileHandle, Status};

/// What offsets and lengths must be multiples of. Others work, but through copies inside cuFile.
pub(crate) const PAGE: u64 = 4096;

/// A run of a file, to be read into a run of registered memory.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(super) handle: Arc<Handle>,
    pub(super) memory: Arc<Registration>,
    file_offset: u64,
    len: u64,
    need: u64,
    buffer_offset: u64,
}

impl Transfer {
    /// Reads `len` bytes at `file_offset` of the file to `buffer_offset` of the memory; all three multiples of 4096.
    /// Of them `need` bytes must arrive, or the file has ended early; what lies behind them may.
    ///
    /// # Errors
    /// [`CuFileError::Transfer`] where a number is not aligned, or the memory is too short.
    pub(crate) fn new(
        handle: &Arc<Handle>,
        memory: &Arc<Registration>,
        file_offset: u64,
        len: u64,
        need: u64,
        buffer_offset: u64,
    ) -> Result<Self, CuFileError> {
        let check = |holds, rule| if holds { Ok(()) } else { Err(CuFileError::Transfer(rule)) };
        check(file_offset.is_multiple_of(PAGE), "offset in the file is not a multiple of 4096; widen it")?;
        check(len.is_multiple_of(PAGE), "length is not a multiple of 4096; widen it")?;
        check(buffer_offset.is_multiple_of(PAGE), "offset in the memory is not a multiple of 4096; align it")?;
        check(need <= len, "needed bytes are more than its length; widen it")?;
        let end = buffer_offset.checked_add(len);
        check(end.is_some_and(|end| end <= memory.len()), "end lies outside the memory; make it shorter")?;
        let end = file_offset.checked_add(len);
        check(end.is_some_and(|end| i64::try_from(end).is_ok()), "end lies past the longest file; make it shorter")?;
        let (handle, memory) = (Arc::clone(handle), Arc::clone(memory));
        Ok(Self { handle, memory, file_offset, len, need, buffer_offset })
    }

    /// Bytes that must arrive.
    pub(super) fn need(&self) -> u64 {
        self.need
    }

    /// The piece that begins at `from`, at most `most` bytes long. `None` where nothing of it is needed.
    pub(super) fn piece(&self, index: usize, from: u64, most: u64) -> Option<Piece> {
        if from >= self.need {
            return None;
        }
        let end = from.saturating_add(most.max(PAGE)).min(self.len);
        Some(Piece { index, range: from..end, need: self.need.min(end), at: from, tries: 0 })
    }

    /// The offset in the file of an offset in this.
    pub(super) fn in_file(&self, at: u64) -> u64 {
        self.file_offset + at
    }

    /// The read that a piece asks for now.
    pub(super) fn ask(&self, piece: &Piece) -> Ask {
        Ask {
            handle: self.handle.raw(),
            base: self.memory.base() as *mut c_void,
            bytes: piece.asked() as usize,
            file_offset: (self.file_offset + piece.at) as i64,
            buffer_offset: (self.buffer_offset + piece.at) as i64,
        }
    }
}

/// The arguments of one read. Memory is given as the registered base and an offset from it, never as an address
/// between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) handle: FileHandle,
    pub(super) base: *mut c_void,
    pub(super) bytes: usize,
    pub(super) file_offset: i64,
    pub(super) buffer_offset: i64,
}

/// A part of a transfer that is read at once, and how far it is. Offsets are the transfer's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Which transfer of the job.
    pub(super) index: usize,
    pub(super) range: Range<u64>,
    /// Up to where bytes must arrive.
    pub(super) need: u64,
    /// Everything before has landed. A multiple of 4096, so that what is left is read without a copy inside cuFile.
    pub(super) at: u64,
    /// Answers in a row that brought it no further.
    tries: u32,
}

/// What follows from an answer.
#[derive(Debug)]
pub(super) enum Next {
    /// Ask on.
    Read,
    /// The same again, after a while.
    Later(Duration),
    Done,
    /// What is wrong, and where in the transfer.
    Failed(CuFileFault, u64),
}

impl Piece {
    /// Bytes that it asks for.
    pub(super) fn asked(&self) -> u64 {
        self.range.end - self.at
    }

    /// Takes the answer to the read that it asked for.
    pub(super) fn answer(&mut self, answer: Answer) -> Next {
        match answer {
            Answer::Bytes(bytes) => self.landed(bytes),
            Answer::Errno(Some(errno)) => self.refused(errno),
            Answer::Errno(None) => Next::Failed(CuFileFault::IoUnsaid, self.at),
            Answer::Code(code) => {
                let refusal = Refusal::of("the read", Status { err: code.0, cu_err: 0 });
                Next::Failed(CuFileFault::Refused(refusal), self.at)
            }
        }
    }

    fn landed(&mut self, bytes: u64) -> Next {
        /// A short answer is no end of file. The same block short as often as this is one.
        const MOST_SHORT: u32 = 3;
        let asked = self.asked();
        if bytes > asked {
            return Next::Failed(CuFileFault::TooMany { asked, answered: bytes }, self.at);
        }
        let reached = self.at + bytes;
        #[cfg(test)]
        let whole = mutant::is_planted(mutant::SHORT_IS_WHOLE);
        #[cfg(not(test))]
        let whole = false;
        if reached >= self.need || whole {
            return Next::Done;
        }
        let block = reached - reached % PAGE;
        if block > self.at {
            (self.at, self.tries) = (block, 0);
            return Next::Read;
        }
        self.tries += 1;
        if bytes == 0 || self.tries >= MOST_SHORT {
            return Next::Failed(CuFileFault::Ends { missing: self.need - reached }, reached);
        }
        Next::Read
    }

    fn refused(&mut self, errno: i32) -> Next {
        /// About two seconds of trying, with the pauses below.
        const MOST_TRIES: u32 = 220;
        if !matches!(errno, libc::EINTR | libc::EAGAIN) {
            return Next::Failed(CuFileFault::Io(io::Error::from_raw_os_error(errno)), self.at);
        }
        self.tries += 1;
        match self.tries {
            MOST_TRIES.. => Next::Failed(CuFileFault::Busy { tries: self.tries }, self.at),
            1 => Next::Read,
            tries => Next::Later(Duration::from_micros(50 << tries.min(8)).min(Duration::from_millis(10))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cufile::CuFileCode;
    use proptest::prelude::*;

    fn piece(range: Range<u64>, need: u64) -> Piece {
        Piece { index: 0, at: range.start, range, need, tries: 0 }
    }

    #[test]
    fn a_short_answer_goes_on_from_its_last_whole_block() {
        let mut piece = piece(0..65536, 65536);
        assert!(matches!(piece.answer(Answer::Bytes(4096)), Next::Read));
        assert_eq!((piece.at, piece.asked()), (4096, 61440));
        assert!(matches!(piece.answer(Answer::Bytes(10_000)), Next::Read));
        assert_eq!(piece.at, 12288);
        assert!(matches!(piece.answer(Answer::Bytes(53248)), Next::Done));
    }

    #[test]
    fn what_lies_behind_the_needed_bytes_need_not_arrive() {
        assert!(matches!(piece(0..8192, 5000).answer(Answer::Bytes(5000)), Next::Done));
        assert!(matches!(piece(0..8192, 5000).answer(Answer::Bytes(8192)), Next::Done));
    }

    #[test]
    fn nothing_before_the_needed_bytes_is_an_early_end() {
        let mut piece = piece(0..8192, 5000);
        assert!(matches!(piece.answer(Answer::Bytes(4096)), Next::Read));
        let Next::Failed(CuFileFault::Ends { missing: 904 }, 4096) = piece.answer(Answer::Bytes(0)) else {
            panic!("not an early end")
        };
    }

    #[test]
    fn a_block_that_stays_short_is_an_early_end() {
        let mut piece = piece(0..8192, 8192);
        assert!(matches!(piece.answer(Answer::Bytes(100)), Next::Read));
        assert!(matches!(piece.answer(Answer::Bytes(100)), Next::Read));
        assert!(matches!(piece.answer(Answer::Bytes(100)), Next::Failed(CuFileFault::Ends { missing: 8092 }, 100)));
    }

    #[test]
    fn more_than_asked_is_never_believed() {
        assert!(matches!(
            piece(0..4096, 4096).answer(Answer::Bytes(4097)),
            Next::Failed(CuFileFault::TooMany { asked: 4096, answered: 4097 }, 0)
        ));
    }

    #[test]
    fn refusals_end_it_but_those_that_ask_to_try_again() {
        assert!(matches!(piece(0..4096, 1).answer(Answer::Errno(Some(libc::EINTR))), Next::Read));
        assert!(matches!(piece(0..4096, 1).answer(Answer::Errno(None)), Next::Failed(CuFileFault::IoUnsaid, 0)));
        assert!(matches!(
            piece(0..4096, 1).answer(Answer::Code(CuFileCode(5030))),
            Next::Failed(CuFileFault::Refused(_), 0)
        ));
        let mut busy = piece(0..4096, 1);
        let ended = (0..1000).find_map(|_| match busy.answer(Answer::Errno(Some(libc::EAGAIN))) {
            Next::Failed(fault, _) => Some(fault),
            _ => None,
        });
        assert!(matches!(ended, Some(CuFileFault::Busy { tries: 220 })), "{ended:?}");
    }

    proptest! {
        /// Whatever a cuFile answers that reads a file of `file` bytes, but as short as it likes, the piece ends, with
        /// all its bytes or at the end of the file; and every read is aligned.
        #[test]
        fn any_short_answers_come_to_an_end(
            pages in 1_u64..40,
            need in 1_u64..40 * PAGE,
            file in 0_u64..41 * PAGE,
            shorts in proptest::collection::vec(1_u64..3 * PAGE, 1..20),
        ) {
            let need = need.min(pages * PAGE);
            let mut piece = piece(0..pages * PAGE, need);
            let mut landed = 0;
            for round in 0_usize.. {
                prop_assert!(round < 500);
                prop_assert!(piece.at.is_multiple_of(PAGE) && piece.asked().is_multiple_of(PAGE));
                let there = file.saturating_sub(piece.at).min(piece.asked());
                let short = there.min(shorts[round % shorts.len()].max(PAGE));
                landed = landed.max(piece.at + short);
                match piece.answer(Answer::Bytes(short)) {
                    Next::Read => {}
                    Next::Done => {
                        prop_assert!(landed >= need && file >= need);
                        break;
                    }
                    Next::Failed(CuFileFault::Ends { missing }, at) => {
                        prop_assert!(file < need);
                        prop_assert_eq!((at, missing), (file, need - file));
                        break;
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}
