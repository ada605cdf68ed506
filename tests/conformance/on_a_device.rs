//! The suite over the rows that end on a CUDA device: the emulated one on every file system, under many timings, and a
//! real one where there is one.
use std::time::Duration;

use forebay::{Carrier, Device, Route};

use crate::common::carrier::DEVICE_BUDGET;
use crate::common::effort;
use crate::common::emulated::Emulated;
use crate::common::emulator::Control;
use crate::common::fuse::{Fuse, Kind};
use crate::common::watchdog::eventually;
use crate::common::{Skip, folder, mounts};
use crate::row::{self, Row};
use crate::site::{Home, Site, Tally, Temperature};
use crate::{cases, conform_rows};

const PATIENCE: Duration = Duration::from_secs(300);

fn emulated(script: &str) -> Emulated {
    Emulated::new(script).patience(PATIENCE)
}

/// Neither violations nor leaks after each row. The device itself stays open.
fn conform(control: &Control, name: &str, home: Result<Home, Skip>) {
    let device = Device::cuda(0).unwrap();
    conform_rows(&format!("emulated GPU, {name}"), home, row::on_device(&device), || look(control));
}

fn look(control: &Control) {
    control.assert_no_violations();
    assert!(eventually(|| control.leaks().is_empty()), "leaked: {:#?}", control.leaks());
}

fn plain() -> Result<Home, Skip> {
    Ok(Home::Plain(folder()))
}

#[test]
fn emulated_plain_folder() {
    emulated("jitter_us=100").run(|control| conform(control, "the build's own file system", plain()));
}

#[test]
fn emulated_ext4_on_4096_byte_sectors() {
    emulated("").run(|control| {
        conform(control, "ext4 on 4096-byte sectors", mounts::ext4_4k_sectors().map(Home::Mount));
    });
}

#[test]
fn emulated_ext4_with_inline_data() {
    emulated("").run(|control| {
        conform(control, "ext4 with inline_data", mounts::ext4_inline_data().map(Home::Mount));
    });
}

#[test]
fn emulated_tmpfs() {
    emulated("").run(|control| conform(control, "tmpfs", mounts::tmpfs().map(Home::Mount)));
}

#[test]
fn emulated_overlay() {
    emulated("").run(|control| conform(control, "overlay", mounts::overlay().map(Home::Mount)));
}

#[test]
fn emulated_xfs() {
    emulated("").run(|control| conform(control, "xfs", mounts::xfs().map(Home::Mount)));
}

#[test]
fn emulated_fuse() {
    emulated("").run(|control| conform(control, "fuse", Fuse::mount(Kind::Cached).map(Home::Fuse)));
}

#[test]
fn emulated_fuse_opened_for_direct_io() {
    emulated("").run(|control| {
        conform(control, "fuse with FOPEN_DIRECT_IO", Fuse::mount(Kind::DirectIo).map(Home::Fuse));
    });
}

/// Bytes are as right when cuFile reads them through host memory.
#[test]
fn emulated_compatibility_mode() {
    emulated("cufile_path=compat").run(|control| conform(control, "compatibility mode", plain()));
}

/// No call for many copies, and an arena in segments over whose ends no copy may reach.
#[test]
fn emulated_older_driver() {
    emulated("no_batch; register_max=16MiB; no_spanning; cufile_no_stats").run(|control| {
        conform(control, "older driver", plain());
    });
}

/// Each seed orders copies, events and cuFile's answers in time anew; every row starts afresh under it.
#[test]
fn emulated_many_seeds() {
    let seeds = u64::from(effort::of(10, 200));
    emulated("").run(|control| {
        let site = Site::new("the build's own file system", plain().unwrap());
        let device = Device::cuda(0).unwrap();
        let (rows, mut tally) = (row::on_device(&device), Tally::default());
        for seed in 0..seeds {
            let (jitter, late) = (20 << (seed % 5), 20 << (seed / 5 % 5));
            control.script(&format!("seed={seed}; jitter_us={jitter}; cufile_late_us={late}"));
            for (number, row) in rows.iter().enumerate() {
                tally += one_seed(&site, row, seed + number as u64);
                control.assert_no_violations();
            }
        }
        look(control);
        eprintln!("emulated GPU: {seeds} seeds x {} rows: {tally}", rows.len());
    });
}

/// A carrier of its own, and one of the cases that have few bytes, another with each seed.
fn one_seed(site: &Site, row: &Row, seed: u64) -> Tally {
    let quick: Vec<&cases::Case> = cases::ALL.iter().filter(|case| case.is_quick).collect();
    let case = quick[seed as usize % quick.len()];
    let subject = row.subject();
    let outcome = (case.run)(&cases::Bench { site, row, subject: &subject });
    subject.close();
    outcome.unwrap_or_else(|wrong| panic!("seed {seed}, {row}, {}: {wrong}", case.name))
}

/// On a machine that has a GPU, with its own driver: `--ignored on_a_real_gpu`. Files go to FOREBAY_GPU_DIR.
#[test]
#[ignore = "for machines with a GPU"]
fn on_a_real_gpu_plain_folder() {
    let Some(device) = real_gpu() else { return };
    let home = plain().unwrap();
    let rows = row::on_device(&device).into_iter().filter(|row| can_be_had(row, &home)).collect();
    conform_rows(&format!("{} ({device})", device.name()), Ok(home), rows, || ());
}

/// The same file by every route and in every form, and what each says of itself.
#[test]
#[ignore = "for machines with a GPU"]
fn on_a_real_gpu_routes_are_told() {
    let Some(device) = real_gpu() else { return };
    let site = Site::new("routes", plain().unwrap());
    site.set_temperature(Temperature::Cold);
    let carrier =
        Carrier::builder().device(&device).budget(DEVICE_BUDGET).device_budget(DEVICE_BUDGET).build().unwrap();
    let file = carrier.open(&site.ragged).unwrap();
    let decision = carrier.decision(&file).unwrap();
    eprintln!("{} ({device}): {}", device.name(), decision.chosen);
    for rejected in &decision.rejected {
        eprintln!("  not {}: {}; {}", rejected.route, rejected.reason, rejected.fix());
    }
    let landed = carrier.carry_blocking(&[forebay::Extent::new(&file, 0, file.len())]).unwrap();
    assert_eq!(landed.to_host(0).unwrap(), site.want(&site.ragged, 0, file.len()));
    eprintln!("  carried: {:?}; cuFile counted {:?}", landed.carried(), carrier.cufile_counters());
}

fn real_gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) => {
            crate::common::skipped::skipped(format!("there is no CUDA device: {error}"));
            None
        }
    }
}

/// The direct route needs more than a GPU; where it cannot be had, why not is said.
fn can_be_had(row: &Row, home: &Home) -> bool {
    let Row::Carries(row) = row else { return true };
    if row.route != Some(Route::Direct) {
        return true;
    }
    let path = home.make("probe", 0, 100_000).unwrap();
    match row.carrier().open(path) {
        Ok(_) => true,
        Err(error) => {
            crate::common::skipped::skipped(format!("{row}: {error}"));
            false
        }
    }
}
