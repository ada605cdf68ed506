use std::sync::{Arc, Mutex, OnceLock};

use super::bytes::Tally;
use super::carrier::Carrier;
use super::core::{Core, Gpu};
use super::decision::{Route, Switch, Switches};
use super::direct::{Direct, DirectForm};
use super::reason::NoRoute;
use crate::device::{CudaDevice, Device, DeviceArena, DeviceError, DeviceKind, EventPool, PinnedArena};
use crate::error::BuildError;
use crate::memory::Owner;
use crate::storage::{EngineError, Mode, Reader, ReaderBuilder};

/// Sets up a [`Carrier`].
///
/// ## Defaults
/// device host, every route auto, cuFile asked by a pool of threads, budget 256 MiB of host memory and 512 MiB of device
/// memory, chunk 4 MiB; of the reader what [`ReaderBuilder`] says.
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct CarrierBuilder {
    device: Device,
    switches: Switches,
    reader: ReaderBuilder,
    budget: u64,
    device_budget: u64,
    chunk: u64,
    form: DirectForm,
}

impl Default for CarrierBuilder {
    fn default() -> Self {
        Self {
            device: Device::host(),
            switches: Switches::default(),
            reader: ReaderBuilder::default(),
            budget: 256 << 20,
            device_budget: 512 << 20,
            chunk: 4 << 20,
            form: DirectForm::Pool,
        }
    }
}

impl CarrierBuilder {
    /// Where bytes are to end up.
    pub fn device(mut self, device: &Device) -> Self {
        self.device = device.clone();
        self
    }

    /// Takes this route and no other. `direct` is taken also where cuFile serves a file through its compatibility mode only,
    /// which a warning and [`Decision::compat`](super::Decision::compat) say, and is counted as that.
    pub fn route(mut self, route: Route) -> Self {
        self.switches = Switches::default();
        match route {
            Route::Direct => self.direct(Switch::On),
            Route::Bounce => self.bounce(Switch::On),
            Route::Cached => self.cached(Switch::On),
        }
    }

    /// Whether cuFile may carry bytes straight into device memory.
    pub fn direct(mut self, switch: Switch) -> Self {
        self.switches.direct = switch;
        self
    }

    /// How cuFile is asked to read, where it is.
    pub fn direct_form(mut self, form: DirectForm) -> Self {
        self.form = form;
        self
    }

    /// Whether reads may go past the page cache into pinned memory.
    pub fn bounce(mut self, switch: Switch) -> Self {
        self.switches.bounce = switch;
        self
    }

    /// Whether reads may go through the page cache into pinned memory.
    pub fn cached(mut self, switch: Switch) -> Self {
        self.switches.cached = switch;
        self
    }

    /// How files are read: engine, depth, rings, polling. Its mode and its budget are set by this builder.
    pub fn reader(mut self, reader: ReaderBuilder) -> Self {
        self.reader = reader;
        self
    }

    /// With other settings of its reader.
    pub(crate) fn map_reader(mut self, change: impl FnOnce(ReaderBuilder) -> ReaderBuilder) -> Self {
        self.reader = change(self.reader);
        self
    }

    /// The most bytes of host memory that reads land in. On a CUDA device it is passed through, and pinned as it grows, from what
    /// two windows of reads take (64 MiB, unless chunks are larger); what the driver refuses to pin later is copied all the same,
    /// see [`RouteBytes::unpinned`](super::RouteBytes::unpinned). On the host it is what [`ReaderBuilder::budget`] says.
    pub fn budget(mut self, bytes: u64) -> Self {
        self.budget = bytes;
        self
    }

    /// Bytes of device memory that requests land in, allocated once: it must hold what is kept and what is being
    /// carried at the same time. Rounded down to whole 4 KiB, and 4 KiB at least; who only carries into buffers of his own
    /// needs none of it. The route `direct` takes 2 MiB beside it, to try files in.
    pub fn device_budget(mut self, bytes: u64) -> Self {
        self.device_budget = bytes;
        self
    }

