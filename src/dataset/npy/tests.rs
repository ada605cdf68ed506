use std::fs;

use super::*;
use crate::dataset::error::DatasetFault;
use crate::dataset::mutants::{assert_damage_is_survived, assert_no_beginning_opens, assert_sound};

/// A file of numpy's: the oracle for what is written here is in tests/formats/npy.rs.
pub(crate) fn npy(version: u8, dictionary: &str, data: &[u8]) -> Vec<u8> {
    let mut file = b"\x93NUMPY".to_vec();
    file.extend([version, 0]);
    let before = if version == 1 { 10 } else { 12 };
    let padding = 63 - (before + dictionary.len()) % 64;
    let header = format!("{dictionary}{:padding$}\n", "");
    match version {
        1 => file.extend((header.len() as u16).to_le_bytes()),
        _ => file.extend((header.len() as u32).to_le_bytes()),
    }
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

pub(crate) fn dictionary(descr: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}")
}

fn opened(bytes: &[u8]) -> Result<Npy, DatasetError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array.npy");
    fs::write(&path, bytes).unwrap();
    Npy::open(&[path])
}

fn refused(bytes: &[u8]) -> (Option<u64>, String) {
    let error = opened(bytes).expect_err("it must not open");
    (error.offset, error.fault.to_string())
}

#[test]
fn a_sample_is_a_row() {
    let npy = opened(&npy(1, &dictionary("<i2", "(3, 2)"), &[0; 12])).unwrap();
    assert_eq!(npy.len(), 3);
    let sample = npy.sample(2).unwrap();
    assert_eq!(sample.tensors(), [TensorSpec::new("array", crate::dataset::DType::I16, [2])]);
    assert_eq!(sample.ranges(), [FileRange { file: 0, offset: 128 + 8, len: 4 }]);
    let stored: Vec<_> = npy.stored().map(Result::unwrap).collect();
    assert_eq!(stored[0].spec, TensorSpec::new("array", crate::dataset::DType::I16, [3, 2]));
    assert_eq!(stored[0].range, FileRange { file: 0, offset: 128, len: 12 });
    assert_sound(&npy);
}

#[test]
fn rows_go_on_over_files_that_are_alike() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let paths = [
        write("a.npy", &npy(1, &dictionary("|u1", "(2, 3)"), &[0; 6])),
        write("b.npy", &npy(2, &dictionary("|u1", "(0, 3)"), &[])),
        write("c.npy", &npy(3, &dictionary("|u1", "(1, 3)"), &[0; 3])),
    ];
    let npy = Npy::open(&paths).unwrap();
    assert_eq!(npy.len(), 3);
    assert_eq!(npy.sample(2).unwrap().ranges(), [FileRange { file: 2, offset: 128, len: 3 }]);
    assert_eq!(&*npy.sample(2).unwrap().tensors()[0].name, "data");
    assert_sound(&npy);

    let other = write("d.npy", &super::tests::npy(1, &dictionary("|i1", "(1, 3)"), &[0; 3]));
    let error = Npy::open(&[paths[0].clone(), other.clone()]).unwrap_err();
    assert!(error.path == other && error.to_string().contains("a.npy"), "{error}");
}

#[test]
fn headers_may_not_claim_more_than_there_is() {
    // A header of nearly 4 GiB in a file of 14 bytes, and one of 64 KiB whose length is no negative number.
    let (_, said) = refused(b"\x93NUMPY\x02\x00\xf0\xff\xff\xff{}");
    assert!(said.contains("4294967280"), "{said}");
    let (_, said) = refused(b"\x93NUMPY\x01\x00\xf8\xff{}");
    assert!(said.contains("the header needs 65526 bytes more"), "{said}");

    for shape in ["(8589934592, 8589934592)", "(9223372036854775807,)", "(4, 9223372036854775807)"] {
        let (offset, said) = refused(&npy(1, &dictionary("<f8", shape), &[0; 8]));
        assert!(offset.is_some() && (said.contains("counted") || said.contains("more than the file has")), "{said}");
    }
    let (_, said) = refused(&npy(1, &dictionary("<f8", "(0, 9223372036854775807, 2)"), &[]));
    assert!(said.contains("rows of shape"), "{said}");
}

