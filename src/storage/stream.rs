use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use tokio::task::coop::unconstrained;

use super::error::ReadError;
use super::extent::Extent;
use super::read::Read;
use super::reader::Reader;

/// Extents read in order and in parts, ahead of whoever takes them: a [`Stream`] of [`Bytes`], or, through
/// [`blocking`](Self::blocking), an [`Iterator`] of them.
///
/// A part is the memory that it landed in. Whoever keeps parts keeps that memory: with as much as the budget kept, the
/// stream waits until some is given back. After an error the stream ends.
#[must_use = "a stream reads nothing until it is polled"]
pub struct ReadStream {
    reader: Reader,
    extents: VecDeque<Extent>,
    under_way: VecDeque<(Read, Ahead)>,
    /// Bytes of the reads under way.
    ahead: u64,
    window: u64,
    part: u64,
}

impl ReadStream {
    pub(super) fn new(reader: Reader, extents: VecDeque<Extent>, chunk: u64) -> Self {
        let budget = reader.arena().budget();
        // Parts of two chunks spare the consumer every other wake-up, and leave room for several under way.
        let eighth = budget / 8 / WHOLE * WHOLE;
        let part = chunk.saturating_mul(CHUNKS_PER_PART).min(eighth).max(WHOLE).min(budget);
        let window = WINDOW.max(4 * part).min(budget / 4 * 3);
        Self { reader, extents, under_way: VecDeque::new(), ahead: 0, window, part }
    }

    /// Sets the most bytes that one item has. Smaller parts cost more wake-ups, larger ones more memory.
    pub fn part(mut self, bytes: u64) -> Self {
        self.part = bytes.max(1);
        self
    }

    /// Sets how many bytes are read ahead of the consumer: 16 MiB as a rule, more for storage that is fast and far.
    pub fn window(mut self, bytes: u64) -> Self {
        self.window = bytes.max(1);
        self
    }

    /// The next part, awaited on this thread, with any runtime or none; `None` at the end.
    pub fn next_blocking(&mut self) -> Option<Result<Bytes, ReadError>> {
        // As for `Read::wait`.
        pollster::block_on(unconstrained(poll_fn(|context| self.poll_part(context))))
    }

    /// The same parts as an iterator that waits on this thread.
    pub fn blocking(self) -> BlockingStream {
        BlockingStream(self)
    }

    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, ReadError>>> {
        self.read_ahead(context);
        if self.under_way.is_empty() {
            self.begin(u64::MAX);
        }
        let Some((read, ahead)) = self.under_way.front_mut() else { return Poll::Ready(None) };
        let Poll::Ready(outcome) = Pin::new(read).poll(context) else { return Poll::Pending };
        self.ahead -= ahead.bytes;
        self.under_way.pop_front();
        if outcome.is_err() {
            self.extents.clear();
            self.under_way.clear();
            self.ahead = 0;
        }
        self.read_ahead(context);
        Poll::Ready(Some(outcome.map(|pieces| pieces.bytes(0))))
    }

    fn read_ahead(&mut self, context: &mut Context<'_>) {
        for (read, _) in self.under_way.iter_mut().filter(|(read, _)| read.is_waiting()) {
            // In the order of asking, so the first that still waits is followed by none that does not.
            if read.poll_begin(context).is_pending() {
                return;
            }
        }
        // What is read before anybody asks for it leaves a quarter to those who do, of this stream and of others.
        let most = self.reader.arena().budget() / 4 * 3;
        while self.ahead < self.window && self.begin(most) {}
    }

    /// Begins the next part unless that makes more than `most` bytes for all streams; whether the next can follow.
    fn begin(&mut self, most: u64) -> bool {
        while self.extents.front().is_some_and(Extent::is_empty) {
            self.extents.pop_front();
        }
        let Some(extent) = self.extents.front_mut() else { return false };
        if extent.offset.checked_add(extent.len).is_none_or(|end| end > extent.file.len()) {
            // Said of the whole extent and before any part of it: reading it says what is wrong.
            let extent = extent.clone();
            self.extents.clear();
            let Some(ahead) = Ahead::new(&self.reader, 0, u64::MAX) else { return false };
            self.under_way.push_back((self.reader.read(&[extent]), ahead));
            return false;
        }
        // To a whole part of the file, so that only the first and the last are widened.
        let len = (self.part - extent.offset % self.part).min(extent.len);
        let Some(ahead) = Ahead::new(&self.reader, len, most) else { return false };
        let part = Extent::new(&extent.file, extent.offset, len);
        extent.offset += len;
        extent.len -= len;
        let read = self.reader.read(std::slice::from_ref(&part));
        let waits = read.is_waiting();
        self.ahead += len;
        self.under_way.push_back((read, ahead));
        !waits
    }
}

/// The bytes of one part among those that all streams of a reader have begun and nobody has taken yet.
struct Ahead {
    reader: Reader,
    bytes: u64,
}

impl Ahead {
    fn new(reader: &Reader, bytes: u64, most: u64) -> Option<Self> {
        let more = |sum: u64| sum.checked_add(bytes).filter(|&sum| sum <= most);
        reader.ahead().fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self { reader: reader.clone(), bytes })
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.reader.ahead().fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Parts are multiples of this, in bytes, where the budget has as much.
const WHOLE: u64 = 64 << 10;

/// See [`ReadStream::new`].
const CHUNKS_PER_PART: u64 = 2;

/// Bytes read ahead, as a rule. As much as a fast drive has under way, and little enough that memory is filled again
/// while it is still in the processor's caches: of a RAM device, 32 MiB ahead were read at 0.97 to 1.01 of the rate
/// of fio, 16 MiB at 1.13 to 1.23.
const WINDOW: u64 = 16 << 20;

/// A [`ReadStream`] as an [`Iterator`] that waits on this thread.
#[derive(Debug)]
#[must_use = "an iterator reads nothing until it is asked"]
pub struct BlockingStream(ReadStream);

impl Iterator for BlockingStream {
    type Item = Result<Bytes, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_blocking()
    }
}

impl Stream for ReadStream {
    type Item = Result<Bytes, ReadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_part(context)
    }
}

impl fmt::Debug for ReadStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadStream")
            .field("ahead", &self.ahead)
            .field("window", &self.window)
            .field("part", &self.part)
            .finish_non_exhaustive()
    }
}
