//! What lies at the edges of the promises: the ends of files and of places, budgets, settings that are rare together,
//! decisions taken at a bad moment.
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use forebay::{Carrier, CarryFault, Device, Extent, NoRoute, Placed, Route, Switch};

use crate::common::data;
use crate::common::emulated::{Emulated, clean};
use crate::common::mounts::LoopDevice;
use crate::common::privilege::Reduced;
use crate::common::watchdog::eventually;
use crate::or_skip;
use crate::rig::{FORMS, Files, builder, builder_on, carrier, check, ways, whole};

const LEN: u64 = 500_000;

/// Off for one route is no word against the others.
#[test]
fn direct_is_taken_where_bounce_is_off() {
    clean("", |_| {
        let files = Files::one(LEN);
        let carrier = builder().bounce(Switch::Off).build().unwrap();
        let file = carrier.open(&files.paths[0]).unwrap();
        assert_eq!(carrier.decision(&file).unwrap().chosen, Route::Direct);
        files.cool();
        let landed = carrier.carry_blocking(&[whole(&file)]).unwrap();
        check(&landed, &[(0, 0, LEN)]);
        assert_eq!(landed.carried().direct, LEN, "{:?}", landed.carried());
    });
}

/// Whatever had begun when the device failed.
#[test]
fn a_device_that_fails_is_an_error_with_a_path() {
    clean("fail=cuEventQuery@1:999", |_| {
        let files = Files::one(100_000);
        let carrier = carrier(Route::Bounce);
        let file = carrier.open(&files.paths[0]).unwrap();
        let error = carrier.carry_blocking(&[Extent::new(&file, 8192, 10_000)]).unwrap_err();
        assert_eq!((&error.path, error.offset), (&files.paths[0], 8192), "{error}");
    });
}

/// A drive writes whole blocks, and the end of a file is in the middle of one.
#[test]
fn what_lies_behind_the_end_of_a_file_stays_as_it_is() {
    clean("seed=5", |control| {
        let files = Files::new(&[3 * 4096 + 100, 4096, 5000]);
        for (form, switch) in FORMS.into_iter().flat_map(|form| [(form, Switch::Auto), (form, Switch::On)]) {
            let carrier = builder().direct_form(form).direct(switch).build().unwrap();
            let opened = files.open(&carrier);
            files.cool();
            let buffer = carrier.device().allocate(1 << 20).unwrap();
            // Known bytes everywhere.
            let fill: Vec<Placed> = (0..256).map(|i| Placed::new(whole(&opened[1]), i * 4096)).collect();
            let (filled, buffer) = carrier.carry_into(buffer, &fill).wait();
            filled.unwrap();
            let before = control.read_device(buffer.device_address().unwrap(), 1 << 20);
            let tail = [Placed::new(whole(&opened[0]), 0), Placed::new(whole(&opened[2]), 65536)];
            let (carried, buffer) = carrier.carry_into(buffer, &tail).wait();
            let after = control.read_device(buffer.device_address().unwrap(), 1 << 20);
            match carried {
                Ok(carried) => {
                    assert_eq!(carried.total(), 3 * 4096 + 5100);
                    data::check(&after[..3 * 4096 + 100], 0, 0).unwrap();
                    data::check(&after[65536..][..5000], 2, 0).unwrap();
                }
                Err(error) => {
                    assert_eq!(switch, Switch::On);
                    assert!(
                        matches!(error.fault, CarryFault::NoRoute { reason: NoRoute::Alignment { .. }, .. }),
                        "{error}"
                    );
                }
            }
            data::same(&after[3 * 4096 + 100..65536], &before[3 * 4096 + 100..65536], 0).unwrap();
            data::same(&after[65536 + 5000..], &before[65536 + 5000..], 0).unwrap();
        }
    });
}

