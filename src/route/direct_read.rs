//! One request's parts that cuFile reads, in waves of as many files as may be open at once.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nix::libc;

use super::bytes::RouteBytes;
use super::direct::Direct;
use super::error::{CarryError, CarryFault};
use crate::device::Memory;
use crate::device::cufile::{Counters, CuFileError, CuFileFault, Job, Registration, Transfer, TransferFault, Waiter};
use crate::storage::{Descriptors, File, Part, ReadError, ReadFault, Reader, explained, unchanged};

/// Where the landings of parts are counted from.
pub(super) struct Target {
    pub(super) memory: Arc<Registration>,
    /// Where they begin in the registered memory.
    pub(super) start: u64,
    /// Kept until the last answer.
    pub(super) loan: Arc<dyn Memory>,
}

pub(super) struct DirectRead {
    target: Target,
    files: Vec<File>,
    /// Those that no wave has taken yet, by file.
    rest: VecDeque<Part>,
    wave: Option<Wave>,
    carried: RouteBytes,
}

/// Transfers under way.
struct Wave {
    waiter: Waiter,
    /// Which of the files each transfer is of.
    transfers: Vec<usize>,
    /// The files, each with the first offset that is read of it.
    files: Vec<(File, u64)>,
    /// Bytes of extents.
    asked: u64,
    compat: bool,
    /// What cuFile had counted.
    before: Option<Counters>,
}

impl DirectRead {
    /// Begins to read `parts`, which are in the order of `files`, by whose numbers they name theirs.
    pub(super) fn begin(
        files: Vec<File>,
        parts: Vec<Part>,
        target: Target,
        direct: &Direct,
        reader: &Reader,
    ) -> Result<Self, CarryError> {
        let mut read = Self { target, files, rest: parts.into(), wave: None, carried: RouteBytes::default() };
        read.wave = Some(read.next_wave(direct, reader)?);
        Ok(read)
    }

    /// Reads on; ready with the bytes carried when all have landed, or with the first error.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        direct: &Direct,
        reader: &Reader,
    ) -> Poll<Result<RouteBytes, CarryError>> {
        loop {
            if let Some(wave) = &mut self.wave {
                let outcome = ready!(Pin::new(&mut wave.waiter).poll(context));
                if let Some(wave) = self.wave.take() {
                    self.carried += wave.end(outcome, direct)?;
                }
            }
            if self.rest.is_empty() {
                return Poll::Ready(Ok(self.carried));
            }
            self.wave = Some(self.next_wave(direct, reader)?);
        }
    }

    fn next_wave(&mut self, direct: &Direct, reader: &Reader) -> Result<Wave, CarryError> {
        let mut job = Vec::new();
        let (mut transfers, mut files) = (Vec::new(), Vec::new());
        let mut pairs: Vec<Arc<Descriptors>> = Vec::new();
        let (mut asked, mut compat) = (0, false);
        while let Some(number) = self.rest.front().map(|part| part.file) {
            let file = self.files[number as usize].clone();
            if files.len() == reader.most_files() {
                break;
            }
            let pair =
                if pairs.is_empty() { Some(reader.descriptors(&file)?) } else { reader.more_descriptors(&file)? };
            let Some(pair) = pair else { break };
            let first = self.rest.front().map_or(0, |part| part.need.start);
            let failed = |error: CuFileError| not_begun(&file, first, error);
            let handle = match direct.handle(&pair, reader) {
                // The next wave has the descriptors of this one.
                Err(CuFileError::Descriptor(error))
                    if error.raw_os_error() == Some(libc::EMFILE) && !job.is_empty() =>
                {
                    break;
                }
                handle => handle.map_err(failed)?,
            };
            compat |= direct.is_compat_known(&file);
            while self.rest.front().is_some_and(|part| part.file == number)
                && let Some(part) = self.rest.pop_front()
            {
                let whole = self.with_neighbours(part, &mut asked);
                let at = self.target.start + whole.landing as u64;
                let (len, need) = (whole.wide.end - whole.wide.start, whole.need.end - whole.wide.start);
                let transfer = Transfer::new(&handle, &self.target.memory, whole.wide.start, len, need, at);
                job.push(transfer.map_err(failed)?);
                transfers.push(files.len());
            }
            files.push((file, first));
            pairs.push(pair);
        }
        let before = direct.counters();
        let (job, waiter) = Job::new(job);
        direct.form().take(job.holding(Arc::new((Arc::clone(&self.target.loan), pairs))));
        Ok(Wave { waiter, transfers, files, asked, compat, before })
    }

    /// Joins a part with those that follow it in the file and in memory: cuFile splits as it likes.
    fn with_neighbours(&mut self, mut part: Part, asked: &mut u64) -> Part {
        *asked += part.asked;
        while let Some(next) = self.rest.front() {
            let len = part.wide.end - part.wide.start;
            let goes_on = next.file == part.file
                && next.wide.start == part.wide.end
                && next.landing == part.landing + len as usize
                && len < MOST;
            if !goes_on {
                break;
            }
            (part.wide.end, part.need.end) = (next.wide.end, next.need.end);
            *asked += next.asked;
            self.rest.pop_front();
        }
        part
    }
}

/// Bytes of one transfer: few enough that a large file keeps several threads busy.
const MOST: u64 = 4 << 20;

impl Wave {
    fn end(
        self,
        outcome: Result<crate::device::cufile::Landed, TransferFault>,
        direct: &Direct,
    ) -> Result<RouteBytes, CarryError> {
        if let Err(fault) = outcome {
            return Err(self.failed(fault));
        }
        self.files.iter().try_for_each(unchanged)?;
        let compat = self.compat || direct.was_compat(self.before.as_ref());
        Ok(match compat {
            true => RouteBytes { direct_compat: self.asked, ..RouteBytes::default() },
            false => RouteBytes { direct: self.asked, ..RouteBytes::default() },
        })
    }

    fn failed(&self, TransferFault { index, at, fault, .. }: TransferFault) -> CarryError {
        let file = self.transfers.get(index).and_then(|&file| self.files.get(file));
        let path = file.map(|(file, _)| file.path().to_owned()).unwrap_or_default();
        match fault {
            // A file that ends early has most often been changed: then that is what is wrong.
            CuFileFault::Ends { missing } => {
                explained(ReadError { path, offset: at, fault: ReadFault::Ends { missing } }, &self.files).into()
            }
            fault => CarryError { path, offset: at, fault: CarryFault::Direct(fault) },
        }
    }
}

fn not_begun(file: &File, offset: u64, error: CuFileError) -> CarryError {
    let route = super::decision::Route::Direct;
    let reason = super::reason::NoRoute::of_refused_file(error, Vec::new());
    CarryError { path: file.path().to_owned(), offset, fault: CarryFault::NoRoute { route, reason } }
}
