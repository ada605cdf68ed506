//! A budget is a limit: memory follows what is read and held, never the budget, which all of it may still reach.
mod common;

use std::fs;
use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::privilege::{self, Outside, Reduced, child_dir, child_done, expect_child, in_child};
use common::reader::engines;
use common::watchdog::eventually;
use common::{Skip, data};
use forebay::dataset::{self, Format, OpenOptions};
use forebay::{
    BuildError, Carrier, CarrierBuilder, Extent, Loader, MemoryError, Pieces, Read, ReadError, ReadFault, Reader,
};
use nix::sys::resource::{UsageWho, getrusage};

const LEN: usize = 4_000;
const BUDGETS: [u64; 4] = [64 << 20, 4 << 30, 12 << 30, 1 << 40];

/// What a reader, a carrier or a loader of 4,000 bytes may take with its threads: less than the smallest budget.
const MOST: u64 = 24 << 20;

/// What a whole command may take, its own code included.
const MOST_OF_A_COMMAND: u64 = 48 << 20;

#[test]
fn little_data_takes_little_memory_whatever_the_budget() {
    let outside = Outside::new();
    data::write_dense(&outside.path().join("little.bin"), 1, LEN as u64).unwrap();
    expect_child("little data", outside.rerun(&Reduced::new(), "in_child_little_data"));
}

#[test]
#[ignore = "a part of another test"]
fn in_child_little_data() {
    if !in_child() {
        return;
    }
    let path = child_dir().join("little.bin");
    let before = peak();
    for budget in BUDGETS {
        for engine in engines() {
            let builder = || Reader::builder().engine(engine);
            let reader = builder().budget(budget).build().unwrap();
            let file = reader.open(&path).unwrap();
            let pieces = reader.read(&[Extent::new(&file, 0, LEN as u64)]).wait().unwrap();
            data::check(&pieces[0], 1, 0).unwrap();
            drop((pieces, reader));
            expect_little(&format!("a reader of {budget} bytes"), before);

            let carrier = Carrier::builder().reader(builder()).budget(budget).build().unwrap();
            let file = carrier.open(&path).unwrap();
            let landed = carrier.carry_blocking(&[Extent::new(&file, 0, LEN as u64)]).unwrap();
            data::check(&landed.to_host(0).unwrap(), 1, 0).unwrap();
            drop((landed, carrier));
            expect_little(&format!("a carrier of {budget} bytes"), before);

            load(&path, Carrier::builder().reader(builder()), budget);
            expect_little(&format!("a loader of {budget} bytes"), before);
        }
    }
    child_done();
}

/// For who would rather have it all at once.
#[test]
fn what_is_prefaulted_is_there_when_the_reader_is() {
    for engine in engines() {
        let reader = Reader::builder().engine(engine).budget(20 << 20).prefault(true).build().unwrap();
        assert_eq!(reader.arena().touched(), 20 << 20);
    }
}

fn load(path: &Path, carrier: CarrierBuilder, budget: u64) {
    let dataset = dataset::open(&[path], &OpenOptions::new().format(Format::Records).record_bytes(40)).unwrap();
    let mut loader = Loader::builder(dataset).carrier(carrier).batch_size(10).epochs(3).budget(budget).build().unwrap();
    let samples: usize = loader.blocking().map(|batch| batch.unwrap().len()).sum();
    assert_eq!(samples, 3 * LEN / 40);
}

fn expect_little(what: &str, before: u64) {
    let peak = peak();
    assert!(peak <= before + MOST, "{what} took {} bytes for {LEN}", peak - before);
}

/// But `doctor`, whose verdict on a budget is what became of trying it.
#[test]
fn commands_take_little_memory_whatever_the_budget() {
    or_skip!(privilege::forebay());
    let outside = Outside::new();
    expect_child("commands", outside.rerun(&Reduced::new(), "in_child_commands"));
}