/// The same block holds another extent's place.
#[test]
fn an_extent_may_begin_where_a_file_ended() {
    clean("seed=6", |control| {
        let files = Files::new(&[4096 + 100, 20_000]);
        for seed in 0..20 {
            control.script(&format!("seed={seed}"));
            let carrier = builder().build().unwrap();
            let opened = files.open(&carrier);
            files.cool();
            let buffer = carrier.device().allocate(65536).unwrap();
            let placed = [Placed::new(whole(&opened[0]), 0), Placed::new(Extent::new(&opened[1], 0, 3996), 4196)];
            let (carried, buffer) = carrier.carry_into(buffer, &placed).wait();
            assert_eq!(carried.unwrap().total(), 8192);
            let bytes = control.read_device(buffer.device_address().unwrap(), 8192);
            data::check(&bytes[..4196], 0, 0).unwrap();
            data::check(&bytes[4196..], 1, 0).unwrap();
        }
    });
}

/// A whole file to a buffer of its own is direct to the last byte: behind it is nobody's.
#[test]
fn a_file_that_fills_its_buffer_is_direct_to_its_end() {
    clean("", |control| {
        let files = Files::one(LEN);
        let carrier = carrier(Route::Direct);
        let file = carrier.open(&files.paths[0]).unwrap();
        let buffer = carrier.device().allocate(LEN as usize).unwrap();
        let (carried, buffer) = carrier.carry_into(buffer, &[Placed::new(whole(&file), 0)]).wait();
        assert_eq!(carried.unwrap().direct, LEN);
        data::check(&control.read_device(buffer.device_address().unwrap(), LEN as usize), 0, 0).unwrap();
    });
}

/// What was on loan when a file was opened says nothing of its disk.
#[test]
fn files_opened_while_all_device_memory_is_on_loan_are_direct() {
    clean("", |_| {
        let files = Files::new(&[LEN, LEN, LEN]);
        let carrier = builder().device_budget(1 << 20).build().unwrap();
        let first = carrier.open(&files.paths[0]).unwrap();
        let held: Vec<_> = (0..256).map(|_| carrier.carry_blocking(&[Extent::new(&first, 0, 4096)]).unwrap()).collect();
        assert_eq!(carrier.device_bytes_held(), 1 << 20);
        let second = carrier.open(&files.paths[1]).unwrap();
        drop(held);
        let third = carrier.open(&files.paths[2]).unwrap();
        for file in [&second, &third] {
            let decision = carrier.decision(file).unwrap();
            assert_eq!(decision.chosen, Route::Direct, "{decision:?}");
        }
    });
}

/// cuFile counts for the whole process: reads of others through the compatibility mode are not this file's.
#[test]
fn others_reads_through_the_compatibility_mode_condemn_no_disk() {
    clean("jitter_us=0", |control| {
        let files = Files::new(&[LEN; 5]);
        control.script("cufile_path=compat");
        let forced = carrier(Route::Direct);
        let compat = forced.open(&files.paths[0]).unwrap();
        forced.carry_blocking(&[whole(&compat)]).unwrap();
        control.script("cufile_path=p2p");
        let carrier = builder().build().unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        forced.carry_blocking(&[Extent::new(&compat, 0, 4096)]).unwrap();
                    }
                });
            }
            // So that others' reads are sure to fall into the time of each try.
            control.script("stall=cuFileRead:5");
            let why_not = |path| {
                let file = carrier.open(path).unwrap();
                carrier.decision(&file).unwrap().why_not(Route::Direct).cloned()
            };
            let reasons: Vec<_> = files.paths[1..4].iter().map(why_not).collect();
            over.store(true, Ordering::Relaxed);
            assert!(reasons.iter().all(|why| matches!(why, None | Some(NoRoute::Unsure))), "{reasons:?}");
        });
        control.script("clear");
        let file = carrier.open(&files.paths[4]).unwrap();
        let decision = carrier.decision(&file).unwrap();
        assert_eq!(decision.chosen, Route::Direct, "{decision:?}");
    });
}

