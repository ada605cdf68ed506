//! Requests at random over all that can be set: extents that overlap, repeat, are empty or end with their file, of files
//! half of whose pages are warm, by every choice of switches and forms, whole and to places of their own.
use forebay::{Carrier, CarrierBuilder, Extent, File, Placed, Reader, Switch};

use crate::common::emulated::clean;
use crate::common::emulator::Control;
use crate::common::{Rng, data};
use crate::rig::{FORMS, Files, builder};

const LENS: [u64; 7] = [1, 100, 4096, 5000, 65_536, 1_000_003, (3 << 20) + 4567];
const BUFFER: usize = 6 << 20;

/// For longer hunts: how many rounds, and from which seed on.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn random_requests_by_every_choice_of_routes() {
    clean("jitter_us=100", |control| all(control, 0));
}

#[test]
fn random_requests_on_a_driver_that_can_do_less() {
    clean("jitter_us=100; no_batch; register_max=16MiB; no_spanning", |control| all(control, 1_000_000));
}

#[test]
fn random_requests_where_cufile_answers_short_and_is_not_direct() {
    // Once in a while, at all three forms.
    clean("jitter_us=100; cufile_path=compat; cufile_max_direct_io_kb=64", |control| {
        for call in ["cuFileRead", "batch_entry", "async_entry"] {
            (0..40).for_each(|i| control.script(&format!("short={call}@{}:{}", 5 + 7 * i, 4096 * (1 + i % 5))));
        }
        all(control, 2_000_000);
    });
}

fn all(control: &Control, from: u64) {
    let from = from + number("FOREBAY_SEED", 0);
    let files = Files::new(&LENS);
    let reader = Reader::builder().budget(1 << 20).build().unwrap();
    for seed in from..from + number("FOREBAY_ROUNDS", 12) {
        control.script(&format!("seed={seed}"));
        let mut rng = Rng::new(seed);
        let (set, shown) = settings(&mut rng);
        let what = format!("{seed} {shown}");
        let carrier = set.build().unwrap_or_else(|error| panic!("{what}: {error}"));
        if carrier.open(&files.paths[6]).is_err_and(|error| error.to_string().contains("compatibility mode")) {
            continue;
        }
        // Each file twice, and once as somebody else has it open.
        let mut opened = files.open(&carrier);
        opened.extend(files.open(&carrier));
        opened.extend(files.paths.iter().map(|path| reader.open(path).unwrap()));
        for _ in 0..3 {
            cool_and_warm(&files, &mut rng);
            whole(&carrier, &opened, &mut rng, &what);
            cool_and_warm(&files, &mut rng);
            placed(control, &carrier, &opened, &mut rng, &what);
        }
        assert_eq!(carrier.device_bytes_held(), 0, "{what}");
    }
}

fn settings(rng: &mut Rng) -> (CarrierBuilder, String) {
    let one = |rng: &mut Rng| [Switch::Auto, Switch::Auto, Switch::Off][rng.below(3) as usize];
    let (mut direct, mut bounce, mut cached) = (one(rng), one(rng), one(rng));
    if [direct, bounce, cached] == [Switch::Off; 3] {
        (direct, bounce, cached) = (Switch::Auto, Switch::Auto, Switch::Auto);
    }
    if rng.below(4) == 0 {
        *[&mut direct, &mut bounce, &mut cached][rng.below(3) as usize] = Switch::On;
    }
    let form = FORMS[rng.below(3) as usize];
    let chunk = 65_536 << rng.below(5);
    let gap = [0, 1, 4096, 100_000][rng.below(4) as usize];
    // One of them more than some drivers register at once.
    let (budget, copied) = ([1, 2, 4, 40][rng.below(4) as usize] << 20, 4096 << rng.below(12));
    let reader = Reader::builder().chunk(chunk).coalesce_gap(gap).depth(1 + rng.below(8) as u32);
    let shown = format!("{direct:?} {bounce:?} {cached:?} {form:?} {chunk} {gap} {budget} {copied}");
    let set = builder().reader(reader).direct(direct).bounce(bounce).cached(cached).direct_form(form);
    (set.budget(budget).chunk(copied), shown)
}

fn cool_and_warm(files: &Files, rng: &mut Rng) {
    files.cool();
    for (path, len) in files.paths.iter().zip(LENS) {
        if rng.below(2) == 0 {
            let from = rng.below(len);
            data::warm_cache(path, from..len.min(from + 1 + rng.below(600_000))).unwrap();
        }
    }
}

fn extent(opened: &[File], rng: &mut Rng) -> (u64, u64, u64) {
    let which = rng.below(opened.len() as u64);
    let len = LENS[which as usize % LENS.len()];
    let offset = match rng.below(4) {
        0 => 0,
        1 => rng.below(len + 1) / 4096 * 4096,
        _ => rng.below(len + 1),
    };
    let rest = len - offset;
    let bytes = match rng.below(6) {
        0 => rest,
        1 => 0,
        2 => rest / 4096 * 4096,
        3 => rest.min(4096),
        _ => rng.below(rest + 1).min(1 + rng.below(200_000)),
    };
    (which, offset, bytes)
}

fn whole(carrier: &Carrier, opened: &[File], rng: &mut Rng, what: &str) {
    let wanted: Vec<_> = (0..rng.below(40)).map(|_| extent(opened, rng)).collect();
    let extents: Vec<_> = wanted.iter().map(|&(file, at, len)| Extent::new(&opened[file as usize], at, len)).collect();
    let before = carrier.carried().total();
    let landed = match carrier.carry_blocking(&extents) {
        Ok(landed) => landed,
        Err(error) if error.to_string().contains("device budget") => return,
        Err(error) => panic!("{what}: {error}"),
    };
    let mut sum = 0;
    for (i, &(file, offset, len)) in wanted.iter().enumerate() {
        let got = landed.to_host(i).unwrap();
        assert_eq!(got.len() as u64, len, "{what}");
        data::check(&got, file % LENS.len() as u64, offset)
            .unwrap_or_else(|why| panic!("{what}: {i} {file} {offset} {len}: {why}"));
        sum += len;
    }
    assert_eq!((landed.carried().total(), carrier.carried().total() - before), (sum, sum), "{what}");
}

fn placed(control: &Control, carrier: &Carrier, opened: &[File], rng: &mut Rng, what: &str) {
    let buffer = carrier.device().allocate(BUFFER).unwrap();
    let address = buffer.device_address().unwrap();
    let mut want = control.read_device(address, BUFFER);
    let (mut at, mut placed, mut sum) = (0, Vec::new(), 0);
    for _ in 0..rng.below(40) {
        let (file, offset, len) = extent(opened, rng);
        at += rng.below(3) * rng.below(5000);
        if rng.below(2) == 0 {
            at = at.next_multiple_of(4096);
        }
        if at + len > BUFFER as u64 {
            break;
        }
        placed.push(Placed::new(Extent::new(&opened[file as usize], offset, len), at as usize));
        data::fill(&mut want[at as usize..][..len as usize], file % LENS.len() as u64, offset);
        (at, sum) = (at + len, sum + len);
    }
    rng.shuffle(&mut placed);
    let (carried, buffer) = carrier.carry_into(buffer, &placed).wait();
    match carried {
        Ok(carried) => assert_eq!(carried.total(), sum, "{what}"),
        Err(error) if error.to_string().contains("is not a multiple of") => return,
        Err(error) => panic!("{what}: {error}"),
    }
    let got = control.read_device(address, BUFFER);
    data::same(&got, &want, 0).unwrap_or_else(|why| panic!("{what}: {why}"));
    drop(buffer);
}
