//! Odd names work, and those that cannot be kept are refused by name.
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use forebay::dataset::{DType, Dataset, StoredTensor};
use forebay::pack::{PackOptions, pack, pack_tensors};

use crate::common::folder;
use crate::common::python::Python;
use crate::made::{Made, Sample, sample, tensor, varying};
use crate::oracle;

const ODD: [&str; 11] = [
    "a\"b",
    "back\\slash",
    "größe",
    "名前",
    "../x",
    "/etc/passwd",
    "new\nline",
    "\u{1}\u{7f}",
    " ",
    "emoji 🦀",
    "a/b/c",
];

fn error(samples: &[Sample]) -> String {
    let (source, out) = (folder(), folder());
    let to = out.path().join("packed");
    let error = pack(&Made::new(source.path(), samples), &to, &PackOptions::new()).unwrap_err().to_string();
    assert!(!to.exists(), "nothing is made where nothing can be packed");
    assert!(!error.contains('\n') && error.contains("; "), "{error}");
    error
}

#[test]
fn odd_names_of_samples_and_fields_are_kept_and_touch_nothing() {
    let (source, out) = (folder(), folder());
    let rows: Vec<_> = (0..3)
        .map(|i| {
            sample(i, ODD.iter().map(|name| tensor(name, DType::I16, &[2], i)).chain([tensor("", DType::U8, &[], i)]))
        })
        .collect();
    let singles: Vec<_> = ODD
        .iter()
        .zip(0..)
        .map(|(id, i)| sample(id, [tensor("seg.x", DType::U8, &[i], i), tensor("\"", DType::U8, &[1], i)]))
        .collect();
    for (i, samples) in [&rows, &singles].into_iter().enumerate() {
        let path = out.path().join(format!("{i}.safetensors"));
        pack(&Made::new(source.path(), samples), &path, &PackOptions::new()).unwrap();
        let expected = if i == 0 { oracle::rows(samples) } else { oracle::singles(samples) };
        assert_eq!(oracle::of_file(&path), expected);
        if let Ok(python) = Python::with(&["safetensors"]) {
            assert_eq!(oracle::of_file_in_python(&python, &path), expected);
        }
    }
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 2);
}

#[test]
fn names_that_come_twice_are_refused() {
    let mut samples = varying(30, 20);
    samples[29].0 = "000007".into();
    let said = error(&samples);
    assert!(said.contains("sample 29") && said.contains("\"000007.jpg\""), "{said}");
    // Two fields of one sample, whatever the others are.
    let twice = || [tensor("a", DType::U8, &[1], 0), tensor("a", DType::U8, &[1], 1)];
    let said = error(&[sample("x", twice()), sample("y", twice())]);
    assert!(said.contains("sample 0") && said.contains("\"a\""), "{said}");
    let said = error(&[sample("x", [tensor("a", DType::U8, &[1], 0)]), sample("y", twice())]);
    assert!(said.contains("sample 1") && said.contains("\"y.a\""), "{said}");
}

#[test]
fn names_that_would_be_split_elsewhere_are_refused() {
    for (id, field) in [("a.b", "c"), ("", "c"), ("x.y/", "c"), ("a", "b/c"), (".hidden", "x")] {
        let good = sample("good", [tensor("x", DType::U8, &[1], 0)]);
        let said = error(&[good, sample(id, [tensor(field, DType::U8, &[2], 0)])]);
        let name = format!("{:?}", format!("{id}.{field}"));
        assert!(said.starts_with(&format!("sample 1 ({id:?}): {name} ")), "{said}");
    }
    // The dot before a slash is one of the folder's.
    let (source, out) = (folder(), folder());
    let samples = [("v1.0/a", 1), ("v1.0/b", 2)].map(|(id, len)| sample(id, [tensor("b.c", DType::U8, &[len], 0)]));
    let packed = pack(&Made::new(source.path(), &samples), out.path(), &PackOptions::new()).unwrap();
    assert_eq!(oracle::of_files(&packed), oracle::singles(&samples));
}

#[test]
fn the_name_of_the_metadata_is_no_tensors() {
    let fields = || [tensor("__metadata__", DType::U8, &[1], 0)];
    assert!(error(&[sample(0, fields()), sample(1, fields())]).contains("__metadata__"));
    let source = folder();
    let made = Made::scattered(source.path(), &[sample(0, fields())], 1);
    let spec = made.sample(0).unwrap();
    let stored = StoredTensor { spec: spec.tensors()[0].clone(), range: spec.ranges()[0] };
    for (tensors, what) in [(vec![stored.clone()], "__metadata__"), (vec![], "no tensors")] {
        let tensors = Box::new(tensors.into_iter().map(Ok));
        let error = pack_tensors(&made, tensors, &source.path().join("out"), &PackOptions::new()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
    let mut renamed = stored;
    renamed.spec.name = "t".into();
    let twice = Box::new([renamed.clone(), renamed].into_iter().map(Ok));
    let error = pack_tensors(&made, twice, &source.path().join("out"), &PackOptions::new()).unwrap_err();
    assert!(error.to_string().starts_with("tensor \"t\": "), "{error}");
}

#[test]
fn nothing_to_pack_is_an_error() {
    assert!(error(&[]).contains("no samples"));
    assert!(error(&[sample("a", [])]).contains("no tensors"));
    assert!(error(&[sample("a", [tensor("x", DType::U8, &[1], 0)]), sample("b", [])]).contains("sample 1 (\"b\")"));
}

#[test]
fn folders_and_files_of_any_bytes_work() {
    let (source, out) = (folder(), folder());
    let samples = varying(9, 50);
    for name in [&b"f\xff\xfe"[..], b"\xe9.safetensors", b".safetensors", b"two\nlines", b"--overwrite"] {
        let to = out.path().join(OsStr::from_bytes(name));
        let packed = pack(&Made::new(source.path(), &samples), &to, &PackOptions::new()).unwrap();
        assert!(packed.files[0].path.starts_with(&to));
        assert_eq!(oracle::of_files(&packed), oracle::singles(&samples));
    }
}
