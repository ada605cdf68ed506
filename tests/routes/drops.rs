//! Everything may be dropped at any moment: nothing is freed under the device, and all of it comes back.
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use forebay::{Carrier, CarryInto, Extent, Placed};

use crate::common::Rng;
use crate::common::emulated::{Emulated, clean};
use crate::common::watchdog::eventually;
use crate::common::watchdog::guarded;
use crate::rig::{Files, check, ways, whole};

const LENS: [u64; 3] = [1 << 20, 300_001, 40_000];

fn all_back(carrier: &Carrier) -> bool {
    eventually(|| carrier.device_bytes_held() == 0 && carrier.reader().arena().on_loan() == 0)
}

/// 2,000 carries dropped at a moment of the seed's, beside some that are awaited, and one of each way that is kept.
#[test]
fn a_storm_of_drops() {
    const DROPS: u64 = 2000;
    Emulated::new("jitter_us=400").patience(Duration::from_secs(90)).run(|control| {
        let files = Files::new(&LENS);
        let ways = ways();
        for (number, (way, builder)) in ways.iter().enumerate() {
            let carrier = builder.clone().device_budget(4 << 20).budget(2 << 20).build().unwrap();
            let opened = files.open(&carrier);
            let canary = carrier.carry_blocking(&[Extent::new(&opened[0], 4000, 300_000)]).unwrap();
            let share = DROPS / ways.len() as u64;
            for seed in number as u64 * share..(number as u64 + 1) * share {
                control.script(&format!("seed={seed}"));
                let mut rng = Rng::new(seed);
                let wanted: Vec<(u64, u64, u64)> = (0..3)
                    .map(|_| {
                        let file = rng.below(LENS.len() as u64);
                        let offset = rng.below(LENS[file as usize]);
                        (file, offset, 1 + rng.below((LENS[file as usize] - offset).min(300_000)))
                    })
                    .collect();
                let extents: Vec<Extent> = wanted
                    .iter()
                    .map(|&(file, offset, len)| Extent::new(&opened[file as usize], offset, len))
                    .collect();
                if rng.below(4) == 0 {
                    let buffer = carrier.device().allocate(1 << 20).unwrap();
                    drop_placed(carrier.carry_into(buffer, &places(&extents)), &mut rng);
                    continue;
                }
                let mut carry = carrier.carry(&extents);
                match rng.below(8) {
                    0 => check(&carry.wait().unwrap(), &wanted),
                    1 => drop(carry),
                    2 => drop(carry.wait().unwrap()),
                    _ => {
                        for _ in 0..rng.below(3) {
                            let _ = Pin::new(&mut carry).poll(&mut Context::from_waker(Waker::noop()));
                            thread::sleep(Duration::from_micros(rng.below(400)));
                        }
                        drop(carry);
                    }
                }
            }
            check(&canary, &[(0, 4000, 300_000)]);
            drop(canary);
            assert!(all_back(&carrier), "{way}: {carrier:?}");
            control.assert_no_violations();
        }
        drop(ways);
        control.assert_clean();
    });
}

/// One behind the other, each on a block of its own.
fn places(extents: &[Extent]) -> Vec<Placed> {
    extents.iter().enumerate().map(|(i, extent)| Placed::new(extent.clone(), i * (304 << 10))).collect()
}

/// The buffer goes with the future, or comes back and is freed.
fn drop_placed(mut carry: CarryInto, rng: &mut Rng) {
    if rng.below(3) == 0 {
        // By the route direct alone, most of these places are refused.
        let (carried, buffer) = carry.wait();
        return drop((carried, buffer));
    }
    for _ in 0..rng.below(3) {
        if Pin::new(&mut carry).poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            break;
        }
        thread::sleep(Duration::from_micros(rng.below(400)));
    }
}

/// While the device, or cuFile, holds everything up.
#[test]
fn a_carrier_with_carries_in_flight_is_dropped_while_they_hang() {
    clean("", |control| {
        let files = Files::one(1 << 20);
        for (way, builder) in ways() {
            let carrier = builder.build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            control.script("paused=1");
            for entry in ["cuFileRead", "batch_entry", "async_entry"] {
                control.script(&format!("stall={entry}:600000"));
            }
            let mut carries: Vec<_> = (0..3).map(|_| carrier.carry(&[whole(&file)])).collect();
            for carry in &mut carries {
                let _ = Pin::new(carry).poll(&mut Context::from_waker(Waker::noop()));
            }
            thread::sleep(Duration::from_millis(50));
            // Nothing goes on before the script says so.
            guarded(&way, move || drop((carries, file, carrier)));
            control.script("paused=0; clear");
            let held = || control.leaks().iter().filter(|leak| leak.contains("bytes of")).count();
            assert!(eventually(|| held() == 0), "{way}: {:?}", control.leaks());
        }
        assert!(eventually(|| control.leaks().is_empty()), "{:#?}", control.leaks());
    });
}

#[test]
fn an_idle_carrier_is_dropped() {
    clean("", |_| {
        let files = Files::one(1 << 20);
        for (way, builder) in ways() {
            let carrier = builder.build().unwrap();
            crate::rig::works(&carrier, &files);
            guarded(&way, move || drop(carrier));
        }
    });
}

/// The carrier's last handle goes first, then the runtime with tasks that still carry.
#[test]
fn a_runtime_is_dropped_with_its_tasks() {
    clean("jitter_us=2000", |_| {
        let files = Files::one(1 << 20);
        for (_, builder) in ways() {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
            let carrier = builder.build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            for _ in 0..12 {
                let (carrier, file) = (carrier.clone(), file.clone());
                runtime.spawn(async move { carrier.carry(&[whole(&file)]).await.map(|landed| landed.len()) });
            }
            drop((carrier, file));
            thread::sleep(Duration::from_millis(5));
            drop(runtime);
        }
    });
}
