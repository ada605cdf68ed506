//! A route, through the public interface, as a loader would use it.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use forebay::{Carrier, Carry, CarryInto, DeviceBuffer, DeviceKind, Extent, Placed, Reader, RouteBytes};

use crate::child;
use crate::machine;
use crate::random::Random;
use crate::requests::Requests;
use crate::stand_in;
use crate::work::{Order, Outcome};

pub fn run(order: &Order) -> Result<Outcome, String> {
    let device = order.open_device()?;
    let on_host = device.kind() == DeviceKind::Host;
    let room = order.ahead as u64 * order.request + (64 << 20);
    let budget = if on_host { order.budget.max(room) } else { order.budget };
    let reader = Reader::builder().depth(order.depth).chunk(order.chunk.min(1 << 20));
    let builder = Carrier::builder().device(&device).reader(reader).chunk(order.chunk);
    let builder = order.contender.carrier(builder.budget(budget).device_budget(room));
    let carrier = builder.build().map_err(|e| e.to_string())?;
    let file = carrier.open(&order.file).map_err(|e| e.to_string())?;
    let mut requests = Requests::new(&file, order);
    let mut lane = Lane::new(&carrier, order)?;
    for warm_up in requests.warm_up() {
        lane.begin(&warm_up);
    }
    while lane.wait()? {}
    lane.bytes = 0;

    child::settle();
    let (before, counted_before) = (carrier.carried(), carrier.cufile_counters());
    let cpu_before = machine::own_cpu_seconds();
    let start = Instant::now();
    requests.start();
    loop {
        while lane.under_way.len() < order.ahead {
            let Some(extents) = requests.next() else { break };
            lane.begin(&extents);
        }
        if !lane.wait()? {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = machine::own_cpu_seconds() - cpu_before;

    let bytes = lane.bytes;
    let routes = since(&carrier.carried(), &before);
    let counted: u64 = routes.values().sum();
    if counted != bytes {
        return Err(format!("{counted} bytes counted, by {routes:?}, but {bytes} delivered"));
    }
    let note = counted_before.zip(carrier.cufile_counters()).map(|(before, now)| now.since(&before)).map(|counted| {
        let (p2p, nvfs, posix) = (counted.reads_p2p, counted.reads_nvfs, counted.reads_posix);
        format!("cuFile counted reads by P2PDMA {p2p}, nvidia-fs {nvfs}, host memory {posix}")
    });
    if order.check {
        check(&carrier, &file, order.seed)?;
    }
    let note = note.filter(|_| routes.keys().any(|name| name.starts_with("direct")));
    let (device, emulated) = (device.name().to_owned(), !on_host && stand_in::is_loaded());
    Ok(Outcome { bytes, seconds, cpu_seconds, device, emulated, routes, note, ..Outcome::default() })
}

/// Requests under way, the oldest first.
struct Lane<'a> {
    carrier: &'a Carrier,
    under_way: VecDeque<UnderWay>,
    /// Where pieces have places that the caller chooses.
    spare: Option<Vec<DeviceBuffer>>,
    /// Delivered.
    bytes: u64,
}

enum UnderWay {
    Carry(Carry),
    Into(Box<CarryInto>),
}

impl<'a> Lane<'a> {
    fn new(carrier: &'a Carrier, order: &Order) -> Result<Self, String> {
        let buffer = |_| carrier.device().allocate(order.request as usize).map_err(|e| e.to_string());
        let spare = order.into.then(|| (0..order.ahead).map(buffer).collect::<Result<_, _>>()).transpose()?;
        Ok(Self { carrier, under_way: VecDeque::new(), spare, bytes: 0 })
    }

    fn begin(&mut self, extents: &[Extent]) {
        let under_way = match self.spare.as_mut().and_then(Vec::pop) {
            Some(buffer) => {
                let mut at = 0;
                let place = |extent: &Extent| {
                    let placed = Placed::new(extent.clone(), at);
                    at += extent.len() as usize;
                    placed
                };
                let placed: Vec<Placed> = extents.iter().map(place).collect();
                UnderWay::Into(Box::new(self.carrier.carry_into(buffer, &placed)))
            }
            None => UnderWay::Carry(self.carrier.carry(extents)),
        };
        self.under_way.push_back(under_way);
    }

    /// Waits for the oldest and lets go of what landed; false where nothing is under way.
    fn wait(&mut self) -> Result<bool, String> {
        match self.under_way.pop_front() {
            None => return Ok(false),
            Some(UnderWay::Carry(carry)) => {
                let landed = carry.wait().map_err(|e| e.to_string())?;
                self.bytes += (0..landed.len()).filter_map(|index| landed.piece_len(index)).sum::<usize>() as u64;
            }
            Some(UnderWay::Into(carry)) => {
                let (carried, buffer) = carry.wait();
                self.bytes += carried.map_err(|e| e.to_string())?.total();
                self.spare.get_or_insert_default().push(buffer);
            }
        }
        Ok(true)
    }
}

fn since(now: &RouteBytes, before: &RouteBytes) -> BTreeMap<String, u64> {
    let before: BTreeMap<&str, u64> = before.by_name().collect();
    let grown = now.by_name().map(|(name, bytes)| (name.to_owned(), bytes - before.get(name).unwrap_or(&0)));
    grown.filter(|(_, bytes)| *bytes > 0).collect()
}

/// Carries a few pieces once more, at odd places too, and compares them with the file as the kernel gives it.
fn check(carrier: &Carrier, file: &forebay::File, seed: u64) -> Result<(), String> {
    const PIECES: u64 = 16;
    const MOST: u64 = 256 << 10;
    let mut random = Random::new(!seed);
    let mut extents: Vec<Extent> = (0..PIECES)
        .map(|_| {
            let from = random.below(file.len());
            Extent::new(file, from, (1 + random.below(MOST)).min(file.len() - from))
        })
        .collect();
    extents.push(Extent::new(file, file.len().saturating_sub(1000), file.len().min(1000)));
    let landed = carrier.carry_blocking(&extents).map_err(|e| e.to_string())?;
    let oracle = fs::File::open(file.path()).map_err(|e| format!("{}: {e}", file.path().display()))?;
    for (index, extent) in extents.iter().enumerate() {
        let mut expected = vec![0; extent.len() as usize];
        oracle
            .read_exact_at(&mut expected, extent.offset())
            .map_err(|e| format!("{} at {}: {e}", file.path().display(), extent.offset()))?;
        let got = landed.to_host(index).map_err(|e| e.to_string())?;
        if let Some(at) = (0..expected.len()).find(|&at| got.get(at) != Some(&expected[at])) {
            let at = extent.offset() + at as u64;
            return Err(format!("WRONG BYTES: {} at {at} is not what landed", file.path().display()));
        }
    }
    Ok(())
}
