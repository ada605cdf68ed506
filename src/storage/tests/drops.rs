use std::time::Duration;

use super::*;
use crate::memory::{Arena, Slot};

/// Slots of the tests' own, all around those of the reads, full of a pattern that nobody else may touch.
struct Canaries(Vec<Slot>);

impl Canaries {
    fn new(arena: &Arena, count: usize) -> Self {
        let slots = (0..count).map(|_| arena.try_loan(4096).unwrap().unwrap());
        Self(
            slots
                .map(|mut slot| {
                    slot.fill(0xc3);
                    slot
                })
                .collect(),
        )
    }

    fn check(&self) {
        assert!(self.0.iter().all(|slot| slot.iter().all(|&byte| byte == 0xc3)), "somebody wrote into a slot on loan");
    }
}

#[test]
fn a_thread_that_waits_for_memory_is_told_who_has_it() {
    let sample = Sample::new(128 << 10);
    let reader = Reader::builder().budget(64 << 10).build().unwrap();
    let file = reader.open(&sample.path).unwrap();
    let extent = [Extent::new(&file, 0, 48 << 10)];
    let held = reader.read_blocking(&extent).unwrap();
    let (pieces, said) = crate::dataset::heard::warnings(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(400));
                drop(held);
            });
            reader.read_blocking(&extent).unwrap()
        })
    });
    assert_eq!(&pieces[0], &sample.bytes[..48 << 10]);
    let waits: Vec<_> = said.iter().filter(|said| said.contains("waits for 48 KiB of memory")).collect();
    assert!(waits.len() == 1 && waits[0].contains("48 KiB of a budget of 64 KiB"), "{said:?}");
}

#[test]
fn ten_thousand_dropped_reads_write_nowhere_and_give_everything_back() {
    let sample = Sample::new(2 << 20);
    for engine in ENGINES {
        let chances = Chances { delay: 128, short: 60, short_align: 4096, eagain: 20, ..Chances::default() };
        let reader = builder(engine, Mode::Auto, chances, 11).budget(4 << 20).build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let arena = reader.arena().clone();
        // Every second grain is a canary, so that reads land between them.
        let mut canaries = Canaries::new(&arena, 256);
        let mut every_second = 0;
        canaries.0.retain(|_| {
            every_second += 1;
            every_second % 2 == 0
        });
        let held = arena.on_loan();
        let mut next = random(9);
        for round in 0..7_000_u64 {
            let len = 1 + next(60_000);
            let offset = next(file.len() - len);
            let mut read = reader.read(&[Extent::new(&file, offset, len)]);
            match next(4) {
                0 => drop(read),
                1 => {
                    // Polled once, then dropped while under way.
                    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                    let _ = std::future::Future::poll(std::pin::Pin::new(&mut read), &mut context);
                    drop(read);
                }
                2 => {
                    let pieces = read.wait().unwrap();
                    assert_eq!(&pieces[0], &sample.bytes[offset as usize..(offset + len) as usize]);
                }
                _ => {
                    std::thread::sleep(Duration::from_micros(next(300)));
                    drop(read);
                }
            }
            if round % 500 == 0 {
                canaries.check();
            }
        }
        drop(file);
        reader.close_blocking();
        canaries.check();
        assert_eq!(arena.on_loan(), held);
        drop(canaries);
        assert_eq!(arena.on_loan(), 0);
        // Other tests of this process open files meanwhile, but not this one.
        let opened = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let left = opened.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|path| path == sample.path)).count();
        assert_eq!(left, 0, "descriptors are left open");
    }
}

#[test]
fn a_reader_built_and_dropped_again_and_again_leaves_nothing() {
    let sample = Sample::new(100_000);
    for engine in ENGINES {
        let one = || {
            let reader = builder(engine, Mode::Auto, Chances::default(), 1).budget(1 << 20).build().unwrap();
            let file = reader.open(&sample.path).unwrap();
            let kept = reader.read(&[Extent::new(&file, 0, 50_000)]);
            drop(reader.read(&[Extent::new(&file, 0, 90_000)]));
            drop((kept, file, reader));
        };
        one();
        let (before, memory) = (open_descriptors(), resident());
        for _ in 0..100 {
            one();
        }
        // A hundred arenas of 1 MiB: what other tests of this process hold meanwhile is less than half of that.
        assert!(resident() < memory + (50 << 20), "{memory} bytes became {}", resident());
        // Other tests of this process open files meanwhile.
        assert!(open_descriptors() < before + 60, "{before} descriptors became {}", open_descriptors());
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Bytes of memory that this process has now.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
