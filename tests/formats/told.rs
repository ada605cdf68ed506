//! Which format files are: as was said, else by content, else by name; and each with its settings.
use std::fs;
use std::path::{Path, PathBuf};

use forebay::dataset::{DType, DatasetFault, Format, OpenOptions, open, open_stored};

use crate::common::work::within;
use crate::open::{opened, refused, refused_with, safetensors, write};

/// An array of numpy's of four bytes, 1 to 4.
pub fn npy() -> Vec<u8> {
    let dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }";
    let header = format!("{dict:<117}\n");
    [b"\x93NUMPY\x01\0", &118_u16.to_le_bytes()[..], header.as_bytes(), &[1, 2, 3, 4]].concat()
}

/// A tar archive of these members.
pub fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, bytes) in members {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend(header);
        archive.extend_from_slice(bytes);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// TFRecords of these bytes.
pub fn tfrecord(records: &[&[u8]]) -> Vec<u8> {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let record = |bytes: &&[u8]| {
        let len = (bytes.len() as u64).to_le_bytes();
        [&len[..], &masked(&len), bytes, &masked(bytes)].concat()
    };
    records.iter().flat_map(record).collect()
}

/// A Megatron index of two documents, of 3 and 2 tokens of 16 bits.
pub fn megatron() -> Vec<u8> {
    let numbers = |numbers: &[u64], bytes: usize| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()[..bytes].to_vec()).collect()
    };
    [
        &b"MMIDIDX\0\0"[..],
        &numbers(&[1], 8),
        &[8],
        &numbers(&[2, 3], 8),
        &numbers(&[3, 2], 4),
        &numbers(&[0, 6], 8),
        &numbers(&[0, 1, 2], 8),
    ]
    .concat()
}

/// Tokens of llm.c's, five of them.
pub fn llm_c() -> Vec<u8> {
    let mut header = vec![0; 1024];
    for (i, number) in [20_240_520_u32, 1, 5].into_iter().enumerate() {
        header[4 * i..4 * i + 4].copy_from_slice(&number.to_le_bytes());
    }
    header.extend([7; 10]);
    header
}

#[test]
fn every_format_is_told_by_its_content_whatever_it_is_called() {
    let folder = crate::common::folder();
    let cases: [(Format, Vec<u8>, u64); 5] = [
        (Format::Safetensors, safetensors(b"abc"), 3),
        (Format::Npy, npy(), 4),
        (Format::WebDataset, tar(&[("0.a", b"1"), ("0.b", b"2"), ("1.a", b"3")]), 2),
        (Format::TfRecord, tfrecord(&[b"1", b"22", b"333"]), 3),
        (Format::Tokens, llm_c(), 2),
    ];
    for (format, bytes, samples) in cases {
        let options = match format {
            Format::Tokens => OpenOptions::new().seq_len(2),
            _ => OpenOptions::new(),
        };
        for name in ["x", "x.bin", "x.npy", "x.safetensors", "x.tar"] {
            let path = write(folder.path(), name, &bytes);
            let stored = open_stored(&[&path], &options).unwrap();
            assert_eq!((stored.format, stored.samples), (format, Some(samples)), "{name}");
            assert_eq!(open(&[&path], &options.clone().format(format)).unwrap().len(), samples);
        }
    }
}

