//! Memory of the device and pinned memory: what is not there is refused with the numbers, what is in use is waited for.
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use forebay::{BuildError, Carry, CarryError, CarryFault, DeviceFault, Extent, Landed, MemoryError, Route};

use crate::common::emulated::clean;
use crate::common::heard;
use crate::common::watchdog::eventually;
use crate::rig::{Files, builder, carrier, check, ways, whole, works};

#[test]
fn device_memory_that_is_not_there_is_refused_with_the_numbers() {
    clean("memory=64MiB", |control| {
        let error = builder().device_budget(1 << 30).build().unwrap_err();
        let said = error.to_string();
        let BuildError::Device(error) = error else { panic!("{error:?}") };
        let DeviceFault::OutOfMemory { asked, free, total } = error.fault else { panic!("{error:?}") };
        assert_eq!((asked, free, total), (1 << 30, 64 << 20, 64 << 20));
        assert!(said.contains("1 GiB") && said.contains("64 MiB") && said.starts_with("cuda:0: "), "{said}");
        control.assert_clean();
        works(&builder().build().unwrap(), &Files::one(100_000));
    });
}

#[test]
fn an_arena_that_the_driver_refuses_is_refused() {
    clean("register_max=4096", |_| {
        let error = builder().build().unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, BuildError::Device(_)), "{error:?}");
        assert!(said.contains("cuMemHostRegister") && said.contains("CUDA_ERROR_INVALID_VALUE"), "{said}");
    });
}

/// No copy may reach from one registration into the next.
#[test]
fn an_arena_that_the_driver_refuses_as_a_whole_is_registered_in_segments() {
    clean("register_max=16MiB; no_spanning", |control| {
        let files = Files::one(30 << 20);
        for route in [Route::Bounce, Route::Cached] {
            control.reset_calls();
            let carrier =
                builder().route(route).budget(40 << 20).chunk(12 << 20).device_budget(32 << 20).build().unwrap();
            assert_eq!(control.calls("cuMemHostRegister_v2"), 4, "the whole, then three segments");
            works(&carrier, &files);
        }
        control.assert_clean();
    });
}