#[test]
#[ignore = "a part of another test"]
fn in_child_commands() {
    if !in_child() {
        return;
    }
    let forebay = privilege::forebay().unwrap_or_else(|Skip(why)| panic!("{why}"));
    let folder = child_dir();
    data::write_dense(&folder.join("little.bin"), 1, LEN as u64).unwrap();
    let header = format!(r#"{{"a":{{"dtype":"U8","shape":[{LEN}],"data_offsets":[0,{LEN}]}}}}"#);
    let whole = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[7; LEN]].concat();
    fs::write(folder.join("little.safetensors"), whole).unwrap();
    let records = ["little.bin", "--format", "records", "--record-bytes", "40"];
    for budget in BUDGETS {
        for (number, arguments) in [
            vec!["cat", "little.bin"],
            [&["read"][..], &records].concat(),
            vec!["load", "little.safetensors"],
            [&["pack"][..], &records, &["-o", "packed"]].concat(),
        ]
        .into_iter()
        .enumerate()
        {
            let mut command = Reduced::new().command(forebay);
            let packed = format!("packed-{budget}-{number}");
            command.args(arguments.iter().map(|&one| if one == "packed" { packed.as_str() } else { one }));
            command.args(["--budget", &budget.to_string()]).current_dir(&folder).stdout(Stdio::null());
            let output = privilege::run(arguments[0], command);
            assert!(output.status.success(), "{arguments:?}: {}", privilege::told(&output));
            let most = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() as u64 * 1024;
            assert!(most <= MOST_OF_A_COMMAND, "{arguments:?} with a budget of {budget}: {most} bytes at most");
        }
    }
    child_done();
}

fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// The kernel counts addresses for this limit, and a budget is addresses.
#[test]
fn a_budget_beyond_the_address_space_is_an_error_that_says_so() {
    let outside = Outside::new();
    let mut command = outside.rerun(&Reduced::new().address_space(2 << 30), "in_child_small_address_space");
    // The allocator reserves address space for each thread that it gives an arena.
    command.env("MALLOC_ARENA_MAX", "1");
    expect_child("RLIMIT_AS", command);
}

#[test]
#[ignore = "a part of another test"]
fn in_child_small_address_space() {
    if !in_child() {
        return;
    }
    let error = Reader::builder().budget(4 << 30).build().unwrap_err();
    assert!(matches!(error, BuildError::Memory(MemoryError::Refused { bytes, .. }) if bytes == 4 << 30), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("4 GiB") && said.contains("lower the budget"), "{said}");
    assert!(Reader::builder().budget(64 << 20).build().is_ok());
    child_done();
}

/// Nothing is killed for want of memory: what could never fit is an error before its first read, and who holds too much waits
/// for himself, as with a budget of that size.
#[test]
fn a_control_group_with_less_than_the_budget_is_a_limit_too() {
    let group = or_skip!(Group::with(96 << 20));
    let outside = Outside::new();
    fs::File::create(outside.path().join("hole")).unwrap().set_len(512 << 20).unwrap();
    let mut command = outside.rerun(&Reduced::new(), "in_child_small_group");
    // To print one takes more memory than there is.
    command.env("FOREBAY_TEST_GROUP", &group.0).env("RUST_BACKTRACE", "0");
    expect_child("a control group", command);
}

#[test]
#[ignore = "a part of another test"]
fn in_child_small_group() {
    if !in_child() {
        return;
    }
    let group = std::env::var_os("FOREBAY_TEST_GROUP").unwrap();
    fs::write(Path::new(&group).join("cgroup.procs"), std::process::id().to_string()).unwrap();
    for engine in engines() {
        let reader = Reader::builder().engine(engine).budget(1 << 30).build().unwrap();
        let file = reader.open(child_dir().join("hole")).unwrap();
        let read = |len: u64| reader.read(&[Extent::new(&file, 0, len)]);
        let error = read(256 << 20).wait().unwrap_err();
        assert!(matches!(error.fault, ReadFault::Memory(MemoryError::NotLeft { .. })), "{error:?}");
        assert!(error.to_string().contains("left; free memory"), "{error}");
        assert_eq!(reader.stats().bytes_direct + reader.stats().bytes_buffered, 0);
        let mut held = vec![];
        let mut waiting = loop {
            let mut read = read(4 << 20);
            match watch(&mut read) {
                Poll::Ready(pieces) => held.push(pieces.unwrap()),
                Poll::Pending => break read,
            }
            assert!(held.len() < 24, "more is held than the control group allows");
        };
        assert!(held.len() > 8, "{} of 4 MiB", held.len());
        drop(held.pop());
        assert!(matches!(watch(&mut waiting), Poll::Ready(Ok(_))));
        drop((held, waiting, file, reader));
        // The kernel lets go of a ring's buffers a little after the ring.
        let usage = ["memory.usage_in_bytes", "memory.current"].map(|name| Path::new(&group).join(name));
        let used = || usage.iter().find_map(|file| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok());
        assert!(eventually(|| used().is_some_and(|used| used < 48 << 20)), "{:?}", used());
    }
    child_done();
}

