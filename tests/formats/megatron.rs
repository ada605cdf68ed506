//! Indexed datasets, written by numpy after the rules of Megatron-LM's `indexed_dataset.py`.
use std::fs;

use forebay::dataset::{Dataset, Format, Megatron, OpenOptions, Split, open};

use crate::common::folder;
use crate::common::python::Python;
use crate::{bytes, or_skip};

#[test]
fn documents_and_windows_are_those_that_were_written() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    let said = python.run(
        folder.path(),
        r#"
import numpy as np, struct
rng = np.random.default_rng(1)
codes = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}
for code, kind in codes.items():
    lengths = rng.integers(0, 9, 30)
    boundaries = np.unique(np.concatenate([[0, 30], rng.integers(0, 30, 8)]))
    boundaries = np.sort(np.concatenate([boundaries, [boundaries[2]]]))  # one document is empty
    dtype = np.dtype(kind)
    tokens = np.frombuffer(rng.bytes(int(lengths.sum()) * dtype.itemsize), dtype)
    tokens.tofile(f"{code}.bin")
    pointers = np.concatenate([[0], np.cumsum(lengths)[:-1]]) * dtype.itemsize
    with open(f"{code}.idx", "wb") as f:
        f.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(lengths), len(boundaries)))
        f.write(lengths.astype("<i4").tobytes() + pointers.astype("<i8").tobytes() + boundaries.astype("<i8").tobytes())
        if code % 2:
            f.write(bytes(len(lengths)))
    ends = np.concatenate([[0], np.cumsum(lengths)])
    for begin, end in zip(boundaries[:-1], boundaries[1:]):
        print(code, "document", tokens[ends[begin]:ends[end]].tobytes().hex())
    for start in range(0, len(tokens) - 10, 7):
        print(code, "window", tokens[start:start + 11].tobytes().hex())
"#,
    );
    for code in 1..=8 {
        for (kind, split) in [("document", Split::Documents), ("window", Split::Windows { seq_len: 10, stride: 7 })] {
            let prefix = format!("{code} {kind} ");
            let expected: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix(&*prefix)).collect();
            assert!(expected.len() > 5, "{prefix}");
            for given in ["idx", "bin"] {
                let path = folder.path().join(code.to_string()).with_extension(given);
                let megatron = Megatron::open(&[path], split).unwrap();
                let read: Vec<String> = (0..megatron.len()).map(|i| hex(&bytes::of(&megatron, i)[0].1)).collect();
                assert_eq!(read, expected, "{prefix}");
            }
        }
    }
}

/// By fairseq's `MMapIndexedDataset`: no documents, so that each sequence is one.
#[test]
fn an_index_of_fairseqs_is_read_sequence_by_sequence() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    let said = python.run(
        folder.path(),
        r#"
import numpy as np, struct
rng = np.random.default_rng(2)
codes = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f8", 8: "<u2", 9: "<u4", 10: "<u8"}
for code, kind in codes.items():
    lengths = rng.integers(0, 9, 30).astype("<i4")
    dtype = np.dtype(kind)
    tokens = np.frombuffer(rng.bytes(int(lengths.sum()) * dtype.itemsize), dtype)
    tokens.tofile(f"v1.{code}.bin")
    pointers = (np.concatenate([[0], np.cumsum(lengths)[:-1]]) * dtype.itemsize).astype("<i8")
    with open(f"v1.{code}.idx", "wb") as f:
        f.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, code, len(lengths)) + lengths.tobytes() + pointers.tobytes())
    for end, length in zip(np.cumsum(lengths), lengths):
        print(code, "document", tokens[end - length:end].tobytes().hex())
    for start in range(0, len(tokens) - 10, 7):
        print(code, "window", tokens[start:start + 11].tobytes().hex())
"#,
    );
    for code in 1..=10 {
        for (kind, split) in [("document", Split::Documents), ("window", Split::Windows { seq_len: 10, stride: 7 })] {
            let prefix = format!("{code} {kind} ");
            let expected: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix(&*prefix)).collect();
            assert!(expected.len() > 5, "{prefix}");
            let megatron = Megatron::open(&[folder.path().join(format!("v1.{code}.idx"))], split).unwrap();
            let read: Vec<String> = (0..megatron.len()).map(|i| hex(&bytes::of(&megatron, i)[0].1)).collect();
            assert_eq!(read, expected, "{prefix}");
        }
    }
}

/// As Megatron's own scripts name it, with dots of its own.
#[test]
fn a_pair_is_opened_by_its_prefix() {
    let folder = folder();
    let prefix = folder.path().join("data.v1_text_document");
    fs::write(folder.path().join("data.v1_text_document.idx"), crate::told::megatron()).unwrap();
    fs::write(folder.path().join("data.v1_text_document.bin"), [1; 10]).unwrap();
    assert_eq!(Megatron::open(&[&prefix], Split::Documents).unwrap().len(), 2);
    for options in [OpenOptions::new(), OpenOptions::new().format(Format::Megatron)] {
        assert_eq!(open(&[&prefix], &options).unwrap().len(), 2);
        assert_eq!(open(&[folder.path().join("data.v{1..1}_text_document")], &options).unwrap().len(), 2);
    }
    assert!(open(&[&prefix], &OpenOptions::new().format(Format::Tokens).seq_len(1)).is_err());
    fs::remove_file(folder.path().join("data.v1_text_document.idx")).unwrap();
    let said = open(&[&prefix], &OpenOptions::new()).unwrap_err().to_string();
    assert!(said.contains("data.v1_text_document.idx"), "{said}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
