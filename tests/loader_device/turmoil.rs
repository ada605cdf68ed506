//! Many orders in time of copies, events and cuFile's answers, of workers and of the consumer.
use std::time::Duration;

use forebay::{Batch, Ragged, Shuffle};

use crate::common::Rng;
use crate::common::effort;
use crate::common::emulated::Emulated;
use crate::common::emulator::Control;
use crate::consumer::Consumer;
use crate::data::{self, Data};
use crate::rig::{Flip, Look, Way, any_rows, builder, check, cuda, direct, settle};

#[test]
fn every_batch_is_right_while_later_ones_are_under_way_and_earlier_ones_are_held_or_dropped() {
    let seeds = u64::from(effort::of(25, 200));
    Emulated::new("").patience(Duration::from_secs(300)).run(|control| {
        let data = [data::aligned(), data::records("odd", 2999, 60), data::tokens(), data::tar(), data::tfrecord()];
        let device = cuda();
        let (any_rows, direct) = (any_rows(), direct());
        let mut rows = 0;
        for seed in 0..seeds {
            let mut rng = Rng::new(seed);
            let data = &data[rng.below(data.len() as u64) as usize];
            let ways: Vec<&Way> = any_rows.iter().chain(direct.iter().filter(|_| data.name == "aligned")).collect();
            let way = ways[rng.below(ways.len() as u64) as usize];
            let (jitter, late) = (20 << rng.below(6), 20 << rng.below(6));
            control.script(&format!("seed={seed}; jitter_us={jitter}; cufile_late_us={late}; {}", way.script));
            rows +=
                one_seed(control, &device, data, way, &mut rng, &format!("seed {seed}, {}, {}", data.name, way.name));
            control.assert_no_violations();
        }
        drop(device);
        settle(control);
        eprintln!("{seeds} seeds, {rows} rows read by a consumer's stream");
    });
}

fn one_seed(control: &Control, device: &forebay::Device, data: &Data, way: &Way, rng: &mut Rng, what: &str) -> usize {
    let flips = !way.is_direct() && rng.below(2) == 0;
    let names_stream = rng.below(2) == 0;
    let mut consumer = Consumer::new(control, device, 4 << 20);
    if rng.below(2) == 0 {
        data.cool();
    }
    let shuffle = if rng.below(3) == 0 { Shuffle::Blocks(7.try_into().unwrap()) } else { Shuffle::Full };
    let loader = builder(data)
        .device(device)
        .carrier(way.carrier.clone())
        .shuffle(shuffle)
        .seed(rng.next())
        .batch_size(1 + rng.below(12))
        .workers(rng.below(4) as usize)
        .prefetch(1 + rng.below(12) as usize)
        .budget((2 + rng.below(4)) << 20)
        .device_budget((1 + rng.below(3)) << 20);
    let loader = if flips { loader.map(Flip) } else { loader };
    let loader = if names_stream { loader.consumer_stream(&consumer.stream) } else { loader };
    let loader = if rng.below(4) == 0 && !way.is_direct() { loader.ragged(Ragged::Padded) } else { loader };
    let mut loader = loader.build().unwrap();
    let leaves = rng.below(4) == 0;
    let mut held: Vec<Batch> = Vec::new();
    for batch in loader.blocking() {
        let batch = batch.unwrap_or_else(|error| panic!("{what}: {error}"));
        let look = if rng.below(6) == 0 { Look::Fetch } else { Look::Peek(control) };
        check(data, &batch, flips, look);
        if rng.below(3) > 0 {
            if rng.below(3) == 0 {
                consumer.is_late(rng.below(1500));
            }
            consumer.works_on(data, &batch, flips);
            if !names_stream {
                batch.used_on(&consumer.stream).unwrap();
            }
        }
        held.push(batch);
        if !held.is_empty() {
            let one = &held[rng.below(held.len() as u64) as usize];
            check(data, one, flips, Look::Peek(control));
        }
        while held.len() > 3 || !held.is_empty() && rng.below(2) == 0 {
            drop(held.swap_remove(rng.below(held.len() as u64) as usize));
        }
        if leaves && rng.below(5) == 0 {
            break;
        }
    }
    if rng.below(2) == 0 {
        drop(loader);
        held.iter().for_each(|batch| check(data, batch, flips, Look::Peek(control)));
    }
    drop(held);
    consumer.check(what)
}
