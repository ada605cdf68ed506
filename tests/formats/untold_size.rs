//! Files that have bytes though their size is told as 0, or as more than they have: an error, and never an empty dataset.
use std::path::{Path, PathBuf};

use forebay::dataset::{Corrupt, DType, DataFile, Records, Split, TensorSpec, TfRecord, Tokens};
use forebay::{Carrier, Device, EngineChoice, Reader, checkpoint};

use crate::common::folder;
use crate::common::fuse::{Fuse, Kind};
use crate::or_skip;

/// The error of each way that a file comes to be read, by name; `None` where there was none.
fn refusals(path: &Path) -> Vec<(&'static str, Option<String>)> {
    let record = || TensorSpec::new("x", DType::U8, [1]);
    let paths = [path.to_owned()];
    let said = |error: &dyn std::fmt::Display| error.to_string();
    vec![
        ("DataFile", DataFile::new(path).err().map(|it| said(&it))),
        ("records", Records::open(&paths, record()).err().map(|it| said(&it))),
        ("tokens", Tokens::open(&paths, None, Split::windows(1)).err().map(|it| said(&it))),
        ("tfrecord", TfRecord::open(&paths, Corrupt::Skip).err().map(|it| said(&it))),
        ("load", checkpoint::load(path, &Device::host(), &checkpoint::LoadOptions::new()).err().map(|it| said(&it))),
        ("Reader", {
            let reader = Reader::builder().budget(1 << 20).engine(EngineChoice::Pread).build().unwrap();
            reader.open(path).err().map(|it| said(&it))
        }),
        ("Carrier", {
            let carrier = Carrier::builder().device(&Device::host()).budget(1 << 20).build().unwrap();
            carrier.open(path).err().map(|it| said(&it))
        }),
    ]
}

fn all_refuse(path: &Path, words: &[&str]) {
    for (way, said) in refusals(path) {
        let said = said.unwrap_or_else(|| panic!("{way}: {} opened", path.display()));
        assert!(said.contains(path.to_str().unwrap()) && said.contains("; "), "{way}: {said}");
        assert!(words.iter().any(|word| said.contains(word)), "{way}: {said}");
    }
}

#[test]
fn a_file_of_a_server_that_does_not_know_its_size_is_refused() {
    let fuse = or_skip!(Fuse::mount(Kind::DirectIo));
    let path = fuse.add("untold", 5, 100_000);
    fuse.knobs.tell("untold", 0);
    // The oracle: what the file is to others.
    assert_eq!((std::fs::metadata(&path).unwrap().len(), std::fs::read(&path).unwrap().len()), (0, 100_000));
    all_refuse(&path, &["told as 0"]);
    let empty = fuse.add("empty", 5, 0);
    assert!(DataFile::new(empty).unwrap().is_empty());
}

#[test]
fn what_the_kernel_makes_up_is_no_data() {
    let made_up =
        ["/proc/version", "/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state"];
    for path in made_up.map(PathBuf::from) {
        if std::fs::read(&path).is_ok_and(|bytes| !bytes.is_empty()) {
            all_refuse(&path, &["kernel makes up"]);
        }
    }
}

#[test]
fn an_empty_file_is_an_empty_file() {
    let folder = folder();
    let path = crate::open::write(folder.path(), "empty", b"");
    assert!(DataFile::new(&path).unwrap().is_empty());
    let carrier = Carrier::builder().device(&Device::host()).budget(1 << 20).build().unwrap();
    assert!(carrier.open(&path).unwrap().is_empty());
}