/// Where nothing forces cuFile, what it does not take goes another way.
#[test]
fn a_buffer_that_cufile_does_not_take_is_filled_by_another_route() {
    clean("", |control| {
        let files = Files::one(1 << 20);
        let carrier = builder().build().unwrap();
        let file = carrier.open(&files.paths[0]).unwrap();
        let buffer = carrier.device().allocate(1 << 20).unwrap();
        files.cool();
        control.script("fail=cuFileBufRegister:5013");
        let (carried, buffer) = carrier.carry_into(buffer, &[Placed::new(whole(&file), 0)]).wait();
        assert_eq!(carried.unwrap().bounce, 1 << 20);
        data::check(&control.read_device(buffer.device_address().unwrap(), 1 << 20), 0, 0).unwrap();
        drop(buffer);
    });
}

/// tokio lets a task do so much before it must yield; opening a file does not yield.
#[test]
fn files_are_opened_in_tasks_that_have_used_up_their_turn() {
    Emulated::new("").patience(Duration::from_secs(20)).run(|control| {
        let files = Files::one(LEN);
        let carrier = builder().build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let task = tokio::task::unconstrained(async {});
            task.await;
            let opened = tokio::spawn(async move {
                use std::future::{Future, poll_fn};
                use std::task::Poll;
                poll_fn(|context| {
                    // Until there is nothing left of the turn.
                    loop {
                        let (send, receive) = tokio::sync::oneshot::channel();
                        send.send(()).unwrap();
                        if std::pin::pin!(receive).poll(context).is_pending() {
                            break;
                        }
                    }
                    Poll::Ready(carrier.open(&files.paths[0]).map(|file| carrier.decision(&file).unwrap().chosen))
                })
                .await
            });
            assert_eq!(opened.await.unwrap().unwrap(), Route::Direct);
        });
        drop(runtime);
        control.assert_clean();
    });
}

/// A look at the bytes is no lock.
#[test]
fn a_buffer_on_the_host_may_be_looked_at_twice_at_once() {
    let buffer = Device::host().allocate(100).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let (one, other) = (buffer.host().unwrap(), buffer.host().unwrap());
        done.send(one[..] == other[..]).unwrap();
    });
    assert_eq!(ended.recv_timeout(Duration::from_secs(5)), Ok(true));
}

