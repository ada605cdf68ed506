//! Readers under faults that only a hook inside the engines can make. What needs no hook is tested from outside.

mod drops;
mod faults;
mod streams;
mod wakers;

use std::io::Write;
use std::path::{Path, PathBuf};

use super::engine::faults::{Chances, Faults};
use super::{EngineChoice, Extent, Mode, Reader, ReaderBuilder};

const ENGINES: [EngineChoice; 2] = [EngineChoice::Uring, EngineChoice::Pread];

/// A file whose bytes tell their offset, and its content.
struct Sample {
    _dir: tempfile::TempDir,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Sample {
    fn new(len: usize) -> Self {
        // Not in /tmp, which may be a tmpfs without direct reads.
        let dir = tempfile::tempdir_in(target_dir()).unwrap();
        let path = dir.path().join("sample");
        let bytes: Vec<u8> = (0..len).map(|i| (i ^ (i >> 7) ^ (i >> 15)) as u8).collect();
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        Self { _dir: dir, path, bytes }
    }
}

fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.parent().map(Path::to_path_buf).unwrap()
}

fn builder(engine: EngineChoice, mode: Mode, chances: Chances, seed: u64) -> ReaderBuilder {
    let mut builder = Reader::builder().engine(engine).mode(mode).budget(8 << 20).depth(8).chunk(64 << 10);
    builder.faults = Some(std::sync::Arc::new(Faults::new(chances, seed)));
    builder
}

/// A hang ends the test.
fn within_seconds(seconds: u64, work: impl FnOnce() + Send + 'static) {
    let (done, over) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    let over = over.recv_timeout(std::time::Duration::from_secs(seconds));
    assert_ne!(over, Err(std::sync::mpsc::RecvTimeoutError::Timeout), "it hangs");
    thread.join().unwrap();
}

/// Numbers that differ from seed to seed, and not from run to run.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    }
}

fn random_extents(file: &super::File, next: &mut impl FnMut(u64) -> u64) -> Vec<Extent> {
    (0..1 + next(30))
        .map(|_| {
            let offset = next(file.len());
            let len =
                if next(3) == 0 { next(file.len() - offset + 1) / 4 } else { next(3000).min(file.len() - offset) };
            Extent::new(file, offset, len)
        })
        .collect()
}
