//! Files on their way, several at once, and how far they have come.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::coop::unconstrained;

use super::error::CheckpointError;
use super::options::Progress;
use crate::device::DeviceBuffer;
use crate::route::{Carrier, Carry, CarryError, CarryInto, Landed, Placed, RouteBytes};
use crate::storage::Extent;
use crate::sync::unpark_this_thread;

/// What one file, or the packed part of one, has become.
pub(super) enum Loaded {
    Landed(Arc<Landed>),
    Buffer(Arc<DeviceBuffer>),
}

type Tell = dyn Fn(Progress) + Send + Sync;

pub(super) struct Arriving<'a> {
    carrier: &'a Carrier,
    under_way: VecDeque<UnderWay>,
    loaded: Vec<Loaded>,
    carried: RouteBytes,
    progress: Told<'a>,
}

enum UnderWay {
    Carry(Carry),
    Into(Box<CarryInto>, u64),
}

impl<'a> Arriving<'a> {
    pub(super) fn new(carrier: &'a Carrier, total: u64, tell: Option<&'a Tell>) -> Self {
        let progress = Told { carrier, tell, total, before: arrived(carrier), last: Instant::now() };
        Self { carrier, under_way: VecDeque::new(), loaded: Vec::new(), carried: RouteBytes::default(), progress }
    }

    /// Begins to bring extents of one file to where they stay.
    pub(super) fn carry(&mut self, extents: &[Extent]) -> Result<(), CheckpointError> {
        self.make_way()?;
        self.under_way.push_back(UnderWay::Carry(self.carrier.carry(extents)));
        Ok(())
    }

    /// Begins to fill a buffer. Of what is placed, `extra` bytes are nobody's.
    pub(super) fn carry_into(
        &mut self,
        buffer: DeviceBuffer,
        placed: &[Placed],
        extra: u64,
    ) -> Result<(), CheckpointError> {
        self.make_way()?;
        self.under_way.push_back(UnderWay::Into(Box::new(self.carrier.carry_into(buffer, placed)), extra));
        Ok(())
    }

    /// Fills a buffer with very many runs.
    pub(super) fn pack(
        &mut self,
        mut buffer: DeviceBuffer,
        mut placed: impl Iterator<Item = Placed>,
    ) -> Result<(), CheckpointError> {
        /// A list of them all could be larger than what they are.
        const AT_ONCE: usize = 1 << 16;
        while self.take_one()? {}
        loop {
            let some: Vec<Placed> = placed.by_ref().take(AT_ONCE).collect();
            if some.is_empty() {
                self.loaded.push(Loaded::Buffer(Arc::new(buffer)));
                return Ok(());
            }
            let (carried, back) = self.progress.wait(self.carrier.carry_into(buffer, &some));
            self.carried += carried?;
            buffer = back;
        }
    }

    /// Waits for all, in the order they were begun.
    pub(super) fn finish(mut self) -> Result<(Vec<Loaded>, RouteBytes), CheckpointError> {
        while self.take_one()? {}
        self.progress.tell(self.carried.total());
        Ok((self.loaded, self.carried))
    }

    /// Waits for the oldest while there are enough to keep a drive busy.
    fn make_way(&mut self) -> Result<(), CheckpointError> {
        const AT_ONCE: usize = 16;
        while self.under_way.len() >= AT_ONCE && self.take_one()? {}
        Ok(())
    }

    fn take_one(&mut self) -> Result<bool, CheckpointError> {
        let Some(oldest) = self.under_way.pop_front() else { return Ok(false) };
        match oldest {
            UnderWay::Carry(carry) => {
                let landed: Result<Landed, CarryError> = self.progress.wait(carry);
                let landed = landed?;
                self.carried += landed.carried();
                self.loaded.push(Loaded::Landed(Arc::new(landed)));
            }
            UnderWay::Into(carry, extra) => {
                let (carried, buffer) = self.progress.wait(*carry);
                self.carried += without(extra, carried?);
                self.loaded.push(Loaded::Buffer(Arc::new(buffer)));
            }
        }
        Ok(true)
    }
}

/// Only cuFile reads more than was asked for.
fn without(extra: u64, mut carried: RouteBytes) -> RouteBytes {
    let direct = extra.min(carried.direct);
    carried.direct -= direct;
    carried.direct_compat = carried.direct_compat.saturating_sub(extra - direct);
    carried
}

/// Who is told how far it has come.
struct Told<'a> {
    carrier: &'a Carrier,
    tell: Option<&'a Tell>,
    total: u64,
    /// What had arrived before this load.
    before: u64,
    last: Instant,
}

impl Told<'_> {
    fn tell(&mut self, bytes: u64) {
        if let Some(tell) = self.tell {
            tell(Progress { bytes: bytes.min(self.total), total: self.total });
            self.last = Instant::now();
        }
    }

    /// Waits on this thread, and tells now and then.
    fn wait<F: Future + Unpin>(&mut self, future: F) -> F::Output {
        const NOW_AND_THEN: Duration = Duration::from_millis(100);
        let waker = unpark_this_thread();
        let mut context = Context::from_waker(&waker);
        // A tokio task's budget would end, and only yielding, which this thread does not, would renew it.
        let mut future = unconstrained(future);
        loop {
            if let Poll::Ready(outcome) = Pin::new(&mut future).poll(&mut context) {
                return outcome;
            }
            if self.tell.is_none() {
                thread::park();
                continue;
            }
            thread::park_timeout(NOW_AND_THEN.saturating_sub(self.last.elapsed()));
            if self.last.elapsed() >= NOW_AND_THEN {
                self.tell(arrived(self.carrier) - self.before);
            }
        }
    }
}

/// Bytes that this carrier has brought so far: of reads each part, of cuFile's what was delivered.
fn arrived(carrier: &Carrier) -> u64 {
    let by_cufile = carrier.carried().direct + carrier.carried().direct_compat;
    carrier.reader().arrived() + by_cufile
}
