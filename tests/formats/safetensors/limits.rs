//! Time and memory of opening, whatever a file claims.
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay::dataset::Safetensors;

use super::folder;
use crate::common::privilege::{Outside, Reduced, child_dir, child_done, expect_child, in_child};
use crate::common::weights::{self, Tensor, entry, write};
use crate::common::work::{beside, within};

fn many(tensors: u64) -> Vec<u8> {
    let mut header = String::from("{");
    for i in 0..tensors {
        if i > 0 {
            header.push(',');
        }
        let name = format!("model.layers.{i}.mlp.experts.{i}.down_proj.weight");
        let _ = write!(header, "{}", entry(&name, "BF16", &[2, 2], 8 * i, 8 * i + 8));
    }
    header.push('}');
    weights::file(header, &vec![0; 8 * tensors as usize])
}

#[test]
fn ninety_thousand_tensors_open_for_the_work_that_the_crate_does() {
    let (_folder, path) = folder();
    std::fs::write(&path, many(90_000)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let theirs = || safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let opened = beside(20, "90,000 tensors", theirs, || Safetensors::open(&[&path]).unwrap());
    assert_eq!(opened.tensors().len(), 90_000);
}

fn sparse(path: &Path, head: &[u8], len: u64) {
    let file = File::create(path).unwrap();
    file.write_all_at(head, 0).unwrap();
    file.set_len(len).unwrap();
}

/// Files that are long, or say that they are, in a process whose memory is looked at.
#[test]
fn whatever_a_file_claims_it_is_refused_soon_and_in_little_memory() {
    let outside = Outside::new();
    expect_child("hostile headers", outside.rerun(&Reduced::new(), "safetensors::limits::in_child_hostile_headers"));
}

/// The most resident memory of this process so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

#[test]
#[ignore = "a part of another test"]
fn in_child_hostile_headers() {
    if !in_child() {
        return;
    }
    /// Bytes of the long ones: a tenth of what is read at most.
    const LONG: usize = 10_000_000;
    let path = child_dir().join("hostile.safetensors");
    let refused = |what: &str, memory: u64| {
        let before = peak();
        let error = within(1000, what, || Safetensors::open(&[&path]).unwrap_err());
        let memory_taken = peak() - before;
        eprintln!("{what}: {memory_taken} bytes: {error}");
        assert!(memory_taken <= memory, "{what}: {memory_taken} bytes");
        assert_eq!((&error.path, error.offset.is_some()), (&path, true), "{what}: {error}");
        assert!(error.to_string().len() < 2000, "{what}: {error}");
    };
    // What the first of all takes is the program's own: its pages and its threads' stacks.
    std::fs::write(&path, b"short").unwrap();
    Safetensors::open(&[&path]).unwrap_err();
    let nest = |open: &str, n: usize| weights::file(format!("{{\"a\":{}", open.repeat(n)), b"");
    std::fs::write(&path, [&u64::from(u32::MAX).to_le_bytes()[..], b"{\"a\":{"].concat()).unwrap();
    refused("14 bytes that claim 4 GiB", 4 << 20);
    for open in ["[", "{\"a\":", "{\"shape\":["] {
        std::fs::write(&path, nest(open, 100_000)).unwrap();
        refused("deep JSON", 4 << 20);
    }
    std::fs::write(&path, weights::file(format!("{{\"__metadata__\":{}", "[".repeat(100_000)), b"")).unwrap();
    refused("deep metadata", 4 << 20);
    sparse(&path, &[&(10 * LONG as u64).to_le_bytes()[..], b"{}"].concat(), 1 << 40);
    refused("a terabyte", 8 << 20);
    for (what, head, piece, tail) in [
        ("a shape without end", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1", ",1", "],\"data_offsets\":[0,1]}}"),
        ("a list that is no tensor", "{\"a\":[0", ",0", "]}"),
        ("a field that nobody needs", "{\"a\":{\"x\":[0", ",0", "]}}"),
        ("metadata without end", "{\"__metadata__\":{\"a\":[0", ",0", "]}}"),
        ("a name without end", "{\"", "aaaaaaaaaaaaaaaa", "\":3}"),
        (
            "the same tensor again and again",
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,1]}",
            ",\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,1]}",
            "}",
        ),
    ] {
        let mut file = std::io::BufWriter::new(File::create(&path).unwrap());
        let pieces = (LONG - head.len() - tail.len()) / piece.len();
        let len = head.len() + pieces * piece.len() + tail.len();
        file.write_all(&(len as u64).to_le_bytes()).unwrap();
        file.write_all(head.as_bytes()).unwrap();
        (0..pieces).for_each(|_| file.write_all(piece.as_bytes()).unwrap());
        file.write_all(tail.as_bytes()).unwrap();
        file.write_all(b"12").unwrap();
        file.flush().unwrap();
        drop(file);
        refused(what, 80 << 20);
    }
    std::fs::remove_file(&path).unwrap();
    let index = child_dir().join("model.safetensors.index.json");
    let refused_index = |what: &str| {
        let before = peak();
        let error = within(1000, what, || Safetensors::open(&[&index]).unwrap_err());
        let memory_taken = peak().saturating_sub(before);
        eprintln!("{what}: {memory_taken} bytes: {error}");
        assert!(memory_taken <= 8 << 20, "{what}: {memory_taken} bytes");
        assert!(error.path == index && error.to_string().len() < 2000, "{what}: {error}");
    };
    for len in [256 << 20, 1 << 30, 1 << 40] {
        sparse(&index, b"{\"weight_map\":{", len);
        refused_index("an index of zeros");
    }
    let pairs = format!("{{\"weight_map\":{{{}\"b\":1}}}}", "\"a\":\"f\",".repeat(2_000_000));
    std::fs::write(&index, &pairs).unwrap();
    let theirs = || serde_json::from_str::<serde_json::Value>(&pairs).unwrap();
    beside(4, "the same pair again and again", theirs, || refused_index("the same pair again and again"));
    for name in ["f".repeat(1 << 20), "./".repeat(1 << 19) + "f", "../".repeat(1 << 19)] {
        std::fs::write(&index, format!("{{\"weight_map\":{{\"a\":\"{name}\"}}}}")).unwrap();
        refused_index("a long name");
    }
    write(&child_dir(), "a.safetensors", &[Tensor::new("t", safetensors::Dtype::U8, &[1], 1)]);
    let long = "t".repeat(1 << 20);
    std::fs::write(&index, format!("{{\"weight_map\":{{\"{long}\":\"a.safetensors\"}}}}")).unwrap();
    let said = Safetensors::open(&[&index]).unwrap_err().to_string();
    assert!(said.len() < 2000 && said.contains("is here, is not"), "{said}");
    std::fs::write(&index, format!("{{\"weight_map\":\"{}\"}}", "f".repeat(1 << 20))).unwrap();
    refused_index("a long text in place of the map");
    let many: Vec<String> = (0..10_000).map(|i| format!("\"{i}\":\"{i}.safetensors\"")).collect();
    std::fs::write(&index, format!("{{\"weight_map\":{{{}}}}}", many.join(","))).unwrap();
    refused_index("many files that are not there");
    child_done();
}

/// As long as a header may be, and sound.
#[test]
fn a_header_of_the_greatest_length_is_read() {
    let (_folder, path) = folder();
    let mut header = vec![b' '; 100_000_000];
    let text = format!("{{{}}}", entry("w", "U8", &[1], 0, 1));
    header[..text.len()].copy_from_slice(text.as_bytes());
    std::fs::write(&path, weights::file(&header, b"1")).unwrap();
    assert_eq!(within(1000, "100 MB of spaces", || Safetensors::open(&[&path]).unwrap()).tensors().len(), 1);
}