#[test]
fn more_memory_than_there_can_be_is_refused() {
    for len in [usize::MAX, usize::MAX - 4096, isize::MAX as usize] {
        let error = Device::host().allocate(len).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}

/// As to a GPU: host memory is only passed through.
#[test]
fn places_on_the_host_may_be_filled_through_a_small_budget() {
    let files = Files::one(3 << 20);
    for budget in [512 << 10, 1 << 20, 3 << 20] {
        let carrier = Carrier::builder().budget(budget).build().unwrap();
        let file = carrier.open(&files.paths[0]).unwrap();
        let buffer = carrier.device().allocate(3 << 20).unwrap();
        let (carried, buffer) = carrier.carry_into(buffer, &[Placed::new(whole(&file), 0)]).wait();
        assert_eq!(carried.unwrap_or_else(|error| panic!("{budget}: {error}")).total(), 3 << 20);
        data::check(&buffer.host().unwrap(), 0, 0).unwrap();
    }
}

/// Many carriers in one process leave nothing behind.
#[test]
fn carriers_come_and_go() {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    clean("jitter_us=0", |_| {
        let files = Files::one(20_000);
        let mut before = None;
        for round in 0..150 {
            let carrier = builder_on(&Device::cuda(0).unwrap());
            let carrier = carrier.direct_form(FORMS[round % 3]).budget(1 << 20).device_budget(1 << 20).build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            files.cool();
            let landed = carrier.carry_blocking(&[whole(&file)]).unwrap();
            check(&landed, &[(0, 0, 20_000)]);
            drop((file, carrier, landed));
            if round == 10 {
                before = Some((count("fd"), count("task")));
            }
        }
        let (fds, threads) = before.unwrap();
        // Threads that have been joined are listed for a moment more.
        assert!(
            eventually(|| count("fd") <= fds && count("task") <= threads + 2),
            "{fds} {threads} {} {}",
            count("fd"),
            count("task")
        );
    });
}

/// Its end is where its last sector ends, in the middle of what cuFile reads at once.
#[test]
fn a_block_device_is_carried_to_its_last_byte() {
    const SIZE: u64 = (3 << 20) + 512;
    clean("", |control| {
        let device = or_skip!(LoopDevice::new(SIZE, 512));
        std::fs::write(&device.device, data::bytes(7, 0, SIZE)).unwrap();
        for (way, builder) in ways() {
            data::drop_cache(&device.device).unwrap();
            let carrier = builder.build().unwrap();
            let file = carrier.open(&device.device).unwrap_or_else(|error| panic!("{way}: {error}"));
            let asked = [(0, SIZE), (1, 511), (4095, 2), (SIZE - 1, 1), (SIZE - 70_000, 70_000), (SIZE, 0)];
            let extents = asked.map(|(offset, len)| Extent::new(&file, offset, len));
            let landed = carrier.carry_blocking(&extents).unwrap_or_else(|error| panic!("{way}: {error}"));
            check(&landed, &asked.map(|(offset, len)| (7, offset, len)));
            let buffer = carrier.device().allocate(SIZE as usize).unwrap();
            let (carried, buffer) = carrier.carry_into(buffer, &[Placed::new(whole(&file), 0)]).wait();
            assert_eq!(carried.unwrap_or_else(|error| panic!("{way}: {error}")).total(), SIZE);
            data::check(&control.read_device(buffer.device_address().unwrap(), SIZE as usize), 7, 0).unwrap();
            drop(buffer);
            let past = carrier.carry_blocking(&[Extent::new(&file, SIZE - 1, 2)]).unwrap_err().to_string();
            assert!(past.contains("passes the end"), "{past}");
        }
        let shorter = carrier(Route::Direct);
        let file = shorter.open(&device.device).unwrap();
        device.shrink_to(1 << 20);
        data::drop_cache(&device.device).unwrap();
        let error = shorter.carry_blocking(&[Extent::new(&file, 2 << 20, 8192)]).unwrap_err().to_string();
        assert!(error.contains(&format!("{} at {}", device.device.display(), 2 << 20)), "{error}");
    });
}

/// One request holds as many bytes as there are on the device, and not one more.
#[test]
fn a_request_may_fill_the_device_budget() {
    clean("", |_| {
        let files = Files::one(1 << 20);
        for (way, builder) in ways() {
            let carrier = builder.device_budget(1 << 20).build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            let landed = carrier.carry_blocking(&[whole(&file)]).unwrap_or_else(|error| panic!("{way}: {error}"));
            check(&landed, &[(0, 0, 1 << 20)]);
            drop(landed);
            let two = [Extent::new(&file, 0, 1 << 20), Extent::new(&carrier.open(&files.paths[0]).unwrap(), 0, 1)];
            let error = carrier.carry_blocking(&two).unwrap_err().to_string();
            assert!(error.contains("device budget of 1 MiB"), "{way}: {error}");
        }
    });
}

/// Whoever polled it last is woken.
#[test]
fn a_carry_that_waits_may_be_handed_on() {
    use std::future::{Future, poll_fn};
    use std::task::Poll;
    clean("jitter_us=500", |_| {
        let files = Files::one(LEN);
        for (way, builder) in ways() {
            let carrier = builder.device_budget(1 << 20).build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
            runtime.block_on(async {
                for _ in 0..10 {
                    let held = carrier.carry(&[Extent::new(&file, 0, LEN), whole(&file)]).await.unwrap();
                    let other = carrier.carry(&[Extent::new(&file, 0, 200_000)]).await.unwrap();
                    let mut waiting = Box::pin(carrier.carry(&[whole(&file)]));
                    assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await);
                    let task = tokio::spawn(waiting);
                    tokio::task::yield_now().await;
                    drop((held, other));
                    let landed = tokio::time::timeout(Duration::from_secs(10), task).await;
                    let landed = landed.unwrap_or_else(|_| panic!("{way}: nobody was woken")).unwrap().unwrap();
                    check(&landed, &[(0, 0, LEN)]);
                }
            });
        }
    });
}

