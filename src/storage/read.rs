use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::descriptors::{Descriptors, PairError};
use super::error::{ReadError, ReadFault};
use super::file::File;
use super::layout::{Part, Via};
use super::pieces::Pieces;
use super::plan::{Mode, Plan, prefer_warm};
use super::proof::{Claim, Verdict};
use super::reader::Core;
use super::request::{Job, Request, Watch, Wave};
use crate::memory::{Loan, MemoryError, Slot};
use crate::sync::wait_for;
use crate::units::Size;

/// A read under way: a future of its [`Pieces`].
///
/// It was given to the engine when it was made, if memory was free, and else is when it is first polled after memory
/// has come free. Dropping it leaves what is under way to the engine, which finishes it and takes the memory back.
#[must_use = "a read that is dropped delivers nothing"]
pub struct Read {
    core: Arc<Core>,
    state: State,
}

enum State {
    /// Waits for memory.
    Waiting(Loan, Box<Plan>),
    Reading(Reading),
    Over(Option<Result<Pieces, ReadError>>),
}

struct Reading {
    request: Arc<Request>,
    pieces: Vec<Range<usize>>,
    /// Parts that no engine has yet, by file: more files than may be open at once are read in waves.
    rest: Vec<Part>,
    wave: oneshot::Receiver<()>,
    /// What the wave claims to read past the page cache, by file.
    claims: Vec<Claim>,
}

impl Read {
    pub(super) fn new(core: &Arc<Core>, plan: Result<Plan, ReadError>) -> Self {
        let state = plan.and_then(|plan| begin(core, plan)).unwrap_or_else(|error| State::Over(Some(Err(error))));
        Self { core: Arc::clone(core), state }
    }

    /// Reads what a plan says into a slot of this reader's arena, which it must fit.
    pub(super) fn in_slot(core: &Arc<Core>, plan: Plan, slot: Slot) -> Self {
        let state = match plan.layout.parts.is_empty() {
            true => State::Over(Some(Ok(Pieces::new(None, plan.layout.pieces)))),
            false => begin_in(core, plan, slot).unwrap_or_else(|error| State::Over(Some(Err(error)))),
        };
        Self { core: Arc::clone(core), state }
    }

    /// What tells where it is, once it is under way.
    pub(crate) fn watch(&self) -> Option<Watch> {
        match &self.state {
            State::Reading(reading) => Some(Watch::of(&reading.request)),
            _ => None,
        }
    }

    /// Whether it waits for memory to come free.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(..))
    }

    /// Waits for the read on this thread, with any runtime or none.
    ///
    /// # Errors
    /// As [`Reader::read`](super::Reader::read).
    pub fn wait(self) -> Result<Pieces, ReadError> {
        wait_for(self, Self::say_if_waiting)
    }

    /// Warns where it waits for memory, as a thread does for ever that itself holds what it waits for.
    pub(crate) fn say_if_waiting(&self) {
        if let State::Waiting(_, plan) = &self.state {
            let arena = &self.core.arena;
            tracing::warn!(
                "a read waits for {} of memory, and {} of a budget of {} are held by what was read before: drop some of it, \
                 or raise the budget",
                Size(plan.layout.len as u64),
                Size(arena.on_loan()),
                Size(arena.budget())
            );
        }
    }

    /// In a forked child no engine would ever end it, and what has landed is the parent's.
    fn forked(&mut self) -> Poll<Result<Pieces, ReadError>> {
        let first = match &self.state {
            State::Waiting(_, plan) => plan
                .layout
                .parts
                .first()
                .map(|part| (plan.files[part.file as usize].path().to_owned(), part.need.start)),
            State::Reading(reading) => first_of(&reading.request),
            State::Over(None) => return Poll::Pending,
            State::Over(Some(Err(_))) => None,
            State::Over(Some(Ok(pieces))) => pieces.request().and_then(first_of),
        };
        let (path, offset) = first.unwrap_or_default();
        match std::mem::replace(&mut self.state, State::Over(None)) {
            State::Over(Some(Err(error))) => Poll::Ready(Err(error)),
            // Nothing was to be read.
            State::Over(Some(Ok(pieces))) if pieces.request().is_none() => Poll::Ready(Ok(pieces)),
            _ => Poll::Ready(Err(ReadError { path, offset, fault: ReadFault::Forked })),
        }
    }

    /// Gives the read to the engine if its memory has come free.
    pub(super) fn poll_begin(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let State::Waiting(loan, plan) = &mut self.state {
            let lent = match Pin::new(&mut *loan).poll(context) {
                Poll::Ready(Ok(slot)) => Ok(slot),
                Poll::Ready(Err(error)) => Err(ReadFault::Memory(error)),
                Poll::Pending if loan.is_hopeless() => Err(ReadFault::EngineEnded),
                Poll::Pending => return Poll::Pending,
            };
            let slot = match lent {
                Ok(slot) => slot,
                Err(fault) => {
                    let part = &plan.layout.parts[0];
                    let path = plan.files[part.file as usize].path().to_owned();
                    let error = ReadError { path, offset: part.need.start, fault };
                    self.state = State::Over(Some(Err(error)));
                    return Poll::Ready(());
                }
            };
            let State::Waiting(_, plan) = std::mem::replace(&mut self.state, State::Over(None)) else {
                return Poll::Ready(());
            };
            self.state = begin_in(&self.core, *plan, slot).unwrap_or_else(|error| State::Over(Some(Err(error))));
        }
        Poll::Ready(())
    }
}

