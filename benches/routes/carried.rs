//! A route, through the public interface, as a loader would use it.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use forebay::{Carrier, Carry, DeviceKind, Extent, Reader, RouteBytes};

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
    carrier.carry_blocking(&requests.warm_up()).map_err(|e| e.to_string())?;

    let before = carrier.carried();
    let cpu_before = machine::own_cpu_seconds();
    let start = Instant::now();
    requests.start();
    let mut under_way: VecDeque<Carry> = VecDeque::with_capacity(order.ahead);
    let mut bytes = 0;
    loop {
        while under_way.len() < order.ahead {
            let Some(extents) = requests.next() else { break };
            under_way.push_back(carrier.carry(&extents));
        }
        let Some(carry) = under_way.pop_front() else { break };
        let landed = carry.wait().map_err(|e| e.to_string())?;
        bytes += (0..landed.len()).filter_map(|index| landed.piece_len(index)).sum::<usize>() as u64;
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = machine::own_cpu_seconds() - cpu_before;

    let routes = since(&carrier.carried(), &before);
    let counted: u64 = routes.values().sum();
    if counted != bytes {
        return Err(format!("{counted} bytes counted, by {routes:?}, but {bytes} delivered"));
    }
    if order.check {
        check(&carrier, &file, order.seed)?;
    }
    let (device, emulated) = (device.name().to_owned(), !on_host && stand_in::is_loaded());
    Ok(Outcome { bytes, seconds, cpu_seconds, device, emulated, routes, ..Outcome::default() })
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