#[test]
fn a_file_ends_where_its_array_ends() {
    let mut bytes = npy(1, &dictionary("<f4", "(2,)"), &[0; 8]);
    bytes.push(0);
    assert_eq!(refused(&bytes).0, Some(136));
    let (offset, said) = refused(&bytes[..135]);
    assert_eq!(offset, Some(128));
    assert!(said.starts_with("the array needs 1 bytes more"), "{said}");
}

#[test]
fn fortran_order_is_taken_only_where_it_makes_no_difference() {
    let fortran = |shape: &str, len| {
        npy(1, &format!("{{'descr': '|u1', 'fortran_order': True, 'shape': {shape}}}"), &vec![0; len])
    };
    for (shape, len) in [("(5,)", 5), ("(1, 5, 1)", 5), ("(5, 1)", 5), ("(0, 3, 4)", 0), ("(1, 1)", 1)] {
        assert!(opened(&fortran(shape, len)).is_ok(), "{shape}");
    }
    for (shape, len) in [("(2, 3)", 6), ("(2, 1, 3)", 6)] {
        assert!(refused(&fortran(shape, len)).1.contains("ascontiguousarray"), "{shape}");
    }
}

#[test]
fn what_is_not_read_is_refused_with_what_to_do() {
    for (descr, advice) in [
        (">f4", "newbyteorder"),
        ("|O", "never unpickled"),
        ("<U3", "texts"),
        ("=f4", "order"),
        ("<c16", "complex"),
        ("<M8[ns]", "times"),
    ] {
        let (offset, said) = refused(&npy(1, &dictionary(descr, "(0,)"), &[]));
        assert!(said.contains(advice) && offset == Some(20), "{descr}: {said}");
    }
    let structured = "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (0,)}";
    assert!(refused(&npy(1, structured, &[])).1.contains("array['field']"));
    assert!(refused(&npy(1, &dictionary("<f4", "()"), &[0; 4])).1.contains("atleast_1d"));
    assert!(refused(b"\x93NUMPY\x04\x00\x76\x00").1.contains("version 4.0"));
    assert!(refused(b"\x93NUMPY\x01\x01\x76\x00").1.contains("version 1.1"));
    assert!(refused(b"PK\x03\x04").1.contains("a zip archive"));
    assert!(refused(b"\x93numpy").1.contains("no array"));
    let mut latin = npy(3, &dictionary("<f4", "(0,)"), &[]);
    latin[30] = 0xff;
    assert_eq!(refused(&latin).0, Some(30));
}

#[test]
fn a_scalar_has_a_header_though_it_is_no_dataset() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), npy(1, &dictionary("<f4", "()"), &[0; 4])).unwrap();
    let header = read_header(&Source::open(file.path()).unwrap(), "x").unwrap();
    assert_eq!((header.spec.shape.len(), header.spec.bytes(), header.data_offset), (0, Some(4), 128));
}

#[test]
fn no_beginning_of_a_file_opens() {
    for version in [1, 2, 3] {
        assert_no_beginning_opens(&npy(version, &dictionary("<f4", "(2, 3)"), &[1; 24]), "array.npy", Npy::open);
    }
}

#[test]
fn a_long_header_is_read_whole() {
    let padded = format!("{}{}", dictionary("<f4", "(1,)"), " ".repeat(3000));
    assert_eq!(opened(&npy(2, &padded, &[0; 4])).unwrap().sample(0).unwrap().ranges()[0].offset % 64, 0);
}

#[test]
fn damaged_files_are_refused_or_sound() {
    let sound: Vec<_> = [1, 2, 3].map(|version| npy(version, &dictionary("<i2", "(3, 2)"), &[7; 12])).into();
    assert_damage_is_survived(&sound, "array.npy", 3000, Npy::open);
}

#[test]
fn faults_are_of_the_kinds_that_callers_tell_apart() {
    let cut = opened(&npy(1, &dictionary("<f4", "(2,)"), &[0; 7])).unwrap_err();
    assert!(matches!(cut.fault, DatasetFault::Truncated { missing: 1, .. }));
    let big = opened(&npy(1, &dictionary(">f4", "(0,)"), &[])).unwrap_err();
    assert!(matches!(big.fault, DatasetFault::Unsupported { .. }));
}
