//! Many at once: threads and tasks on one carrier, two carriers on one device, two devices.
use std::thread;

use forebay::{Carrier, Device, Extent, File};

use crate::common::Rng;
use crate::common::emulated::clean;
use crate::rig::{Files, builder_on, check, ways};

const LENS: [u64; 4] = [1 << 20, 300_001, 77, 2_000_000];

/// A random request, and what must come of it.
fn request(opened: &[File], rng: &mut Rng) -> (Vec<Extent>, Vec<(u64, u64, u64)>) {
    let mut one = || {
        let seed = rng.below(opened.len() as u64);
        let file = &opened[seed as usize];
        let offset = rng.below(file.len());
        let len = rng.below((file.len() - offset).min(200_000)) + 1;
        (Extent::new(file, offset, len), (seed, offset, len))
    };
    (0..5).map(|_| one()).unzip()
}

fn rounds(carrier: &Carrier, opened: &[File], seed: u64, rounds: u64) {
    let mut rng = Rng::new(seed);
    for _ in 0..rounds {
        let (extents, wanted) = request(opened, &mut rng);
        check(&carrier.carry_blocking(&extents).unwrap(), &wanted);
    }
}

#[test]
fn threads_share_a_carrier() {
    clean("", |_| {
        let files = Files::new(&LENS);
        for (_, builder) in ways() {
            let carrier = builder.build().unwrap();
            let opened = files.open(&carrier);
            thread::scope(|scope| {
                for seed in 0..8 {
                    let (carrier, opened) = (&carrier, &opened);
                    scope.spawn(move || rounds(carrier, opened, seed, 10));
                }
            });
            assert_eq!((carrier.device_bytes_held(), carrier.reader().arena().on_loan()), (0, 0));
        }
    });
}

#[test]
fn tasks_share_a_carrier() {
    clean("", |_| {
        let files = Files::new(&LENS);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        for (_, builder) in ways() {
            let carrier = builder.build().unwrap();
            let opened = files.open(&carrier);
            let tasks: Vec<_> = (0..32)
                .map(|seed| {
                    let (carrier, (extents, wanted)) = (carrier.clone(), request(&opened, &mut Rng::new(seed)));
                    runtime.spawn(async move { (carrier.carry(&extents).await.unwrap(), wanted) })
                })
                .collect();
            for task in tasks {
                let (landed, wanted) = runtime.block_on(task).unwrap();
                check(&landed, &wanted);
            }
            assert_eq!((carrier.device_bytes_held(), carrier.reader().arena().on_loan()), (0, 0));
        }
    });
}

/// What is carried to one device is that device's, whatever the other does.
#[test]
fn two_devices_at_once() {
    clean("devices=2", |_| {
        let files = Files::new(&LENS);
        let devices = [0, 1].map(|ordinal| Device::cuda(ordinal).unwrap());
        for (_, builder) in ways() {
            let carriers = [0, 1].map(|i| builder.clone().device(&devices[i]).build().unwrap());
            thread::scope(|scope| {
                for (seed, carrier) in carriers.iter().enumerate() {
                    let files = &files;
                    scope.spawn(move || {
                        let opened = files.open(carrier);
                        rounds(carrier, &opened, seed as u64, 20);
                    });
                }
            });
            let opened = files.open(&carriers[1]);
            let landed = carriers[1].carry_blocking(&[Extent::new(&opened[0], 0, 9)]).unwrap();
            assert_eq!(landed.device().to_string(), "cuda:1");
        }
    });
}

#[test]
fn two_carriers_on_one_device() {
    clean("", |_| {
        let files = Files::new(&LENS);
        let device = Device::cuda(0).unwrap();
        for (_, builder) in ways() {
            let carriers = [builder.clone(), builder_on(&device)].map(|builder| builder.build().unwrap());
            thread::scope(|scope| {
                for (seed, carrier) in carriers.iter().enumerate() {
                    let files = &files;
                    scope.spawn(move || rounds(carrier, &files.open(carrier), seed as u64, 20));
                }
            });
            let [first, second] = carriers;
            drop(first);
            // The other one goes on: what they share is the device's.
            rounds(&second, &files.open(&second), 7, 3);
        }
    });
}