#[test]
fn files_without_a_header_are_what_the_settings_say() {
    let folder = crate::common::folder();
    let raw = write(folder.path(), "train.bin", [9; 24]);
    let lens = |options: OpenOptions| {
        let dataset = open(&[&raw], &options).unwrap();
        assert_eq!(open(&[folder.path()], &options).unwrap().fingerprint(), dataset.fingerprint());
        let sample = dataset.sample(0).unwrap();
        (dataset.len(), sample.tensors()[0].dtype, sample.tensors()[0].shape.to_vec())
    };
    assert_eq!(lens(OpenOptions::new().record_bytes(8)), (3, DType::U8, vec![8]));
    assert_eq!(lens(OpenOptions::new().record_bytes(8).dtype(DType::F32)), (3, DType::F32, vec![2]));
    assert_eq!(lens(OpenOptions::new().seq_len(5)), (2, DType::U16, vec![6]));
    assert_eq!(lens(OpenOptions::new().seq_len(5).stride(1)), (7, DType::U16, vec![6]));
    assert_eq!(lens(OpenOptions::new().seq_len(5).dtype(DType::U32)), (1, DType::U32, vec![6]));
    // What a sample is must be said, even where the format is.
    for format in [Format::Records, Format::Tokens] {
        refused_with(&[&raw], &OpenOptions::new().format(format), &["train.bin", "is not said"]);
    }
    refused_with(&[&raw], &OpenOptions::new().record_bytes(3).dtype(DType::F32), &["3 bytes", "F32"]);
    refused_with(&[&raw], &OpenOptions::new().format(Format::Tokens).stride(4), &["stride"]);
    // To be listed they need be no samples.
    let stored = open_stored(&[&raw], &OpenOptions::new().format(Format::Tokens)).unwrap();
    assert_eq!((stored.samples, stored.dataset.stored().count()), (None, 1));
}

#[test]
fn tokens_with_an_index_are_read_by_it_by_either_name_or_by_the_folder() {
    let folder = crate::common::folder();
    let idx = write(folder.path(), "text.idx", megatron());
    let bin = write(folder.path(), "text.bin", [1; 10]);
    let paths: [Vec<&Path>; 4] = [vec![&idx], vec![&bin], vec![&bin, &idx], vec![folder.path()]];
    for paths in paths {
        let stored = open_stored(&paths, &OpenOptions::new()).unwrap();
        assert_eq!((stored.format, stored.samples), (Format::Megatron, Some(2)), "{paths:?}");
        assert_eq!(open(&paths, &OpenOptions::new().seq_len(2)).unwrap().len(), 2);
        assert_eq!(open(&paths, &OpenOptions::new().documents(true)).unwrap().len(), 2);
    }
    // As something else only where that is said.
    assert_eq!(open(&[&bin], &OpenOptions::new().format(Format::Tokens).seq_len(1)).unwrap().len(), 4);
    assert_eq!(open(&[&bin], &OpenOptions::new().record_bytes(5)).unwrap().len(), 2);
    // An index that other tools keep beside their files is none of these.
    let folder = crate::common::folder();
    write(folder.path(), "a.tar", tar(&[("0.a", b"1")]));
    write(folder.path(), "a.idx", "anything");
    assert_eq!(opened(&[folder.path()]).len(), 1);
}

#[test]
fn an_index_is_kept_beside_a_tar_file_where_that_is_asked_for() {
    let folder = crate::common::folder();
    let path = write(folder.path(), "a.tar", tar(&[("0.a", b"1"), ("1.a", b"2")]));
    let beside: PathBuf = folder.path().join("a.tar.forebay-index");
    assert_eq!(opened(&[&path]).len(), 2);
    assert!(!beside.exists());
    let keeping = OpenOptions::new().keep_index(true);
    assert_eq!(open(&[&path], &keeping).unwrap().len(), 2);
    assert!(beside.exists());
    assert_eq!(open(&[folder.path()], &keeping).unwrap().len(), 2, "the index is not data");
}

#[test]
fn corrupt_records_are_refused_unless_they_are_to_be_left_out() {
    let folder = crate::common::folder();
    let path = write(folder.path(), "a.tfrecord", &tfrecord(&[b"1", b"22"])[..30]);
    refused(&[&path], &OpenOptions::new());
    assert_eq!(open(&[&path], &OpenOptions::new().skip_corrupt(true)).unwrap().len(), 1);
}

#[test]
fn an_empty_tar_is_known_by_its_name() {
    let folder = crate::common::folder();
    let path = write(folder.path(), "a.tar", tar(&[]));
    assert_eq!(opened(&[path]).len(), 0);
}

