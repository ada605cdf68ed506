//! Settings that were saved for what data lies on: who asks for them reads by them, and who does not, does not.
mod common;

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::folder;
use common::watchdog::eventually;
use common::weights::{self, Tensor};
use forebay::checkpoint::{self, CheckpointError, LoadOptions};
use forebay::dataset::{DType, Records, TensorSpec};
use forebay::tuning::{Key, Profile, Profiles};
use forebay::{Device, EngineKind, Error, Loader, Reader, ReaderSettings};
use safetensors::tensor::Dtype;

/// Whose settings the child reads; a test's own process has its user's.
const CHILD: &str = "FOREBAY_TUNING_CHILD";
const THREADS: u32 = 3;

#[test]
fn who_asks_for_what_was_saved_reads_by_it() {
    if env::var_os(CHILD).is_some() {
        return child();
    }
    let home = folder();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "who_asks_for_what_was_saved_reads_by_it", "--nocapture"]);
    let output = command.env(CHILD, "1").env("XDG_CONFIG_HOME", home.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn child() {
    let (folder, host) = (folder(), Device::host());
    let data = folder.path().join("records.bin");
    fs::write(&data, vec![7; 64 * 4096]).unwrap();
    let model = weights::write(folder.path(), "model.safetensors", &[Tensor::new("w", Dtype::U8, &[1 << 20], 1)]);
    let usual = Reader::builder().budget(1 << 20).build().unwrap().engine();

    assert_eq!(read_by(&data, &host, true).unwrap(), usual, "nothing was saved yet");
    let mut settings = ReaderSettings::DEFAULT;
    (settings.engine, settings.depth) = (EngineKind::Pread, THREADS);
    let profiles = Profiles::usual().unwrap();
    let saved = profiles.save(&Profile::new(Key::of(&data, &host).unwrap(), settings, "random")).unwrap();

    assert_eq!(read_by(&data, &host, true).unwrap(), EngineKind::Pread);
    assert_eq!(read_by(&data, &host, false).unwrap(), usual);
    assert_eq!(loaded_by(&model, &host, LoadOptions::new().tuned()).unwrap(), THREADS as usize);
    assert_ne!(loaded_by(&model, &host, LoadOptions::new()).unwrap(), THREADS as usize);
    let reader = Reader::builder().tuned(folder.path(), &host).unwrap().budget(1 << 20);
    assert_eq!(reader.clone().build().unwrap().engine(), EngineKind::Pread);

    fs::write(&saved, b"{}").unwrap();
    assert!(matches!(read_by(&data, &host, true), Err(Error::Tuning(_))));
    assert!(matches!(loaded_by(&model, &host, LoadOptions::new().tuned()), Err(CheckpointError::Tuning(_))));
    assert!(Reader::builder().tuned(&data, &host).is_err());
    assert_eq!(read_by(&data, &host, false).unwrap(), usual, "who does not ask does not look");
}

/// By which engine a loader reads.
fn read_by(data: &Path, device: &Device, tuned: bool) -> Result<EngineKind, Error> {
    let records = Records::open(&[data], TensorSpec::new("record", DType::U8, [4096]))?;
    let builder = Loader::builder(records).device(device).budget(8 << 20);
    let mut loader = if tuned { builder.tuned() } else { builder }.build()?;
    let batch = loader.blocking().next().unwrap()?;
    assert_eq!(batch.bytes(), 32 * 4096);
    Ok(loader.engine())
}

/// How many threads of the pool a checkpoint is loaded by.
fn loaded_by(model: &Path, device: &Device, options: LoadOptions) -> Result<usize, CheckpointError> {
    // Threads of a reader before that have ended are listed for a moment more.
    assert!(eventually(|| threads_of_the_pool() == 0));
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let options = options.progress(move |_| {
        seen.fetch_max(threads_of_the_pool(), Ordering::Relaxed);
    });
    checkpoint::load(model, device, &options)?;
    Ok(most.load(Ordering::Relaxed))
}

fn threads_of_the_pool() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("forebay-pread")).count()
}
