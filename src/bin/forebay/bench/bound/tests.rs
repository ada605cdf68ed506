use std::path::Path;

use forebay::facts::{BlockDevice, DeviceNumber, PciFunction};
use forebay::{EngineChoice, Route};

use super::*;
use crate::bench::ceilings::LinkRate;
use crate::bench::pcie::Pcie;
use crate::bench::usage::Used;

const CASE: Case = Case {
    pattern: Pattern::Sequential,
    device: 0,
    route: Route::Bounce,
    engine: EngineChoice::Uring,
    chunk: 1 << 20,
    depth: 32,
    threads: 1,
    cache: Cache::Cold,
    iopoll: false,
};

/// One second that took so much of one thread, and of all processors together.
fn run(bytes: u64, busiest: f64, cpu_seconds: f64) -> Run {
    let used = Used { cpu_seconds, busiest: Some(("ring".into(), busiest)), idle: Some(0.8), others: 0.0 };
    Run { bytes, seconds: 1.0, used, ..Run::default() }
}

fn close(told: Option<f64>, wanted: f64) {
    assert!(told.is_some_and(|told| (told / wanted - 1.0).abs() < 1e-9), "{told:?} {wanted}");
}

#[test]
fn processors_could_carry_what_all_of_them_or_the_busiest_thread_can() {
    // A GB in a second by half a thread, and two processor seconds in all.
    let busy = Busy::of(&[run(1_000_000_000, 0.5, 2.0)]);
    close(busy.ceiling(1e9, 2), 1e9);
    close(busy.ceiling(1e9, 3), 1.5e9);
    // From four processors on the thread ends first.
    close(busy.ceiling(1e9, 64), 2e9);
    // Of several runs the mean.
    close(Busy::of(&[run(1 << 30, 0.25, 0.5), run(1 << 30, 0.75, 1.5)]).ceiling(1e9, 64), 2e9);
    // Too short to be counted: no thread of which a tick was seen, or nothing at all.
    close(Busy::of(&[run(1_000_000_000, 0.0, 0.1)]).ceiling(1e9, 4), 40e9);
    assert_eq!(Busy::of(&[run(1_000_000_000, 0.0, 0.0)]).ceiling(1e9, 4), None);
    assert_eq!(Busy::of(&[]).ceiling(0.0, 4), None);
}

#[test]
fn a_row_is_held_against_the_link_at_the_size_of_its_copies() {
    let link = |(chunk, to_device)| LinkRate { chunk, to_device, to_host: 1e12 };
    let rates = [(64 << 10, 1e9), (256 << 10, 2e9), (1 << 20, 4e9), (4 << 20, 8e9), (16 << 20, 16e9)];
    let ceilings = Ceilings { link: rates.map(link).to_vec(), ..Ceilings::default() };
    let ceiling = |case: &Case| ceilings.copies_to_device(copied_at_once(case)).unwrap();
    // A queue of 32 MiB goes in groups of 4 MiB.
    assert_eq!(ceiling(&CASE), 8e9);
    // One read alone, which is larger than a group.
    assert_eq!(ceiling(&Case { chunk: 8 << 20, depth: 1, ..CASE }), 16e9);
    assert_eq!(ceiling(&Case { chunk: 64 << 20, depth: 1, ..CASE }), 16e9);
    // 64 reads of 4 KiB are 256 KiB, and 16 of 152 KiB are no whole size: the next.
    assert_eq!(ceiling(&Case { chunk: 4 << 10, depth: 1, ..CASE }), 2e9);
    assert_eq!(ceiling(&Case { chunk: 152 << 10, depth: 8, ..CASE }), 8e9);
    let told = |case: &Case, rate| bound(case, rate, &[run(1, 0.1, 0.1)], &ceilings, rate).by;
    assert_eq!(told(&CASE, 7.3e9), By::Link);
    assert_ne!(told(&CASE, 7.1e9), By::Link);
    // What goes faster than its ceiling shows that this is none.
    assert_eq!(told(&CASE, 9e9), By::Link);
    assert_ne!(told(&CASE, 11e9), By::Link);
    // cuFile copies nothing.
    assert_ne!(told(&Case { route: Route::Direct, ..CASE }, 7.3e9), By::Link);
    assert_eq!(Ceilings::default().copies_to_device(1), None);
}