/// A kernel that loads four floats at once fails at addresses that are no multiple of 16; whether the bytes were in the
/// page cache must not decide about that.
#[test]
fn bytes_lie_as_far_from_a_multiple_of_64_as_in_their_file() {
    clean("", |_| {
        let files = Files::one(LEN);
        for (way, builder) in ways() {
            let carrier = builder.build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            let asked = [(1001, 9), (1024, 4096), (100_001, 1), (200_064, 128), (1001, 3), (LEN - 1, 1), (0, 1)];
            let landed = carrier.carry_blocking(&asked.map(|(offset, len)| Extent::new(&file, offset, len))).unwrap();
            check(&landed, &asked.map(|(offset, len)| (0, offset, len)));
            for (i, (offset, _)) in asked.into_iter().enumerate() {
                assert_eq!(landed.device_address(i).unwrap() % 64, offset % 64, "{way}: {offset}");
            }
        }
    });
}

/// As above: a slice of floats can be made of them, or not, whatever is in the page cache.
#[test]
fn bytes_on_the_host_lie_as_far_from_a_multiple_of_64_as_in_their_file() {
    let files = Files::one(LEN);
    for route in [Route::Bounce, Route::Cached] {
        let carrier = Carrier::builder().route(route).budget(16 << 20).build().unwrap();
        let Ok(file) = carrier.open(&files.paths[0]) else {
            crate::common::skipped::skipped(format!("no {route} here"));
            continue;
        };
        let asked = [(1001, 9), (1024, 4096), (100_001, 1), (200_064, 128), (1001, 3), (LEN - 1, 1), (4, 400), (60, 7)];
        let landed = carrier.carry_blocking(&asked.map(|(offset, len)| Extent::new(&file, offset, len))).unwrap();
        check(&landed, &asked.map(|(offset, len)| (0, offset, len)));
        for (piece, (offset, _)) in landed.host().unwrap().iter().zip(asked) {
            assert_eq!(piece.as_ptr() as u64 % 64, offset % 64, "{route}: {offset}");
        }
    }
}

/// Each file is two descriptors of the reader and one of cuFile: whatever else of the process takes descriptors, files
/// that no read uses are closed for them.
#[test]
fn a_process_with_few_descriptors_left_opens_and_reads_any_number_of_files() {
    Emulated::new("").reduced(Reduced::new().open_files(64)).run(|_| {
        let files = Files::new(&[20_000; 40]);
        for (form, left) in FORMS.into_iter().flat_map(|form| (4..8).map(move |left| (form, left))) {
            let carrier = builder().route(Route::Direct).direct_form(form).build().unwrap();
            let mut taken: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
            taken.truncate(taken.len() - left);
            let opened = files.open(&carrier);
            let landed = carrier.carry_blocking(&opened.iter().map(whole).collect::<Vec<_>>()).unwrap();
            drop(taken);
            check(&landed, &(0..40).map(|seed| (seed, 0, 20_000)).collect::<Vec<_>>());
        }
    });
}

/// As when a driver has no room for one file more.
#[test]
fn a_file_that_cufile_no_longer_takes_goes_another_way() {
    Emulated::new("").reduced(Reduced::new().open_files(64)).run(|control| {
        let files = Files::new(&[20_000; 80]);
        let carrier = builder().build().unwrap();
        let forced = builder().route(Route::Direct).build().unwrap();
        let (opened, others) = (files.open(&carrier), files.open(&forced));
        files.cool();
        control.script("fail=cuFileHandleRegister:5027");
        // The first ones were closed since.
        let landed = carrier.carry_blocking(&[whole(&opened[0]), whole(&opened[1])]).unwrap();
        check(&landed, &[(0, 0, 20_000), (1, 0, 20_000)]);
        assert_eq!(landed.carried().bounce, 40_000);
        let error = forced.carry_blocking(&[whole(&others[0])]).unwrap_err();
        assert!(error.to_string().contains("5027"), "{error}");
        control.script("clear");
    });
}
