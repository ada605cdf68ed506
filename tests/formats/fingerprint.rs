//! What a dataset is said to be: the same of the same files and settings, wherever they lie, and another of others.
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forebay::dataset::{Concat, DType, Dataset, Fingerprint, Format, Mixture, OpenOptions, Subset, open};

use crate::common::folder;

fn tokens(folder: &Path, name: &str, len: u64) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, vec![1; len as usize]).unwrap();
    path
}

fn windows(seq_len: u64) -> OpenOptions {
    OpenOptions::new().format(Format::Tokens).seq_len(seq_len)
}

fn print_of(paths: &[impl AsRef<Path>], options: &OpenOptions) -> Fingerprint {
    open(paths, options).unwrap().fingerprint()
}

/// All are other fingerprints, by comparison, in words and in one number.
fn assert_all_differ(prints: &[Fingerprint]) {
    for (i, one) in prints.iter().enumerate() {
        assert_eq!(one.difference(&one.clone()), None);
        for (j, other) in prints.iter().enumerate().filter(|(j, _)| *j != i) {
            assert_ne!(one, other, "{i} {j}");
            assert!(one.difference(other).is_some_and(|said| !said.is_empty()), "{i} {j}");
            assert_ne!(one.digest(), other.digest(), "{i} {j}");
        }
    }
}

#[test]
fn settings_that_make_other_samples_make_another_dataset() {
    let folder = folder();
    let paths = [tokens(folder.path(), "a.bin", 4000), tokens(folder.path(), "b.bin", 4000)];
    let turned = [&paths[1], &paths[0]];
    let records = |bytes| OpenOptions::new().format(Format::Records).record_bytes(bytes);
    assert_all_differ(&[
        print_of(&paths, &windows(10)),
        print_of(&paths, &windows(20)),
        print_of(&paths, &windows(10).stride(1)),
        print_of(&paths, &windows(10).dtype(DType::U8)),
        print_of(&paths, &windows(10).dtype(DType::U32)),
        print_of(&paths[..1], &windows(10)),
        print_of(&turned, &windows(10)),
        print_of(&[&paths[0], &paths[0]], &windows(10)),
        print_of(&paths, &records(4)),
        print_of(&paths, &records(8)),
        print_of(&paths, &records(8).dtype(DType::F32)),
    ]);
    // What is said and what would be taken anyhow.
    assert_eq!(print_of(&paths, &windows(10)), print_of(&paths, &windows(10).stride(10).dtype(DType::U16)));
}

#[test]
fn a_moved_dataset_is_the_same_and_a_touched_or_longer_one_is_not() {
    let folder = folder();
    let [here, there] = ["here", "there"].map(|name| folder.path().join(name));
    fs::create_dir(&here).unwrap();
    let path = tokens(&here, "a.bin", 4000);
    tokens(&here, "b.bin", 4000);
    let before = print_of(&[&here], &windows(10));
    fs::rename(&here, &there).unwrap();
    assert_eq!(print_of(&[&there], &windows(10)), before);
    fs::rename(&there, &here).unwrap();
    fs::rename(&path, here.join("a2.bin")).unwrap();
    let renamed = print_of(&[&here], &windows(10));
    fs::rename(here.join("a2.bin"), &path).unwrap();
    assert_eq!(print_of(&[&here], &windows(10)), before);
    let earlier = SystemTime::now() - Duration::from_secs(1000);
    fs::File::options().write(true).open(&path).unwrap().set_modified(earlier).unwrap();
    let touched = print_of(&[&here], &windows(10));
    tokens(&here, "a.bin", 4020);
    let longer = print_of(&[&here], &windows(10));
    assert_all_differ(&[before, renamed, touched, longer]);
}

#[test]
fn an_index_beside_a_shard_is_no_part_of_a_dataset() {
    let folder = folder();
    fs::write(folder.path().join("a.tar"), [0; 1024]).unwrap();
    let options = OpenOptions::new();
    let before = print_of(&[folder.path()], &options);
    for _ in 0..2 {
        assert_eq!(print_of(&[folder.path()], &options.clone().keep_index(true)), before);
    }
    assert!(folder.path().join("a.tar.forebay-index").exists());
    assert_eq!(print_of(&[folder.path()], &options), before);
}

#[test]
fn datasets_made_of_the_same_otherwise_are_others() {
    let folder = folder();
    let child = |name| -> Arc<dyn Dataset> { open(&[tokens(folder.path(), name, 4000)], &windows(10)).unwrap().into() };
    let [a, b] = ["a.bin", "b.bin"].map(child);
    let mixture = |parts: [(&Arc<dyn Dataset>, f64); 2], len| {
        let parts = parts.map(|(dataset, weight)| (Arc::clone(dataset), weight));
        Mixture::new(parts.into(), len).unwrap().fingerprint()
    };
    let concat = |parts: &[&Arc<dyn Dataset>]| {
        Arc::new(Concat::new(parts.iter().map(|&it| Arc::clone(it)).collect()).unwrap()) as Arc<dyn Dataset>
    };
    let slice = |range, step| Subset::slice(Arc::clone(&a), range, step).unwrap().fingerprint();
    assert_all_differ(&[
        a.fingerprint(),
        concat(&[&a]).fingerprint(),
        concat(&[&a, &b]).fingerprint(),
        concat(&[&b, &a]).fingerprint(),
        concat(&[&a, &a]).fingerprint(),
        concat(&[&concat(&[&a, &b]), &a]).fingerprint(),
        concat(&[&a, &concat(&[&b, &a])]).fingerprint(),
        mixture([(&a, 1.0), (&b, 2.0)], 100),
        mixture([(&a, 2.0), (&b, 1.0)], 100),
        mixture([(&b, 1.0), (&a, 2.0)], 100),
        mixture([(&a, 1.0), (&b, 2.0)], 101),
        slice(0..10, 1),
        slice(0..10, 2),
        slice(1..11, 1),
        Subset::new(Arc::clone(&a), vec![1, 2, 3]).unwrap().fingerprint(),
        Subset::new(Arc::clone(&a), vec![1, 3, 2]).unwrap().fingerprint(),
    ]);
    assert_eq!(mixture([(&a, 1.0), (&b, 2.0)], 100), mixture([(&a, 0.5), (&b, 1.0)], 100));
}
