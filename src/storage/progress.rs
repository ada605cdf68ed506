//! The rule for every answer that the kernel can give to a read: go on, try again, try later, done, or failed.
//!
//! Both engines obey it, so a short answer, a refusal or an end of file means the same whoever asked.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use nix::libc;

use super::align::down;
use super::direct::NoDirect;
use super::error::ReadFault;
use super::file::{File, FileKind};
use super::layout::{Part, Via};

/// How far the read of one part is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Where in the file the next read starts: everything of the part before it has landed.
    at: u64,
    pub(crate) via: Via,
    /// Answers in a row that asked to try again.
    tries: u32,
    /// The kernel said it would have to wait: let it wait elsewhere than at submission.
    pub(crate) may_wait: bool,
    /// Set where it is counted how long reads take.
    pub(crate) begun: Option<Instant>,
}

/// What follows from an answer.
#[derive(Debug)]
pub(crate) enum Next {
    /// Read on, from where [`Progress::read`] says now.
    Read,
    /// The same read again, after a while.
    Later(Duration),
    Done,
    Failed(ReadFault),
}

impl Progress {
    pub(crate) fn new(part: &Part) -> Self {
        let at = match part.via {
            Via::Direct => part.wide.start,
            Via::Buffered => part.need.start,
        };
        Self { at, via: part.via, tries: 0, may_wait: false, begun: None }
    }

    /// The range of the file that the next read asks for.
    pub(crate) fn read(&self, part: &Part) -> Range<u64> {
        match self.via {
            Via::Direct => self.at..part.wide.end,
            Via::Buffered => self.at..part.need.end,
        }
    }

    /// Where in the slot that read lands.
    pub(crate) fn landing(&self, part: &Part) -> usize {
        part.landing + (self.at - part.wide.start) as usize
    }

    /// Takes the kernel's answer to the read: bytes, or a negative error number. `forced` says that nothing but
    /// direct reads will do.
    pub(crate) fn answer(&mut self, answer: i32, part: &Part, file: &File, forced: bool) -> Next {
        match answer {
            0 => Next::Failed(self.ended(part, file)),
            1.. => self.landed(u64::from(answer.unsigned_abs()), part, file),
            _ => self.refused(answer.saturating_neg(), part, file, forced),
        }
    }

    fn landed(&mut self, bytes: u64, part: &Part, file: &File) -> Next {
        let began = self.at;
        self.tries = 0;
        self.at = (self.at + bytes).min(self.read(part).end);
        if self.at >= part.need.end {
            return Next::Done;
        }
        let block = down(self.at, file.inner.offset_align());
        if self.via == Via::Direct && block != self.at {
            // A direct read cannot go on from inside a block. It begins that block again, or, where not even one
            // whole block came, leaves the rest to the page cache.
            if block > began {
                self.at = block;
            } else {
                self.turn_buffered(part);
            }
        }
        Next::Read
    }

    fn ended(&self, part: &Part, file: &File) -> ReadFault {
        match file.kind() {
            FileKind::BlockDevice => ReadFault::DeviceGone,
            FileKind::Regular => ReadFault::Ends { missing: part.need.end - self.at.min(part.need.end) },
        }
    }

    fn refused(&mut self, errno: i32, part: &Part, file: &File, forced: bool) -> Next {
        /// About two seconds of trying, with the pauses below.
        const MOST_TRIES: u32 = 220;
        match errno {
            libc::EINTR => Next::Read,
            libc::EAGAIN if self.tries >= MOST_TRIES => Next::Failed(ReadFault::Busy { tries: self.tries }),
            libc::EAGAIN => {
                self.tries += 1;
                self.may_wait = true;
                match self.tries {
                    1 => Next::Read,
                    tries => Next::Later(Duration::from_micros(50 << tries.min(8)).min(Duration::from_millis(10))),
                }
            }
            libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS if self.via == Via::Direct => {
                let reason = NoDirect::Read(errno);
                if forced {
                    return Next::Failed(ReadFault::NoDirect(reason));
                }
                file.degrade(reason);
                self.turn_buffered(part);
                Next::Read
            }
            _ => Next::Failed(ReadFault::Io { error: io::Error::from_raw_os_error(errno) }),
        }
    }

    fn turn_buffered(&mut self, part: &Part) {
        self.via = Via::Buffered;
        self.at = self.at.max(part.need.start);
    }
}
