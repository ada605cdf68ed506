//! What windows are made with: where their memory is taken, and how they are read and worked on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::assemble::{Assembled, From, Work};
use super::flight::Step;
use super::memory::Memory;
use super::plan::Window;
use super::pool::Pool;
use super::rows::Ragged;
use super::shared::{Doing, Shared};
use super::stage::Stage;
use super::timeline::Timeline;
use crate::dataset::Checksums;
use crate::device::DeviceKind;
use crate::memory::Slot;
use crate::route::{Carrier, CarryError, CarryFault, FillPlan, Landing, RouteBytes};

/// What windows are made with.
pub(super) struct Means {
    carrier: Carrier,
    pool: Pool,
    work: Work,
    /// Bytes land in host memory first, since the processor has to do something to them.
    pub(super) by_processor: bool,
    on_device: bool,
    shared: Arc<Shared>,
    /// Since when the thread that polls has not slept.
    pub(super) awake_since: Instant,
}

impl Means {
    pub(super) fn new(carrier: Carrier, pool: Pool, work: Work, ragged: Ragged, shared: Arc<Shared>) -> Self {
        let on_device = carrier.device().kind() != DeviceKind::Host;
        let checks = match work.dataset.checksums() {
            Checksums::None => false,
            // On a device they would cost the direct route, and say nothing before a whole pass is over.
            Checksums::Members => !on_device,
            Checksums::Samples => true,
        };
        let by_processor = work.transform.is_some() || checks || ragged == Ragged::Padded;
        Self { carrier, pool, work, by_processor, on_device, shared, awake_since: Instant::now() }
    }

    /// Whether what cannot be read at once may be read sample by sample, in host memory: where that has room for it.
    pub(super) fn can_read_one_by_one(&self, window: &Window) -> bool {
        /// A read may be a block longer at both ends.
        const EDGES: u64 = 2 * 4096;
        let sample = |sample: usize| {
            let extents = &window.extents[window.extents_of(sample)];
            extents.iter().map(|extent| extent.len().saturating_add(EDGES)).fold(0, u64::saturating_add)
        };
        let largest = (0..window.samples.len()).map(sample).max().unwrap_or(0);
        let whole = (window.len as u64).next_multiple_of(4096).saturating_add(largest);
        !self.is_direct_alone() && whole <= self.carrier.reader().arena().budget()
    }

    /// Whether the processor's part is done by the thread that polls.
    pub(super) fn works_here(&self) -> bool {
        self.pool.is_empty()
    }

    /// Whether no byte may go to the device by way of the host.
    pub(super) fn is_direct_alone(&self) -> bool {
        self.on_device && self.carrier.is_direct_alone()
    }

    /// What a window begins with, and where on the device it will go, where that has room for it by now.
    pub(super) fn first_step(
        &self,
        window: Box<Window>,
        timeline: &mut Timeline,
        one_by_one: bool,
    ) -> (Step, Option<Landing>) {
        if window.samples.is_empty() {
            return (Step::Over(window, Memory::Nothing, Vec::new(), RouteBytes::default()), None);
        }
        if self.on_device && !self.by_processor && !one_by_one {
            let carry = self.carrier.carry_placed(window.places(), window.len);
            timeline.enter(if carry.is_waiting() { Stage::Memory } else { Stage::Read });
            return (Step::Carry(carry, window), None);
        }
        if !self.on_device {
            return (self.take_memory(window, timeline, one_by_one), None);
        }
        timeline.enter(Stage::Memory);
        let (path, offset) = first_of(&window).unwrap_or_default();
        // At once where there is some: what is begun next would take the host memory that this one needs.
        match self.carrier.room(window.len, path, offset).now() {
            Ok(Ok(landing)) => (self.take_memory(window, timeline, one_by_one), Some(landing)),
            Ok(Err(error)) => (Step::Refused(error, window), None),
            Err(room) => (Step::Room(room, window, one_by_one), None),
        }
    }

    pub(super) fn take_memory(&self, window: Box<Window>, timeline: &mut Timeline, one_by_one: bool) -> Step {
        timeline.enter(Stage::Memory);
        let arena = self.carrier.reader().arena();
        let planned = if one_by_one {
            self.plan_largest(&window)
        } else if self.by_processor {
            self.carrier.plan_beside(&window.extents, window.len)
        } else {
            self.carrier.plan_fill(window.places(), window.len)
        };
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => return Step::Refused(error, window),
        };
        let (len, align) = (plan.memory(), plan.align());
        let lent = arena.try_loan_aligned(len, align).and_then(|slot| match slot {
            Some(slot) => Ok(Ok(slot)),
            None => arena.loan_aligned(len, align).map(Err),
        });
        match lent {
            Ok(Ok(slot)) => self.read(window, slot, plan, timeline, one_by_one),
            Ok(Err(loan)) => Step::Memory(loan, window, plan),
            Err(error) => Step::Refused(at_first(&window, CarryFault::Memory(error)), window),
        }
    }

    /// What the sample takes that takes most, with the memory of the window.
    fn plan_largest(&self, window: &Window) -> Result<FillPlan, CarryError> {
        let mut largest = self.carrier.plan_beside(&[], window.len)?;
        for sample in 0..window.samples.len() {
            // One that cannot be planned is found when it is read.
            let plan = self.carrier.plan_beside(&window.extents[window.extents_of(sample)], window.len);
            if let Ok(plan) = plan
                && plan.memory() > largest.memory()
            {
                largest = plan;
            }
        }
        Ok(largest)
    }

    pub(super) fn read(
        &self,
        window: Box<Window>,
        slot: Slot,
        plan: FillPlan,
        timeline: &mut Timeline,
        one_by_one: bool,
    ) -> Step {
        timeline.enter(Stage::Read);
        match one_by_one {
            true => {
                let from = From::OneByOne(self.carrier.clone(), slot, plan);
                self.work_on(window, from, RouteBytes::default())
            }
            false => Step::Read(self.carrier.fill(plan, slot), window),
        }
    }

    pub(super) fn work_on(&self, window: Box<Window>, from: From, carried: RouteBytes) -> Step {
        if self.works_here() {
            // Done here and now, and nothing else meanwhile: the watchdog would not hear of it otherwise.
            let stage = if let From::OneByOne(..) = from { Stage::Read } else { Stage::Transform };
            let doing = Doing { stage, since: Instant::now(), watches: Vec::new(), first: first_of(&window) };
            self.shared.state().doing = doing;
        }
        let work = self.work.clone();
        Step::Work(self.pool.run(move || work.assemble(window, from)), carried)
    }

    /// What follows the processor's part.
    pub(super) fn upload(
        &self,
        assembled: Assembled,
        mut carried: RouteBytes,
        timeline: &mut Timeline,
        landing: Option<Landing>,
    ) -> Step {
        let Assembled { window, slot, failures, carried: here } = assembled;
        carried += here;
        let Some(landing) = landing else {
            return Step::Over(window, Memory::on_host(slot), failures, carried);
        };
        timeline.enter(Stage::Copy);
        let (path, offset) = first_of(&window).unwrap_or_default();
        Step::Upload(self.carrier.upload(slot, landing, path, offset), window, failures, carried)
    }
}

/// An error at the window's first byte.
pub(super) fn at_first(window: &Window, fault: CarryFault) -> CarryError {
    let (path, offset) = first_of(window).unwrap_or_default();
    CarryError { path, offset, fault }
}

/// The window's first file, and the offset in it.
pub(super) fn first_of(window: &Window) -> Option<(PathBuf, u64)> {
    window.extents.first().map(|first| (first.file().path().to_owned(), first.offset()))
}
