//! Names of the result: what is there already is not touched unless that is asked for, and then only when all is whole.
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use forebay::dataset::{DType, SampleSpec};
use forebay::pack::{PackError, PackOptions, pack};

use crate::common::folder;
use crate::made::{Made, sample, tensor, uniform, varying};
use crate::oracle;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_there_is_refused_by_name_and_untouched() {
    let (source, out) = (folder(), folder());
    let made = Made::new(source.path(), &varying(9, 50));
    let file = out.path().join("x.safetensors");
    for write in [|path: &Path| fs::write(path, "mine").unwrap(), |path: &Path| symlink("nowhere", path).unwrap()] {
        write(&file);
        let before = fs::symlink_metadata(&file).unwrap();
        let error = pack(&made, &file, &PackOptions::new()).unwrap_err();
        assert!(matches!(&error, PackError::Exists { paths } if *paths == [file.clone()]), "{error}");
        assert!(error.to_string().contains("x.safetensors"), "{error}");
        assert_eq!(fs::symlink_metadata(&file).unwrap().modified().unwrap(), before.modified().unwrap());
        assert_eq!(names(out.path()), ["x.safetensors"]);
        fs::remove_file(&file).unwrap();
    }
    // A shard of an earlier pack would be read with the new ones, also where none of those has its name.
    let shards = out.path().join("shards");
    fs::create_dir(&shards).unwrap();
    for number in [0, 3, 7, 8, 9] {
        fs::write(shards.join(format!("shard-{number:06}.safetensors")), "mine").unwrap();
    }
    let error = pack(&made, &shards, &PackOptions::new()).unwrap_err().to_string();
    assert!(error.contains("shard-000003.safetensors") && error.contains("2 more"), "{error}");
    assert_eq!(names(&shards).len(), 5);
}

#[test]
fn a_folder_that_the_dataset_lies_in_is_refused() {
    let source = folder();
    let made = Made::new(source.path(), &uniform(3));
    for out in [
        source.path().to_owned(),
        source.path().join("."),
        source.path().join("../").join(source.path().file_name().unwrap()),
    ] {
        let error = pack(&made, &out, &PackOptions::new()).unwrap_err().to_string();
        assert!(error.contains("of the dataset lies in this folder"), "{error}");
    }
    assert_eq!(names(source.path()), ["one.data", "two.data"]);
    assert!(pack(&made, &source.path().join("packed"), &PackOptions::new()).is_ok());
}

#[test]
fn overwriting_replaces_an_earlier_pack_and_nothing_else() {
    let (source, out) = (folder(), folder());
    let (first, second) = (uniform(30), varying(20, 70));
    let packed = pack(&Made::new(source.path(), &first), out.path(), &PackOptions::new().shard_bytes(200)).unwrap();
    assert!(packed.files.len() > 10);
    fs::write(out.path().join("shard-x.safetensors"), "another's").unwrap();
    fs::write(out.path().join("notes"), "another's").unwrap();
    let made = Made::new(source.path(), &second);
    let packed = pack(&made, out.path(), &PackOptions::new().overwrite(true)).unwrap();
    assert_eq!(names(out.path()), ["notes", "shard-000000.safetensors", "shard-x.safetensors"]);
    assert_eq!(oracle::of_files(&packed), oracle::singles(&second));
}

#[test]
fn a_dataset_can_be_packed_over_itself() {
    let out = folder();
    let samples = [sample("0", [tensor("x", DType::F32, &[3000], 5)])];
    let made = Made::new(out.path(), &samples);
    let path = out.path().join("one.safetensors");
    fs::rename(out.path().join("one.data"), &path).unwrap();
    fs::copy(&path, out.path().join("one.data")).unwrap();
    let files = [&path, &out.path().join("two.data")].map(|path| forebay::dataset::DataFile::new(path).unwrap());
    let made = Made { files: files.into(), ..made };
    let options = PackOptions::new().overwrite(true);
    pack(&made, &path, &options).unwrap();
    assert_eq!(oracle::of_file(&path), oracle::rows(&samples));
    // Now its file is another one.
    let error = pack(&made, &out.path().join("two.safetensors"), &options).unwrap_err().to_string();
    assert!(error.contains("one.safetensors") && error.contains("again"), "{error}");
}