impl Future for Read {
    type Output = Result<Pieces, ReadError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if !this.core.is_ours() {
            return this.forked();
        }
        ready!(this.poll_begin(context));
        loop {
            match &mut this.state {
                State::Reading(reading) => {
                    // Sent or dropped, it says the same: no job of the wave is left.
                    let _ = ready!(Pin::new(&mut reading.wave).poll(context));
                    if let Some(outcome) = go_on(&this.core, reading) {
                        this.state = State::Over(Some(outcome));
                    }
                }
                State::Over(outcome) => return outcome.take().map_or(Poll::Pending, Poll::Ready),
                State::Waiting(..) => return Poll::Pending,
            }
        }
    }
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Waiting(..) => "waits for memory",
            State::Reading(_) => "under way",
            State::Over(_) => "over",
        };
        f.debug_tuple("Read").field(&state).finish()
    }
}

fn begin(core: &Arc<Core>, plan: Plan) -> Result<State, ReadError> {
    if plan.layout.parts.is_empty() {
        return Ok(State::Over(Some(Ok(Pieces::new(None, plan.layout.pieces)))));
    }
    let failed = |fault| {
        let part = &plan.layout.parts[0];
        let path = plan.files[part.file as usize].path().to_owned();
        ReadError { path, offset: part.need.start, fault }
    };
    if !core.is_ours() {
        return Err(failed(ReadFault::Forked));
    }
    let over_budget = |error: MemoryError| failed(ReadFault::Memory(error));
    let (len, align) = (plan.layout.len, plan.memory_align);
    match core.arena.try_loan_aligned(len, align).map_err(over_budget)? {
        Some(slot) => begin_in(core, plan, slot),
        None => {
            let loan = core.arena.loan_aligned(len, align).map_err(over_budget)?;
            Ok(State::Waiting(loan, Box::new(plan)))
        }
    }
}

fn begin_in(core: &Arc<Core>, plan: Plan, slot: Slot) -> Result<State, ReadError> {
    if !core.is_ours() {
        let part = &plan.layout.parts[0];
        let path = plan.files[part.file as usize].path().to_owned();
        return Err(ReadError { path, offset: part.need.start, fault: ReadFault::Forked });
    }
    let Plan { files, layout, .. } = plan;
    let forced = core.settings.mode == Mode::Direct;
    let mut files: Vec<(File, u64)> = files.into_iter().map(|file| (file, u64::MAX)).collect();
    for part in layout.parts.iter().rev() {
        files[part.file as usize].1 = part.need.start;
    }
    let request = Request::new(slot, files, &layout.parts, forced, Arc::clone(&core.counters));
    let request = Arc::new(request);
    let mut rest = layout.parts;
    let (wave, claims) = next_wave(core, &request, &mut rest)?;
    Ok(State::Reading(Reading { request, pieces: layout.pieces, rest, wave, claims }))
}

/// What follows when a wave is over: the outcome, or nothing where another wave was begun.
fn go_on(core: &Arc<Core>, reading: &mut Reading) -> Option<Result<Pieces, ReadError>> {
    let request = &reading.request;
    if let Some(failure) = request.take_failure() {
        return Some(Err(explained(failure, &request.files)));
    }
    if !request.lacks_only(reading.rest.len()) {
        return Some(Err(ended(request)));
    }
    judge(core, request, &mut reading.claims);
    if !reading.rest.is_empty() {
        return match next_wave(core, request, &mut reading.rest) {
            Ok((wave, claims)) => {
                (reading.wave, reading.claims) = (wave, claims);
                None
            }
            Err(error) => Some(Err(error)),
        };
    }
    if let Err(error) = request.files.iter().try_for_each(unchanged) {
        return Some(Err(error));
    }
    request.count_delivered();
    Some(Ok(Pieces::new(Some(Arc::clone(request)), std::mem::take(&mut reading.pieces))))
}