#[test]
fn a_segment_that_is_refused_leaves_none_registered() {
    clean("register_max=16MiB; fail=cuMemHostRegister_v2@3:2", |_| {
        let error = builder().budget(40 << 20).build().unwrap_err();
        assert!(error.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY"), "{error}");
    });
}

/// While the device holds up its copies, more is read than its carrier pinned when it was built: that is pinned then, once, and
/// no copy reaches from one registration into the next.
#[test]
fn pinned_memory_grows_with_what_is_in_flight_and_is_steady_then() {
    const LEN: u64 = 90 << 20;
    const REGISTER: &str = "cuMemHostRegister_v2";
    clean("no_spanning", |control| {
        let files = Files::one(LEN);
        for route in [Route::Bounce, Route::Cached] {
            control.reset_calls();
            let builder = builder().route(route).budget(1 << 40).chunk(1 << 20).device_budget(2 * LEN);
            let carrier = builder.build().unwrap();
            assert_eq!((control.calls(REGISTER), carrier.reader().arena().touched()), (1, 64 << 20));
            let file = carrier.open(&files.paths[0]).unwrap();
            let held_up = |control: &crate::common::emulator::Control| {
                control.script("paused=1");
                let carry = carrier.carry(&[whole(&file)]);
                assert!(eventually(|| carrier.reader().arena().on_loan() >= LEN));
                control.script("paused=0");
                check(&carry.wait().unwrap(), &[(0, 0, LEN)]);
            };
            held_up(control);
            let (calls, touched) = (control.calls(REGISTER), carrier.reader().arena().touched());
            assert!((2..=3).contains(&calls) && (LEN..=128 << 20).contains(&touched), "{calls} calls, {touched} bytes");
            held_up(control);
            assert_eq!((control.calls(REGISTER), carrier.reader().arena().touched()), (calls, touched), "{route}");
        }
        control.assert_clean();
    });
}

/// While the device holds up its copies, the driver refuses to pin what is read into next: it is copied all the same, counted as
/// unpinned and warned of once. What it does not refuse later is pinned.
#[test]
fn memory_that_the_driver_refuses_to_pin_later_is_copied_unpinned() {
    const LEN: u64 = 150 << 20;
    const REGISTER: &str = "cuMemHostRegister_v2";
    const OUT_OF_MEMORY: &str = "fail=cuMemHostRegister_v2@1";
    clean("pageable; no_spanning", |control| {
        heard::listen();
        let files = Files::one(LEN);
        // All pieces, or the next piece alone, whole and in segments; by one call for many copies and by one for each.
        let next = format!("{OUT_OF_MEMORY}:2; fail={REGISTER}@2:2");
        for (number, (refused, batch)) in
            [(format!("{OUT_OF_MEMORY}+:2"), true), (next, true), (format!("{OUT_OF_MEMORY}+:2"), false)]
                .iter()
                .enumerate()
        {
            if !batch {
                control.script("no_batch");
            }
            let builder = builder().route(Route::Bounce).budget(1 << 40).chunk(1 << 20).device_budget(2 * LEN);
            let carrier = builder.build().unwrap();
            let arena = carrier.reader().arena();
            let file = carrier.open(&files.paths[0]).unwrap();
            // All that was registered while the carrier was built is in use meanwhile.
            let held = carrier.reader().read_blocking(&[Extent::new(&file, 0, 80 << 20)]).unwrap();
            control.script(refused);
            let landed = carrier.carry_blocking(&[whole(&file)]).unwrap();
            check(&landed, &[(0, 0, LEN)]);
            let carried = landed.carried();
            assert_eq!(carried.bounce, LEN);
            let least = if refused.contains('+') { LEN } else { 1 };
            assert!((least..=LEN).contains(&carried.unpinned), "{carried}, {refused}");
            assert!(carried.to_string().ends_with(&format!("; {} copied from unpinned memory", carried.unpinned)));
            assert_eq!(carrier.carried(), carried);
            let warnings = heard::warnings("stay unpinned");
            assert_eq!(warnings.len(), number + 1, "{warnings:?}");
            assert!(
                warnings.iter().all(|said| said.contains("cuMemHostRegister failed with CUDA_ERROR_OUT_OF_MEMORY"))
            );

            // To and from memory that was refused, which the driver is not asked for again.
            control.script("clear");
            control.reset_calls();
            check(&landed, &[(0, 0, LEN)]);
            drop(landed);
            let again = carrier.carry_blocking(&[Extent::new(&file, 5, 20 << 20)]).unwrap();
            check(&again, &[(0, 5, 20 << 20)]);
            assert!(again.carried().unpinned >= 20 << 20, "{}", again.carried());
            drop((held, again));
            assert_eq!((control.calls(REGISTER), arena.on_loan()), (0, 0));
            let pinned = carrier.carry_blocking(&[Extent::new(&file, 0, 20 << 20)]).unwrap();
            assert_eq!(pinned.carried().unpinned, 0);
        }
    });
}

#[test]
fn a_request_that_cannot_fit_the_device_budget_is_refused_with_the_numbers() {
    clean("", |_| {
        let files = Files::one(20 << 20);
        for (way, builder) in ways() {
            let carrier = builder.build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            let error = carrier.carry_blocking(&[whole(&file)]).unwrap_err();
            let said = error.to_string();
            assert!(
                matches!(error.fault, CarryFault::Memory(MemoryError::OverDeviceBudget { .. })),
                "{way}: {error:?}"
            );
            assert!(said.contains("20 MiB") && said.contains("16 MiB"), "{way}: {said}");
            assert_eq!((error.path, error.offset), (files.paths[0].clone(), 0));
            assert_eq!(carrier.device_bytes_held(), 0);
        }
    });
}

type Carried = Result<Landed, CarryError>;

fn poll(carry: &mut Carry) -> Poll<Carried> {
    Pin::new(carry).poll(&mut Context::from_waker(Waker::noop()))
}

/// Whoever asked first is served first, also where less would fit.
#[test]
fn a_full_device_is_waited_for_in_the_order_of_asking() {
    clean("jitter_us=100", |_| {
        let files = Files::one(16 << 20);
        for (way, builder) in ways() {
            let carrier = builder.build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            let ask = |from: u64, len: u64| carrier.carry(&[forebay::Extent::new(&file, from, len)]);
            let held = ask(0, 12 << 20).wait().unwrap();
            let mut large = ask(1 << 20, 8 << 20);
            let mut small = ask(3, 1 << 20);
            for _ in 0..50 {
                assert!(poll(&mut large).is_pending() && poll(&mut small).is_pending(), "{way}");
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            check(&held, &[(0, 0, 12 << 20)]);
            drop(held);
            let mut landed = [None, None];
            assert!(eventually(|| {
                for (carry, landed) in [&mut large, &mut small].into_iter().zip(&mut landed) {
                    if landed.is_none()
                        && let Poll::Ready(outcome) = poll(carry)
                    {
                        *landed = Some(outcome.unwrap());
                    }
                }
                landed.iter().all(Option::is_some)
            }));
            let [Some(large), Some(small)] = landed else { unreachable!() };
            check(&large, &[(0, 1 << 20, 8 << 20)]);
            check(&small, &[(0, 3, 1 << 20)]);
            drop((large, small));
            assert_eq!(carrier.device_bytes_held(), 0, "{way}");
        }
    });
}

/// One who leaves the queue lets those behind him through.
#[test]
fn a_waiting_carry_that_is_dropped_makes_room() {
    clean("", |_| {
        let files = Files::one(16 << 20);
        let carrier = carrier(Route::Bounce);
        let file = carrier.open(&files.paths[0]).unwrap();
        let ask = |from: u64, len: u64| carrier.carry(&[forebay::Extent::new(&file, from, len)]);
        let held = ask(0, 12 << 20).wait().unwrap();
        let mut large = ask(0, 8 << 20);
        let mut small = ask(5, 1 << 20);
        assert!(poll(&mut large).is_pending() && poll(&mut small).is_pending());
        drop(large);
        check(&small.wait().unwrap(), &[(0, 5, 1 << 20)]);
        drop(held);
    });
}