    /// About how many bytes are read before they are copied to the device at once: 4 KiB to 1 GiB. Less overlaps sooner
    /// and costs more calls; at most a third of the budget is taken.
    pub fn chunk(mut self, bytes: u64) -> Self {
        self.chunk = bytes;
        self
    }

    /// Allocates the device's memory, pins what of the host's is used first, and starts the engine.
    ///
    /// # Errors
    /// [`BuildError`] where a setting is out of range, memory cannot be had or pinned, the device fails or the engine
    /// that was asked for cannot start.
    pub fn build(self) -> Result<Carrier, BuildError> {
        /// Three chunks of the least size, with room for what alignment adds.
        const LEAST: u64 = 1 << 20;
        let wrong = |setting, value, range| Err(EngineError::Setting { setting, value, range }.into());
        if !(4096..=1 << 30).contains(&self.chunk) {
            return wrong("chunk", self.chunk, "4096 to 1073741824");
        }
        if self.switches.forced_ones() > 1 {
            return wrong(
                "routes that are on",
                self.switches.forced_ones() as u64,
                "at most 1: set the others to auto",
            );
        }
        let Some(mode) = self.mode() else {
            return wrong("routes that are not off", 0, "1 to 3");
        };
        let chunk = self.chunk.min(self.budget / 3).max(4096);
        if self.device.kind() != DeviceKind::Host && self.budget < LEAST {
            return wrong("budget", self.budget, "at least 1048576 for a device");
        }
        // What is read at once must fit what is copied at once.
        let reader = self.reader.clone().mode(mode).budget(self.budget).chunk_at_most(chunk);
        let (reader, chunk) = (reader.build()?, chunk as usize);
        // Enough to keep a fast drive busy while whole chunks are being filled.
        const WINDOW: usize = 32 << 20;
        let window = WINDOW.max(3 * chunk).min(reader.arena().budget() as usize / 2);
        let form = self.switches.allows(Route::Direct).then_some(self.form);
        let gpu = match self.device.as_cuda() {
            Some(device) => {
                // As much is read, and as much copied meanwhile: to register it later could hold up what is in flight.
                reader.arena().touch(2 * window)?;
                Some(gpu(&self.device, device, form, self.device_budget, &reader)?)
            }
            None => None,
        };
        let core = Core {
            device: self.device,
            reader,
            switches: self.switches,
            chunk,
            tally: Arc::<Tally>::default(),
            decisions: Mutex::default(),
            conductor: OnceLock::new(),
            window,
            owner: Owner::this(),
            gpu,
        };
        if core.gpu.is_some() {
            core.conductor()?;
        }
        Ok(Carrier::new(core))
    }

    /// How the reader reads for the routes that are allowed.
    fn mode(&self) -> Option<Mode> {
        let [direct, bounce, cached] =
            [Route::Direct, Route::Bounce, Route::Cached].map(|route| self.switches.allows(route));
        match (direct, bounce, cached) {
            (_, true, true) | (true, false, false) => Some(Mode::Auto),
            (_, true, false) => Some(Mode::Direct),
            (_, false, true) => Some(Mode::Buffered),
            (false, false, false) => None,
        }
    }
}

fn gpu(
    on: &Device,
    device: &Arc<CudaDevice>,
    form: Option<DirectForm>,
    budget: u64,
    reader: &Reader,
) -> Result<Gpu, DeviceError> {
    /// Reads of cuFile's under way at once, where they are made by threads.
    const THREADS: usize = 8;
    let len = usize::try_from(budget).unwrap_or(usize::MAX).max(4096) / 4096 * 4096;
    let arena = DeviceArena::new(on.allocate_memory(len)?, len);
    let direct = match form {
        Some(form) => Direct::new(device, &arena, form, THREADS),
        None => Err(NoRoute::TurnedOff),
    };
    let pinned = Arc::new(PinnedArena::new(device, reader.arena())?);
    Ok(Gpu {
        device: Arc::clone(device),
        events: EventPool::new(device),
        direct,
        arena,
        pinned,
        down: Mutex::default(),
    })
}