/// Counts as buffered what was not read past the page cache, though it was asked for so. Where nothing forbids it, the file
/// is read through the cache from here on.
fn judge(core: &Core, request: &Request, claims: &mut Vec<Claim>) {
    for claim in claims.drain(..) {
        let file = &request.files[claim.file as usize].0;
        match claim.judge(file) {
            Verdict::Stands => continue,
            Verdict::Refuted(reason) => core.say_cached(file, reason),
            Verdict::Known => {}
        }
        request.turn_buffered(claim.file, claim.bytes);
    }
}

/// Gives the engines the parts of as many files as may be open now, and says how to hear of their end, and what they claim.
fn next_wave(
    core: &Arc<Core>,
    request: &Arc<Request>,
    rest: &mut Vec<Part>,
) -> Result<(oneshot::Receiver<()>, Vec<Claim>), ReadError> {
    let (wave, done) = Wave::new();
    let first = rest[0].file;
    let aside = core.needs_pread(&request.files[first as usize].0);
    let mut pairs: Vec<Arc<Descriptors>> = Vec::new();
    let mut claims = Vec::new();
    let mut taken = 0;
    while let Some(file_number) = rest.get(taken).map(|part| part.file) {
        let file = &request.files[file_number as usize].0;
        if core.needs_pread(file) != aside || pairs.len() == core.most_files() {
            break;
        }
        let opened = if pairs.is_empty() {
            core.cache.pair_waiting(&file.inner).map(Some)
        } else {
            core.cache.pair(&file.inner)
        };
        let Some(pair) = opened.map_err(|error| not_opened(file, rest[taken].need.start, error))? else { break };
        let end = taken + rest[taken..].iter().take_while(|part| part.file == file_number).count();
        let parts = &mut rest[taken..end];
        if core.settings.mode == Mode::Auto && parts[0].via == Via::Direct {
            prefer_warm(file, &pair, parts);
        }
        claims.extend(Claim::new(file, &pair, parts.iter().filter(|part| part.via == Via::Direct)));
        pairs.push(pair);
        taken = end;
    }
    let later = rest.split_off(taken);
    let parts = std::mem::replace(rest, later);
    let pairs = Arc::new(pairs);
    let engine = core.engine_for(aside).map_err(|error| {
        let part = &parts[0];
        let path = request.files[part.file as usize].0.path().to_owned();
        tracing::error!("{error}");
        ReadError { path, offset: part.need.start, fault: ReadFault::EngineEnded }
    })?;
    let begun = request.parts() - rest.len() - parts.len();
    for (at, parts) in dealt(parts, engine.lanes()) {
        engine.take(Job::new(parts, begun + at, Arc::clone(request), Arc::clone(&pairs), first, Arc::clone(&wave)));
    }
    Ok((done, claims))
}

/// Divides parts among lanes, each a run of neighbours and where it begins; few are not worth dividing.
fn dealt(mut parts: Vec<Part>, lanes: usize) -> Vec<(usize, Vec<Part>)> {
    const FEW: usize = 4;
    if lanes == 1 || parts.len() < lanes * FEW {
        return vec![(0, parts)];
    }
    let share = parts.len().div_ceil(lanes);
    let mut hands = Vec::with_capacity(lanes);
    while parts.len() > share {
        let at = parts.len() - share;
        hands.push((at, parts.split_off(at)));
    }
    hands.push((0, parts));
    hands
}

pub(crate) fn unchanged((file, offset): &(File, u64)) -> Result<(), ReadError> {
    let fault = match file.content_change() {
        Ok(None) => return Ok(()),
        Ok(Some(change)) => ReadFault::Changed(change),
        Err(error) => ReadFault::Io { error },
    };
    Err(ReadError { path: file.path().to_owned(), offset: *offset, fault })
}

/// A file that ends early has most often been changed: then that is what is wrong.
pub(crate) fn explained(failure: ReadError, files: &[(File, u64)]) -> ReadError {
    let changed = files
        .iter()
        .find(|(file, _)| file.path() == failure.path)
        .filter(|_| matches!(failure.fault, ReadFault::Ends { .. } | ReadFault::Io { .. }))
        .and_then(|(file, _)| file.content_change().ok().flatten());
    match changed {
        Some(change) => ReadError { fault: ReadFault::Changed(change), ..failure },
        None => failure,
    }
}

/// The first file of a request, and the first offset that is read of it.
fn first_of(request: &Arc<Request>) -> Option<(PathBuf, u64)> {
    request.files.first().map(|(file, offset)| (file.path().to_owned(), *offset))
}

fn ended(request: &Arc<Request>) -> ReadError {
    let (path, offset) = first_of(request).unwrap_or_default();
    ReadError { path, offset, fault: ReadFault::EngineEnded }
}

pub(super) fn not_opened(file: &File, offset: u64, error: PairError) -> ReadError {
    let fault = match error {
        PairError::Open(fault) => ReadFault::Open(fault),
        PairError::Changed(change) => ReadFault::Changed(change),
    };
    ReadError { path: file.path().to_owned(), offset, fault }
}
