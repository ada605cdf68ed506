//! Loaders that come and go, at any moment of their lives, leave nothing behind.
use std::time::Duration;

use crate::common::Rng;
use crate::common::effort;
use crate::common::emulated::Emulated;
use crate::common::watchdog::eventually;
use crate::data;
use crate::rig::{Flip, Way, any_rows, builder, cuda, direct, settle};

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn hundreds_of_loaders_leave_no_memory_streams_events_contexts_threads_or_files() {
    let cycles = u64::from(effort::of(100, 500));
    Emulated::new("jitter_us=100").patience(Duration::from_secs(200)).run(|control| {
        let data = [data::aligned(), data::tar(), data::tfrecord()];
        let (any_rows, direct) = (any_rows(), direct());
        let (mut before, mut batches) = (None, 0);
        for cycle in 0..cycles {
            let mut rng = Rng::new(cycle);
            let data = &data[rng.below(3) as usize];
            let ways: Vec<&Way> = any_rows.iter().chain(direct.iter().filter(|_| data.name == "aligned")).collect();
            let way = ways[rng.below(ways.len() as u64) as usize];
            control.script(&format!("seed={cycle}; {}", way.script));
            let device = cuda();
            let stream = device.context().unwrap().new_stream().unwrap();
            let loader =
                builder(data).device(&device).carrier(way.carrier.clone()).budget(1 << 20).device_budget(1 << 20);
            let loader = if rng.below(2) == 0 && !way.is_direct() { loader.map(Flip) } else { loader };
            let loader = if rng.below(2) == 0 { loader.consumer_stream(&stream) } else { loader };
            let mut loader = loader.endless().build().unwrap();
            let some = rng.below(12) as usize;
            let held: Vec<_> = loader.blocking().take(some).step_by(2 + rng.below(3) as usize).take(3).collect();
            batches += held.len();
            assert!(held.iter().all(Result::is_ok), "{}: {:?}", way.name, held.iter().find(|one| one.is_err()));
            match rng.below(2) {
                0 => drop((loader, held)),
                _ => drop((held, loader)),
            }
            drop((stream, device));
            if cycle == 20 {
                before = Some((count("/proc/self/task"), count("/proc/self/fd")));
            }
            if cycle % 50 == 49 {
                settle(control);
            }
        }
        settle(control);
        let (threads, files) = before.unwrap();
        let back = || count("/proc/self/task") <= threads && count("/proc/self/fd") <= files;
        assert!(eventually(back), "{} threads, {} files open", count("/proc/self/task"), count("/proc/self/fd"));
        assert!(batches as u64 > cycles / 5, "{batches} batches");
    });
}