#[test]
fn content_tells_the_format_and_names_only_what_content_does_not() {
    let folder = crate::common::folder();
    let misnamed = write(folder.path(), "weights.npy", safetensors(b"abc"));
    let unnamed = write(folder.path(), "weights", safetensors(b"abc"));
    let raw = write(folder.path(), "weights.bin", safetensors(b"abc"));
    for path in [&misnamed, &unnamed, &raw] {
        assert_eq!(open_stored(&[path], &OpenOptions::new()).unwrap().format, Format::Safetensors);
    }
    assert_eq!(opened(&[misnamed, unnamed, raw]).len(), 9);
    // By its name alone it should be one: then what is wrong with it is for the format to say.
    let broken = write(folder.path(), "broken.safetensors", b"\x00\x00\x00\x00\x00\x00\x00\x80{}");
    assert_eq!(refused(&[broken], &OpenOptions::new()).offset, Some(0));
}

#[test]
fn a_forced_format_judges_the_file_by_its_own_rules() {
    let folder = crate::common::folder();
    let gzip = write(folder.path(), "x.npy", b"\x1f\x8b\x08\x00 and so on");
    let error = refused(&[&gzip], &OpenOptions::new().format(Format::Safetensors));
    assert!(error.offset == Some(0) && error.to_string().contains("gzip"), "{error}");
    for format in [Format::Parquet, Format::Arrow] {
        let error = refused(&[&gzip], &OpenOptions::new().format(format));
        assert!(matches!(error.fault, DatasetFault::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(format.name()), "{error}");
    }
}

#[test]
fn files_of_known_other_kinds_are_refused_by_what_they_are() {
    let zip = |name: &str| {
        let mut local = b"PK\x03\x04".to_vec();
        local.extend([0; 22]);
        local.extend((name.len() as u16).to_le_bytes());
        local.extend([0; 2]);
        [&local, name.as_bytes(), &[0; 500]].concat()
    };
    let cases: [(&[u8], &[&str]); 15] = [
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", &["gzip", "decompress"]),
        (b"\x28\xb5\x2f\xfd\x04", &["zstd", "decompress"]),
        (b"\xfd7zXZ\0\0", &["xz"]),
        (b"BZh91AY&SY", &["bzip2"]),
        (b"\x04\x22\x4d\x18d", &["lz4"]),
        (b"\x89HDF\r\n\x1a\n\0", &["HDF5"]),
        (b"GGUF\x03\0\0\0", &["GGUF"]),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 12\n", &["Git LFS", "git lfs pull"]),
        (b"<!DOCTYPE html><html>", &["web page"]),
        (b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", &["XML"]),
        (b"PAR1\x15\x04\x15", &["parquet"]),
        (b"ARROW1\0\0\xff\xff\xff\xff", &["arrow"]),
        (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", &["PyTorch", "safetensors"]),
        (&zip("archive/data.pkl"), &["PyTorch", "safetensors"]),
        (&zip("word/document.xml"), &["zip"]),
    ];
    let folder = crate::common::folder();
    for (bytes, words) in cases {
        for name in ["x.bin", "x.safetensors", "x"] {
            let path = write(folder.path(), name, bytes);
            let error = refused(&[&path], &OpenOptions::new().seq_len(4));
            // What only tokens have does not fit Parquet either, and that may be said first.
            let error = match error.fault {
                DatasetFault::Setting { .. } => refused(&[&path], &OpenOptions::new()),
                _ => error,
            };
            assert!(matches!(error.fault, DatasetFault::Unsupported { .. }), "{error}");
            let error = error.to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}\nlacks one of {words:?}");
        }
    }
    let pickle = write(folder.path(), "x.pt", b"anything");
    refused_with(&[pickle], &OpenOptions::new(), &["pickle", "safetensors"]);
}

#[test]
fn what_nothing_tells_is_refused_with_what_would() {
    let folder = crate::common::folder();
    for name in ["x", "x.bin", "x.txt"] {
        for bytes in [&b""[..], b"anything at all", &[0; 4096]] {
            let path = write(folder.path(), name, bytes);
            refused_with(&[&path], &OpenOptions::new(), &[name, "--format", "--record-bytes", "--seq-len"]);
            let both = OpenOptions::new().record_bytes(4).seq_len(4);
            refused_with(&[&path], &both, &["both"]);
        }
    }
    refused_with(&[] as &[&Path], &OpenOptions::new(), &["no files"]);
    refused_with(&[""], &OpenOptions::new(), &["empty"]);
}

#[test]
fn settings_of_no_use_are_not_ignored() {
    let folder = crate::common::folder();
    let path = write(folder.path(), "a.safetensors", safetensors(b"a"));
    let cases = [
        (OpenOptions::new().record_bytes(4), "record_bytes"),
        (OpenOptions::new().dtype(forebay::dataset::DType::U16), "dtype"),
        (OpenOptions::new().seq_len(4), "seq_len"),
        (OpenOptions::new().stride(4), "stride"),
        (OpenOptions::new().documents(true), "documents"),
        (OpenOptions::new().skip_corrupt(true), "skip_corrupt"),
        (OpenOptions::new().format(Format::Tokens).documents(true).seq_len(4), "at once"),
    ];
    for (options, word) in cases {
        let error = refused(&[&path], &options);
        assert!(matches!(error.fault, DatasetFault::Setting { .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(open(&[&path], &OpenOptions::new().keep_index(true).documents(false)).is_ok());
}

#[test]
fn files_of_two_formats_are_refused_by_both_their_names() {
    let folder = crate::common::folder();
    let a = write(folder.path(), "a.safetensors", safetensors(b"a"));
    let b = write(folder.path(), "b.npy", b"\x93NUMPY\x01\0");
    refused_with(&[&a, &a, &b], &OpenOptions::new(), &["a.safetensors", "b.npy", "is npy", "is safetensors"]);
}

#[test]
fn a_model_is_no_dataset_but_its_tensors_are_listed() {
    let header =
        r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}}"#;
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), b"12345"].concat();
    let folder = crate::common::folder();
    let path = write(folder.path(), "model.safetensors", file);
    refused_with(&[&path], &OpenOptions::new(), &["model.safetensors"]);
    let stored = open_stored(&[&path], &OpenOptions::new()).unwrap();
    assert_eq!((stored.samples, stored.dataset.stored().count()), (None, 2));
}

/// Whatever a file's format, and wherever it was cut: a dataset or an error, and no wait.
#[test]
fn files_cut_at_any_byte_are_told_and_opened_or_refused_at_once() {
    let folder = crate::common::folder();
    let mut opened = 0;
    let files = [safetensors(b"abc"), npy(), tar(&[("0.a", b"1")]), tfrecord(&[b"1", b"22"]), llm_c(), megatron()];
    for (i, bytes) in files.iter().enumerate() {
        let path = write(folder.path(), format!("{i}"), bytes);
        let file = fs::File::options().write(true).open(&path).unwrap();
        for len in (0..=bytes.len()).rev() {
            file.set_len(len as u64).unwrap();
            for options in [OpenOptions::new(), OpenOptions::new().seq_len(1)] {
                match within(100, "a file that was cut", || open_stored(&[&path], &options)) {
                    Ok(_) => opened += 1,
                    Err(error) => assert!(error.path == path && error.to_string().contains("; "), "{error}"),
                }
            }
        }
    }
    assert!(opened > 0);
}

/// The oracle: numpy.
#[test]
fn what_numpy_saves_is_told_by_its_content() {
    let python = crate::or_skip!(crate::common::python::Python::with(&["numpy"]));
    let folder = crate::common::folder();
    python.run(
        folder.path(),
        "import numpy as np
x = np.arange(12, dtype='<f4').reshape(4, 3)
np.save(open('one', 'wb'), x)
np.savez(open('two', 'wb'), x=x, y=x[:, 0])",
    );
    for (name, format) in [("one", Format::Npy), ("two", Format::Npz)] {
        let stored = open_stored(&[folder.path().join(name)], &OpenOptions::new()).unwrap();
        assert_eq!((stored.format, stored.samples), (format, Some(4)));
    }
}
