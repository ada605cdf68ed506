//! Extents carried to places that the caller gives, on the host and on an emulated GPU, by every route: each byte where
//! it was to go, and every other byte as it was.
mod common;

use std::path::{Path, PathBuf};

use common::emulator::{Control, Emulator};
use common::privilege;
use common::{Rng, data};
use forebay::{Carrier, CarryFault, Device, DeviceBuffer, DeviceKind, DirectForm, Extent, Placed, Route};

const LEN: u64 = (3 << 20) + 4567;
const BUFFER: usize = 8 << 20;
const BUDGET: u64 = 16 << 20;

#[test]
fn on_the_host() {
    check_all(&Device::host());
}

#[test]
fn on_an_emulated_gpu() {
    let emulator = or_skip!(Emulator::new());
    for script in ["seed=1", "seed=2; no_batch", "seed=3; jitter_us=0"] {
        privilege::expect_child(script, emulator.command("in_child_on_an_emulated_gpu", script));
    }
}

#[test]
#[ignore = "a part of on_an_emulated_gpu"]
fn in_child_on_an_emulated_gpu() {
    if !privilege::in_child() {
        return;
    }
    let control = Control::here();
    check_all(&Device::cuda(1).unwrap());
    few_calls_for_many_pieces(&control, &Device::cuda(0).unwrap());
    control.assert_clean();
    privilege::child_done();
}

fn check_all(device: &Device) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let paths: Vec<PathBuf> = (0..3).map(|i| dir.path().join(format!("file-{i}"))).collect();
    for (i, path) in paths.iter().enumerate() {
        data::write_dense(path, i as u64 + 1, LEN).unwrap();
    }
    let mut ways = vec![(None, DirectForm::Pool), (Some(Route::Bounce), DirectForm::Pool)];
    ways.push((Some(Route::Cached), DirectForm::Pool));
    if device.kind() != DeviceKind::Host {
        let forms = [DirectForm::Pool, DirectForm::Batch, DirectForm::Stream];
        ways.extend(forms.map(|form| (Some(Route::Direct), form)));
    }
    for (route, form) in ways {
        let builder = Carrier::builder().device(device).budget(BUDGET).device_budget(BUDGET).chunk(256 << 10);
        let builder = route.into_iter().fold(builder.direct_form(form), |builder, route| builder.route(route));
        let carrier = builder.build().unwrap();
        let blocks = [1, 4096][usize::from(route == Some(Route::Direct))..].iter();
        for &block in blocks.chain(&[4096]) {
            scattered(&carrier, &paths, block, route == Some(Route::Direct));
        }
        refusals(&carrier, &paths[0]);
    }
}

/// Pieces of random files, lengths and places, in random order.
fn scattered(carrier: &Carrier, paths: &[PathBuf], block: u64, only_whole: bool) {
    let mut rng = Rng::new(block + 7);
    let files: Vec<_> = paths.iter().map(|path| carrier.open(path).unwrap()).collect();
    let (mut placed, mut wishes, mut at) = (Vec::new(), Vec::new(), 0_u64);
    loop {
        at += rng.below(9000) / block * block;
        let which = rng.below(files.len() as u64) as usize;
        let offset = rng.below(LEN) / block * block;
        // Whole blocks, or a piece that ends with its file, of which cuFile alone could not leave alone what is behind it.
        let len = match rng.below(8) {
            0 if !only_whole => LEN - offset,
            1 => 0,
            2 => block,
            _ => (rng.below(60_000) / block * block).min((LEN - offset) / block * block),
        };
        if at + len.next_multiple_of(block) > BUFFER as u64 {
            break;
        }
        placed.push(Placed::new(Extent::new(&files[which], offset, len), at as usize));
        wishes.push((&paths[which], offset, len, at as usize));
        at += len.next_multiple_of(block);
    }
    rng.shuffle(&mut placed);
    let buffer = carrier.device().allocate(BUFFER).unwrap();
    let (buffer, mut want) = filled(carrier, buffer, &paths[0]);
    for &(path, offset, len, at) in &wishes {
        want[at..][..len as usize].copy_from_slice(&data::oracle(path, offset, len).unwrap());
    }
    let before = carrier.carried().total();
    let (carried, buffer) = carrier.carry_into(buffer, &placed).wait();
    let carried = carried.unwrap();
    let bytes: u64 = wishes.iter().map(|wish| wish.2).sum();
    assert_eq!((carried.total(), carrier.carried().total() - before), (bytes, bytes));
    data::same(&bytes_of(carrier, &buffer), &want, 0).unwrap();
}