/// A drive's link of 16 GT/s x4 and a GPU's of 8 GT/s x16: 7.88 and 15.75 GB/s.
fn links() -> Vec<Pcie> {
    let of = |what, speed: &str, width: &str| {
        let machine = tempfile::tempdir().unwrap();
        let folder = machine.path().join("devices/0000:81:00.0");
        std::fs::create_dir_all(folder.join("nvme/nvme0/nvme0n1")).unwrap();
        for name in ["current", "max"] {
            std::fs::write(folder.join(format!("{name}_link_speed")), speed).unwrap();
            std::fs::write(folder.join(format!("{name}_link_width")), width).unwrap();
        }
        std::fs::create_dir_all(machine.path().join("dev/block")).unwrap();
        let disk = folder.join("nvme/nvme0/nvme0n1");
        std::os::unix::fs::symlink(disk, machine.path().join("dev/block/259:0")).unwrap();
        let function = function(machine.path());
        Pcie::of(what, &function).unwrap()
    };
    vec![of(What::Drive, "16.0 GT/s PCIe", "4"), of(What::Gpu, "8.0 GT/s PCIe", "16")]
}

fn function(sys: &Path) -> PciFunction {
    let disk = BlockDevice::from_number(sys, DeviceNumber { major: 259, minor: 0 }).unwrap();
    PciFunction::of_disk(&disk).remove(0)
}

#[test]
fn a_row_near_a_pcie_link_is_held_back_by_it_and_says_which() {
    let ceilings = Ceilings { pcie: links(), ..Ceilings::default() };
    let told = |case: &Case, rate: f64| bound(case, rate, &[run(1, 0.1, 0.1)], &ceilings, rate);
    let drive = told(&CASE, 7.1e9);
    assert_eq!((drive.by, drive.why.to_string()), (By::Link, "the drive's PCIe link, 16 GT/s x4 (7.9 GB/s)".into()));
    assert!(drive.share.is_some_and(|share| (0.90..0.91).contains(&share)), "{drive:?}");
    assert_ne!(told(&CASE, 7.0e9).by, By::Link);
    // No link carries more than it can.
    assert_ne!(told(&CASE, 7.9e9).by, By::Link);
    // The page cache passes no drive's link.
    let warm = Case { cache: Cache::Warm, route: Route::Cached, ..CASE };
    assert_ne!(told(&warm, 7.5e9).by, By::Link);
    // Straight to the GPU, too.
    let gpu = told(&Case { route: Route::Direct, ..CASE }, 14.5e9);
    assert_eq!((gpu.by, gpu.why.to_string()), (By::Link, "the GPU's PCIe link, 8 GT/s x16 (15.8 GB/s)".into()));
}

#[test]
fn a_loader_that_gets_less_than_another_program_does_not_blame_the_drive() {
    let of = |pattern, rate_now, peer| {
        let (route, engine, cache) = (Route::Bounce, EngineChoice::Uring, Cache::Cold);
        let case =
            Case { pattern, device: 0, route, engine, chunk: 150 << 10, depth: 8, threads: 1, cache, iopoll: false };
        let run = Run { used: Used { idle: Some(0.5), ..Used::default() }, ..Run::default() };
        let alone = bound(&case, rate_now, &[run], &Ceilings::default(), rate_now);
        beside_peer(alone, &case, rate_now, peer).by
    };
    assert_eq!(of(Pattern::Loader, 1e9, 2e9), By::Unknown);
    assert_eq!(of(Pattern::Loader, 1e9, 1.05e9), By::Drive);
    assert_eq!(of(Pattern::Random, 1e9, 2e9), By::Drive);
}

#[test]
fn bytes_that_stay_on_the_host_are_held_back_by_no_link_to_a_gpu() {
    let link = vec![LinkRate { chunk: 4 << 20, to_device: 8e9, to_host: 8e9 }];
    let all = Ceilings { link, to_device: Some(8e9), to_host: Some(8e9), pcie: links(), ..Ceilings::default() };
    let told = |ceilings: &Ceilings, rate: f64| bound(&CASE, rate, &[run(1, 0.1, 0.1)], ceilings, rate).by;
    let host = all.beside_gpus();
    for rate in [7.95e9, 14.5e9] {
        assert_eq!(told(&all, rate), By::Link);
        assert_ne!(told(&host, rate), By::Link);
    }
    assert_eq!(told(&host, 7.1e9), By::Link, "but by the drive's");
}

#[test]
fn where_another_way_gets_more_of_the_drive_it_is_not_the_drive() {
    let alone = || bound(&CASE, 1e9, &[run(1, 0.1, 0.1)], &Ceilings::default(), 1e9);
    assert_eq!(alone().by, By::Drive);
    assert_eq!(beside_way(alone(), 1e9, 1.05e9).by, By::Drive);
    let bound = beside_way(alone(), 1e9, 2e9);
    assert_eq!((bound.by, bound.share), (By::Unknown, Some(0.5)));
    assert!(bound.cpu_ceiling.is_some());
}