#[test]
fn one_file_that_would_be_several_is_refused_before_anything_is_written() {
    let (source, out) = (folder(), folder());
    for samples in [uniform(10), varying(10, 50)] {
        let made = Made::new(source.path(), &samples);
        let path = out.path().join("x.safetensors");
        let error = pack(&made, &path, &PackOptions::new().shard_bytes(100)).unwrap_err().to_string();
        assert!(error.contains("x.safetensors") && error.contains("one was asked for"), "{error}");
        assert!(names(out.path()).is_empty());
        pack(&made, &path, &PackOptions::new().shard_bytes(10_000)).unwrap();
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn places_that_cannot_be_written_are_errors_with_their_names() {
    let (source, out) = (folder(), folder());
    let made = Made::new(source.path(), &varying(9, 50));
    fs::write(out.path().join("file"), "").unwrap();
    fs::create_dir(out.path().join("dir.safetensors")).unwrap();
    for (to, named) in [
        ("file", "file"),
        ("dir.safetensors", "dir.safetensors"),
        ("no/x.safetensors", "x.safetensors"),
        ("file/x", "x"),
    ] {
        for overwrite in [false, true] {
            let error = pack(&made, &out.path().join(to), &PackOptions::new().overwrite(overwrite)).unwrap_err();
            assert!(error.to_string().contains(named) && error.to_string().contains("; "), "{to}: {error}");
        }
    }
    assert_eq!(names(out.path()), ["dir.safetensors", "file"]);
}

#[test]
fn settings_without_sense_are_refused() {
    let (source, out) = (folder(), folder());
    let made = Made::new(source.path(), &varying(9, 50));
    for options in [PackOptions::new().shard_bytes(0), PackOptions::new().metadata("forebay.layout", "mine")] {
        assert!(matches!(pack(&made, out.path(), &options), Err(PackError::Setting { .. })));
    }
    assert!(names(out.path()).is_empty());
}

#[test]
fn a_dataset_that_lies_leaves_nothing() {
    let (source, out) = (folder(), folder());
    let lies: [fn(&mut Made); 5] = [
        |made| spoil(made, |range| range.file = 9),
        |made| spoil(made, |range| range.offset = u64::MAX - 3),
        |made| spoil(made, |range| range.offset = 1 << 40),
        |made| spoil(made, |range| range.len += 1),
        |made| made.files[0] = forebay::dataset::DataFile::new(made.files[1].path()).unwrap(),
    ];
    for (i, lie) in lies.into_iter().enumerate() {
        for samples in [uniform(9), varying(9, 900)] {
            let mut made = Made::new(source.path(), &samples);
            lie(&mut made);
            match pack(&made, &out.path().join("x"), &PackOptions::new()) {
                Err(error) => assert!(error.to_string().contains("; "), "{error}"),
                // The wrong file, where it is long enough: nobody can tell.
                Ok(_) => {
                    assert_eq!(i, 4);
                    fs::remove_dir_all(out.path().join("x")).unwrap();
                }
            }
            assert!(names(out.path()).is_empty(), "lie {i}");
        }
    }
}

/// Changes the last place of the last sample that has bytes.
fn spoil(made: &mut Made, change: impl Fn(&mut forebay::dataset::FileRange)) {
    let (_, sample) = made.samples.last_mut().unwrap();
    let mut spoilt = SampleSpec::new();
    let count = sample.tensors().len();
    for (i, (tensor, ranges)) in sample.fields().enumerate() {
        let mut ranges = ranges.to_vec();
        if i + 1 == count || count == 1 {
            change(ranges.iter_mut().rfind(|range| range.len > 0).unwrap());
        }
        spoilt.push(tensor.clone(), ranges);
    }
    *sample = spoilt;
}

#[test]
fn a_source_that_changes_leaves_nothing() {
    let (source, out) = (folder(), folder());
    let made = Made::new(source.path(), &varying(9, 900));
    fs::write(source.path().join("two.data"), "short").unwrap();
    let error = pack(&made, &out.path().join("x"), &PackOptions::new()).unwrap_err().to_string();
    assert!(error.contains("two.data"), "{error}");
    assert!(names(out.path()).is_empty());
}

#[test]
fn a_slash_at_the_end_says_folder_and_a_link_to_nowhere_is_named() {
    let (source, out) = (folder(), folder());
    let made = Made::new(source.path(), &uniform(3));
    let path = out.path().join("x.safetensors/");
    let packed = pack(&made, &path, &PackOptions::new()).unwrap();
    assert_eq!(packed.files[0].path, path.join("shard-000000.safetensors"));
    symlink("nowhere", out.path().join("link")).unwrap();
    let said = pack(&made, &out.path().join("link"), &PackOptions::new()).unwrap_err().to_string();
    assert!(said.contains("link") && said.contains("leads nowhere"), "{said}");
}

#[test]
fn folders_that_were_made_go_with_a_pack_that_fails() {
    let (source, out) = (folder(), folder());
    let made = Made::new(source.path(), &uniform(3));
    fs::write(made.files[0].path(), "shorter").unwrap();
    pack(&made, &out.path().join("a/b/c"), &PackOptions::new()).unwrap_err();
    assert_eq!(names(out.path()), [""; 0]);
}

/// A file of a hundred bytes that says it has 2^62 rows of nothing.
#[test]
fn rows_of_nothing_without_end_are_refused() {
    let (source, out) = (folder(), folder());
    let path = source.path().join("x.npy");
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({}, 0), }}", 1_u64 << 62);
    let bytes = [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat();
    fs::write(&path, bytes).unwrap();
    let npy = forebay::dataset::Npy::open(&[path]).unwrap();
    // All of them would be more than anybody waits for; the command's rule is how many are looked at.
    let said = pack(&npy, &out.path().join("x.safetensors"), &PackOptions::new()).unwrap_err().to_string();
    assert!(said.contains("have no bytes"), "{said}");
    assert_eq!(names(out.path()), [""; 0]);
}