/// A buffer whose every byte is known, as what lies between the places must stay.
fn filled(carrier: &Carrier, buffer: DeviceBuffer, path: &Path) -> (DeviceBuffer, Vec<u8>) {
    let file = carrier.open(path).unwrap();
    let run = LEN / 4096 * 4096;
    let runs = BUFFER as u64 / run;
    let placed: Vec<_> = (0..runs)
        .map(|i| Placed::new(Extent::new(&file, 0, run), (i * run) as usize))
        .chain(rest(&file, run))
        .collect();
    let (carried, buffer) = carrier.carry_into(buffer, &placed).wait();
    assert_eq!(carried.unwrap().total(), BUFFER as u64);
    let bytes = bytes_of(carrier, &buffer);
    (buffer, bytes)
}

fn rest(file: &forebay::File, run: u64) -> Option<Placed> {
    let filled = BUFFER as u64 / run * run;
    Some(Placed::new(Extent::new(file, 0, BUFFER as u64 - filled), filled as usize))
}

fn bytes_of(carrier: &Carrier, buffer: &DeviceBuffer) -> Vec<u8> {
    let bytes = carrier.to_host(buffer, 0..buffer.len()).unwrap();
    let seen_otherwise = match buffer.device_address() {
        Some(address) => Control::here().read_device(address, buffer.len()),
        None => buffer.host().unwrap().to_vec(),
    };
    assert!(bytes == seen_otherwise);
    assert_eq!(carrier.to_host(buffer, 5..9).unwrap(), bytes[5..9]);
    assert!(carrier.to_host(buffer, 0..buffer.len() + 1).is_err());
    bytes
}

fn refusals(carrier: &Carrier, path: &Path) {
    let file = carrier.open(path).unwrap();
    let place = |offset, len, at| Placed::new(Extent::new(&file, offset, len), at);
    let wrong = [
        vec![place(0, 4096, BUFFER - 4095)],
        vec![place(0, 4096, usize::MAX)],
        vec![place(0, 8192, 0), place(8192, 4096, 4096)],
    ];
    let mut buffer = carrier.device().allocate(BUFFER).unwrap();
    for placed in wrong {
        let (carried, back) = carrier.carry_into(buffer, &placed).wait();
        let error = carried.unwrap_err();
        assert!(matches!(error.fault, CarryFault::Place { .. }), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        buffer = back;
    }
    let (carried, buffer) = carrier.carry_into(buffer, &[place(LEN - 1, 2, 0)]).wait();
    let error = carried.unwrap_err().to_string();
    assert!(error.contains(&format!("{} at {}", path.display(), LEN - 1)), "{error}");
    let (carried, _) = carrier.carry_into(buffer, &[]).wait();
    assert_eq!(carried.unwrap().total(), 0);
    if carrier.device().kind() != DeviceKind::Host {
        let buffer = Device::host().allocate(4096).unwrap();
        let (carried, _) = carrier.carry_into(buffer, &[place(0, 1, 0)]).wait();
        assert!(matches!(carried.unwrap_err().fault, CarryFault::OtherDevice { .. }));
    }
}

/// Two thousand pieces of 1 KiB, each to another place than its neighbour in the file.
fn few_calls_for_many_pieces(control: &Control, device: &Device) {
    const PIECES: u64 = 2000;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("pieces");
    data::write_dense(&path, 5, LEN).unwrap();
    let carrier =
        Carrier::builder().device(device).route(Route::Bounce).budget(BUDGET).device_budget(4096).build().unwrap();
    let file = carrier.open(&path).unwrap();
    let mut places: Vec<u64> = (0..PIECES).collect();
    Rng::new(9).shuffle(&mut places);
    let piece =
        |(i, place): (usize, &u64)| Placed::new(Extent::new(&file, i as u64 * 1500, 1024), *place as usize * 1024);
    let placed: Vec<_> = places.iter().enumerate().map(piece).collect();
    control.reset_calls();
    let buffer = device.allocate(PIECES as usize * 1024).unwrap();
    let (carried, buffer) = carrier.carry_into(buffer, &placed).wait();
    assert_eq!(carried.unwrap().total(), PIECES * 1024);
    let names = ["cuMemcpyHtoDAsync_v2", "cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2"];
    let calls: u64 = names.iter().map(|name| control.calls(name)).sum();
    let no_batch = std::env::var("FOREBAY_EMULATOR").unwrap().contains("no_batch");
    // One group of 4 MiB; where the driver refuses the call for many, that is found once.
    assert!(calls <= if no_batch { PIECES + 1 } else { 1 }, "{calls} calls for {PIECES} pieces");
    let (carried, _buffer) = carrier.carry_into(buffer, &placed).wait();
    carried.unwrap();
    if no_batch {
        let more = names.iter().map(|name| control.calls(name)).sum::<u64>() - calls;
        assert_eq!(more, 1, "packed from then on");
    }
}