/// Polls until it is there, or has not come for a while.
fn watch(read: &mut Read) -> Poll<Result<Pieces, ReadError>> {
    let mut outcome = Poll::Pending;
    for _ in 0..2000 {
        outcome = Pin::new(&mut *read).poll(&mut Context::from_waker(Waker::noop()));
        if outcome.is_ready() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    outcome
}

/// A control group of its own with so much memory; it goes with this.
struct Group(PathBuf);

impl Group {
    fn with(bytes: u64) -> Result<Self, Skip> {
        let mounts = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let make = |(mount, limit): (&str, &str)| {
            let group = Self(Path::new(mount).join(format!("forebay-test-{}", std::process::id())));
            fs::create_dir(&group.0).ok()?;
            fs::OpenOptions::new()
                .write(true)
                .open(group.0.join(limit))
                .ok()?
                .write_all(bytes.to_string().as_bytes())
                .ok()?;
            Some(group)
        };
        let made =
            mounts.into_iter().filter(|(mount, _)| Path::new(mount).join("cgroup.procs").exists()).find_map(make);
        made.ok_or_else(|| Skip::because("no control group with a limit of memory can be made here"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The kernel refuses to register what the arena grows by: that is one warning, and all is read and counted, wherever it lands.
#[test]
fn little_locked_memory_is_one_warning_and_no_error() {
    let outside = Outside::new();
    data::write_dense(&outside.path().join("shard"), 5, 48 << 20).unwrap();
    // Locked memory is counted by user, so this one is nobody else's.
    let reduced = Reduced::new().user(privilege::NOBODY - 21).memlock(8 << 20);
    or_skip!(reduced.possible());
    expect_child("RLIMIT_MEMLOCK", outside.rerun(&reduced, "in_child_little_locked_memory"));
}

#[test]
#[ignore = "a part of another test"]
fn in_child_little_locked_memory() {
    if !in_child() {
        return;
    }
    tracing::subscriber::set_global_default(Said).unwrap();
    for rings in [1, 2] {
        let reader = Reader::builder().budget(1 << 30).chunk(1 << 20).rings(rings).build().unwrap();
        let file = reader.open(child_dir().join("shard")).unwrap();
        let held: Vec<_> = (0..12)
            .map(|part| (part << 22, reader.read(&[Extent::new(&file, part << 22, 4 << 20)]).wait().unwrap()))
            .collect();
        for (at, pieces) in &held {
            data::check(&pieces[0], 5, *at).unwrap();
        }
        let stats = reader.stats();
        assert_eq!(stats.bytes_direct + stats.bytes_buffered, 48 << 20);
        let warned = WARNED.swap(0, Ordering::Relaxed);
        match reader.ring_features() {
            // It may lock the first 8 MiB of 48.
            Some(features) => assert_eq!(warned, 1, "{rings}: {features:?}"),
            None => eprintln!("without io_uring there is nothing to lock"),
        }
        drop((held, file));
        reader.close_blocking();
    }
    child_done();
}

static WARNED: AtomicUsize = AtomicUsize::new(0);

/// Counts warnings.
struct Said;

impl tracing::Subscriber for Said {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn event(&self, _: &tracing::Event<'_>) {
        WARNED.fetch_add(1, Ordering::Relaxed);
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
