//! One suite over every row (engine x mode, device x route) and every file system, with std::fs as the oracle.
//!
//! A row is what must not matter for the bytes; a case is what is asked for; a site is where the files lie.
#[path = "../common/mod.rs"]
mod common;

use common::effort;
use std::time::Duration;

mod cases;
mod on_a_device;
mod row;
mod site;

use common::carrier::Subject;
use common::fuse::{Fuse, Kind};
use common::reader;
use common::{Skip, mounts};
use forebay::{EngineChoice, Mode, Reader, ReaderBuilder};
use row::Row;
use site::{Home, Site, Tally, Temperature};

#[test]
fn plain_folder() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    conform("the build's own file system", Ok(Home::Plain(dir)));
}

#[test]
fn ext4() {
    conform("ext4", mounts::ext4().map(Home::Mount));
}

#[test]
fn ext4_on_4096_byte_sectors() {
    conform("ext4 on 4096-byte sectors", mounts::ext4_4k_sectors().map(Home::Mount));
}

#[test]
fn ext4_with_inline_data() {
    conform("ext4 with inline_data", mounts::ext4_inline_data().map(Home::Mount));
}

#[test]
fn tmpfs() {
    conform("tmpfs", mounts::tmpfs().map(Home::Mount));
}

#[test]
fn overlay() {
    conform("overlay", mounts::overlay().map(Home::Mount));
}

#[test]
fn xfs() {
    conform("xfs", mounts::xfs().map(Home::Mount));
}

#[test]
fn btrfs() {
    conform("btrfs", mounts::btrfs().map(Home::Mount));
}

#[test]
fn fuse() {
    conform("fuse", Fuse::mount(Kind::Cached).map(Home::Fuse));
}

#[test]
fn fuse_opened_for_direct_io() {
    conform("fuse with FOPEN_DIRECT_IO", Fuse::mount(Kind::DirectIo).map(Home::Fuse));
}

type Set = fn(ReaderBuilder) -> ReaderBuilder;

/// How the ring is set up must not matter either. Where the device has no polled queues, `iopoll` must fall back by
/// itself.
#[test]
fn rings_of_every_kind() {
    if let Err(Skip(why)) = reader::uring_here() {
        crate::common::skipped::skipped(why);
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let site = Site::new("the build's own file system", Home::Plain(dir));
    let kinds: [(&str, Set); 5] = [
        ("three rings of depth 1", |reader| reader.rings(3).depth(1)),
        ("the deepest ring", |reader| reader.depth(4096)),
        ("sqpoll", |reader| reader.sqpoll(Some(Duration::from_millis(5)))),
        ("iopoll", |reader| reader.iopoll(true)),
        ("iopoll, sqpoll and two rings", |reader| reader.iopoll(true).sqpoll(Some(Duration::from_millis(5))).rings(2)),
    ];
    for (kind, set) in kinds {
        for mode in [Mode::Auto, Mode::Direct, Mode::Buffered] {
            let row = Row::Reads(reader::Row { engine: EngineChoice::Uring, mode });
            let builder =
                Reader::builder().engine(EngineChoice::Uring).mode(mode).chunk(reader::CHUNK).budget(reader::BUDGET);
            let reader = set(builder).build().unwrap_or_else(|error| panic!("{kind}: {error}"));
            let subject = Subject::Reads(reader);
            for case in cases::ALL {
                site.set_temperature(Temperature::Cold);
                let bench = cases::Bench { site: &site, row: &row, subject: &subject };
                if let Err(wrong) = (case.run)(&bench) {
                    panic!("{kind}, {row}, {}: {wrong}", case.name);
                }
            }
            subject.close();
        }
    }
}

fn conform(name: &str, home: Result<Home, Skip>) {
    conform_rows(name, home, row::on_host(), || ());
}

/// Runs every case in each of the rows, and `look` after each.
fn conform_rows(name: &str, home: Result<Home, Skip>, rows: Vec<Row>, look: impl Fn()) {
    let site = Site::new(name, or_skip!(home));
    let mut tally = Tally::default();
    let runs = runs(rows);
    for (row, temperature) in &runs {
        let subject = row.subject();
        for case in cases::ALL {
            site.set_temperature(*temperature);
            let bench = cases::Bench { site: &site, row, subject: &subject };
            match (case.run)(&bench) {
                Ok(more) => tally += more,
                Err(wrong) => panic!("{name}, {row}, {temperature:?}, {}: {wrong}", case.name),
            }
        }
        subject.close();
        look();
    }
    assert!(tally.bytes > 0);
    eprintln!("{name}: {} rows x {} cases: {tally}", runs.len(), cases::ALL.len());
}

/// Where the page cache decides how bytes are read, each state of it is a row of its own; by default of the first such row.
fn runs(rows: Vec<Row>) -> Vec<(Row, Temperature)> {
    let mut runs = Vec::new();
    let mut autos = effort::of(1, u32::MAX);
    for row in rows {
        runs.push((row.clone(), Temperature::Cold));
        if row.is_auto() && autos > 0 {
            autos -= 1;
            runs.extend([(row.clone(), Temperature::Half), (row, Temperature::Warm)]);
        }
    }
    runs
}
