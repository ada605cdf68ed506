//! Files that change, and files that are not what they should be: an error that names them, and never other bytes.
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay::checkpoint::{LoadOptions, Progress, load};
use forebay::{Carrier, Device};
use safetensors::Dtype;

use crate::common::Rng;
use crate::common::weights::{Tensor, serialize};
use crate::model::{Model, check, mixed};
use crate::shares;

/// Changes the files when their headers have been read and nothing else has.
fn changed_meanwhile(change: impl Fn(&Path) + Send + Sync + 'static) -> (PathBuf, String) {
    let model = Model::of(&[mixed("a.", 2), mixed("b.", 3)]);
    let (path, once) = (model.files[1].clone(), AtomicBool::new(false));
    let options = LoadOptions::new().filter(move |_| {
        if !once.swap(true, Ordering::Relaxed) {
            change(&path);
        }
        true
    });
    let error = load(model.path(), &Device::host(), &options).unwrap_err();
    (model.files[1].clone(), error.to_string())
}

#[test]
fn a_file_that_changes_between_its_header_and_its_data_is_an_error() {
    let rewrite = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        fs::write(path, bytes).unwrap();
    };
    let truncate = |path: &Path| fs::File::options().write(true).open(path).unwrap().set_len(5000).unwrap();
    let replace = |path: &Path| {
        let other = path.with_extension("new");
        fs::write(&other, serialize(&mixed("b.", 9))).unwrap();
        fs::rename(other, path).unwrap();
    };
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    type Change = Box<dyn Fn(&Path) + Send + Sync>;
    let changes: [(&str, Change); 4] = [
        ("rewrite", Box::new(rewrite)),
        ("truncate", Box::new(truncate)),
        ("replace", Box::new(replace)),
        ("remove", Box::new(remove)),
    ];
    for (what, change) in changes {
        let (path, said) = changed_meanwhile(change);
        assert!(said.starts_with(&path.display().to_string()), "{what}: {said}");
    }
}

/// Whenever it happens: either all was there before, or it is an error.
#[test]
fn a_file_that_is_cut_during_the_load_is_an_error_or_was_loaded_whole() {
    let of = |name: &str, seed| vec![Tensor::new(name, Dtype::U8, &[3 << 20], seed)];
    let files: Vec<Vec<Tensor>> = (0..8).map(|i| of(&format!("t{i}"), i)).collect();
    let bytes = serialize(&files[5]);
    let model = Model::of(&files);
    let oracle = model.oracle();
    let mut rng = Rng::new(5);
    let (mut refused, mut loaded) = (0, 0);
    for _ in 0..30 {
        fs::write(&model.files[5], &bytes).unwrap();
        fs::File::open(&model.files[5]).unwrap().sync_all().unwrap();
        model.files.iter().for_each(|file| crate::common::data::drop_cache(file).unwrap());
        let (path, after) = (model.files[5].clone(), Duration::from_micros(rng.below(30_000)));
        let keep = rng.below(bytes.len() as u64);
        let cutter = std::thread::spawn(move || {
            std::thread::sleep(after);
            fs::File::options().write(true).open(path).unwrap().set_len(keep).unwrap();
        });
        match load(model.path(), &Device::host(), &LoadOptions::new()) {
            Ok(whole) => {
                check(&whole, &oracle);
                loaded += 1;
            }
            Err(error) => {
                let said = error.to_string();
                assert!(said.starts_with(&model.files[5].display().to_string()), "{said}");
                refused += 1;
            }
        }
        cutter.join().unwrap();
    }
    eprintln!("{refused} refused, {loaded} loaded before they were cut");
}

#[test]
fn one_broken_file_of_many_is_named_and_nothing_is_read() {
    let model = Model::of(&[mixed("a.", 2), mixed("b.", 3), mixed("c.", 4)]);
    let bytes = fs::read(&model.files[2]).unwrap();
    fs::write(&model.files[2], &bytes[..bytes.len() - 1]).unwrap();
    let carrier = Carrier::builder().device(&Device::host()).budget(8 << 20).build().unwrap();
    let error = load(model.path(), &Device::host(), &LoadOptions::new().with(&carrier)).unwrap_err().to_string();
    assert!(error.starts_with(&model.files[2].display().to_string()), "{error}");
    assert_eq!(carrier.reader().stats().answers, 0);
}

#[test]
fn progress_only_grows_and_ends_with_all() {
    let model = shares::divisible();
    let whole: u64 = model.oracle().iter().map(|seen| seen.3.len() as u64).sum();
    let share: u64 = shares::wanted(&model.oracle(), 2, 0, 2).iter().map(|seen| seen.3.len() as u64).sum();
    for (options, total) in
        [(LoadOptions::new(), whole), (shares::options(2, 0, 2), share), (LoadOptions::new().names(["none"]), 0)]
    {
        let told = Arc::new(Mutex::new(Vec::<Progress>::new()));
        let thread = std::thread::current().id();
        let tell = Arc::clone(&told);
        let options = options.progress(move |progress| {
            assert_eq!(std::thread::current().id(), thread);
            tell.lock().unwrap().push(progress);
        });
        load(model.path(), &Device::host(), &options).unwrap();
        let told = told.lock().unwrap();
        assert!(
            told.is_sorted_by_key(|progress| progress.bytes) && told.iter().all(|progress| progress.total == total)
        );
        assert_eq!(told.last().map(|progress| progress.bytes), Some(total));
    }
}
