//! Mistakes planted in the code that carries, each of which the emulator must catch, or the bytes betray.

use std::time::Duration;

use crate::emulated::{Emulator, folder, is_caught, is_child, mutant};
use crate::{Carrier, CarrierBuilder, Device, DirectForm, Extent, Placed, Reader, Route};

fn caught(mistake: &str, script: &str) {
    let module = module_path!().split_once("::").unwrap().1;
    is_caught(&format!("{module}::carries_in_child"), script, mistake, &["emulator: violation", "wrong bytes"]);
}

#[test]
fn a_slot_recycled_before_its_event_is_caught() {
    caught(mutant::RECYCLED_EARLY, "");
}

#[test]
fn device_memory_freed_with_a_copy_in_flight_is_caught() {
    caught(mutant::FREED_IN_FLIGHT, "");
}

#[test]
fn reads_without_a_current_context_are_caught() {
    caught(mutant::NO_CONTEXT, "");
}

#[test]
fn a_stream_dropped_early_is_caught() {
    caught(mutant::DROPPED_EARLY, "");
}

#[test]
fn a_short_read_of_cufile_taken_for_whole_is_caught() {
    for call in ["cuFileRead", "batch_entry", "async_entry"] {
        caught(mutant::SHORT_IS_WHOLE, &format!("short={call}@2+:65536"));
    }
}

#[test]
fn a_failed_entry_of_a_batch_that_is_ignored_is_caught() {
    caught(mutant::FAILED_IS_IGNORED, "fail=batch_entry@4:5030; fail=batch_entry@9:5");
}

const LEN: usize = 2_500_001;

/// Carries that are looked at, dropped, and outlived by their buffers or not. What fails must say so, and nothing else is
/// asked of it: the script may have made it fail.
#[test]
#[ignore = "run by the tests above"]
fn carries_in_child() {
    if !is_child() {
        return;
    }
    let dir = folder();
    let contents: Vec<Vec<u8>> = (1..4).map(noise).collect();
    for (i, bytes) in contents.iter().enumerate() {
        std::fs::write(dir.path().join(format!("file-{i}")), bytes).unwrap();
    }
    let emulator = Emulator::new();
    let device = Device::cuda(0).unwrap();
    for builder in ways(&device) {
        let carrier = builder.build().unwrap();
        let files: Vec<_> =
            (0..contents.len()).filter_map(|i| carrier.open(dir.path().join(format!("file-{i}"))).ok()).collect();
        let whole = |i: usize| Extent::new(&files[i], 0, LEN as u64);
        for i in (0..files.len()).chain(0..files.len()) {
            // Another one, so that the memory does not hold what is to come already.
            drop(carrier.carry(&[whole((i + 1) % files.len())]));
            if let Ok(landed) = carrier.carry_blocking(&[whole(i)]) {
                let got = emulator.read_device(landed.device_address(0).unwrap(), LEN);
                assert!(got == contents[i], "wrong bytes: {carrier:?}");
            }
            let buffer = device.allocate(3 << 20).unwrap();
            drop(carrier.carry_into(buffer, &[Placed::new(whole(i), 4096)]));
        }
        if !files.is_empty() {
            drop_in_the_midst(&emulator, carrier.carry(&[whole(0)]), carrier);
        }
    }
    drop(device);
    emulator.is_content();
}

/// Drops both while copies wait for the device, which goes on a moment later.
fn drop_in_the_midst(emulator: &Emulator, carry: crate::Carry, carrier: Carrier) {
    emulator.script("paused=1");
    std::thread::sleep(Duration::from_millis(30));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            emulator.script("paused=0");
        });
        drop((carry, carrier));
    });
}

fn ways(device: &Device) -> Vec<CarrierBuilder> {
    // Little memory, so that it is used again at once.
    let reader = Reader::builder().chunk(64 << 10);
    let builder =
        Carrier::builder().device(device).reader(reader).chunk(64 << 10).budget(1 << 20).device_budget(6 << 20);
    let forms = [DirectForm::Pool, DirectForm::Batch, DirectForm::Stream];
    let direct = forms.map(|form| builder.clone().route(Route::Direct).direct_form(form));
    [Route::Bounce, Route::Cached].map(|route| builder.clone().route(route)).into_iter().chain(direct).collect()
}

/// Bytes in which every eight tell where they are, and in which file.
fn noise(seed: u64) -> Vec<u8> {
    let word = |at: u64| (at ^ seed << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0..LEN.div_ceil(8) as u64).flat_map(word).take(LEN).collect()
}
