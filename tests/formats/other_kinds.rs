//! A file without a header says nothing of itself: whatever says that it is something else is listened to, in every file.
use std::path::{Path, PathBuf};

use forebay::dataset::{DatasetFault, Format, OpenOptions, open, open_stored};
use proptest::prelude::*;

use crate::common::folder;
use crate::common::python::Python;
use crate::open::{refused, safetensors, write};
use crate::or_skip;
use crate::told::{llm_c, megatron, npy, tar, tfrecord};

pub const LFS: &[u8] =
    b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 1234\n";

/// Each with a word of what it must be called, padded to whole records of 8 bytes.
fn others() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let zip = |name: &str| {
        let mut local = b"PK\x03\x04".to_vec();
        local.extend([0; 22]);
        local.extend((name.len() as u16).to_le_bytes());
        local.extend([0; 2]);
        [&local, name.as_bytes(), &[0; 500]].concat()
    };
    let mut others = vec![
        ("lfs", LFS.to_vec(), "Git LFS"),
        ("html", b"<!DOCTYPE html><html><body>404</body></html>".to_vec(), "web page"),
        ("html after a mark and a line", b"\xef\xbb\xbf\n<!DocType HTML><html></html>".to_vec(), "web page"),
        ("saved html", b"<HTML><head></head></HTML>".to_vec(), "web page"),
        ("xml", b"<?xml version=\"1.0\"?><Error></Error>".to_vec(), "XML"),
        ("gzip", b"\x1f\x8b\x08\x08\x12\x34\x56\x78\x00\x03name\0rest".to_vec(), "gzip"),
        ("zstd", b"\x28\xb5\x2f\xfd\x04\x00\x01\x02".to_vec(), "zstd"),
        ("xz", b"\xfd7zXZ\0\0\x04".to_vec(), "xz"),
        ("bzip2", b"BZh91AY&SY\x01\x02".to_vec(), "bzip2"),
        ("hdf5", b"\x89HDF\r\n\x1a\n\0".to_vec(), "HDF5"),
        ("gguf", b"GGUF\x03\0\0\0".to_vec(), "GGUF"),
        ("parquet", b"PAR1\x15\x04\x15\x10".to_vec(), "parquet"),
        ("zip", zip("word/document.xml"), "zip"),
        ("pt", zip("archive/data.pkl"), "PyTorch"),
        ("old pt", b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.".to_vec(), "PyTorch"),
        ("pickle 2", b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01K\x01u.".to_vec(), "pickle"),
        ("pickle 3", b"\x80\x03cnumpy.core.multiarray\n_reconstruct\nq\x00.".to_vec(), "pickle"),
        ("pickle 4", b"\x80\x04\x95\x0a\0\0\0\0\0\0\0}\x94\x8c\x01a\x94K\x01s.".to_vec(), "pickle"),
        ("npy", npy(), "npy"),
        ("safetensors", safetensors(b"abcdefgh"), "safetensors"),
        ("tar", tar(&[("0.a", b"1")]), "webdataset"),
        ("tfrecord", tfrecord(&[b"12345678"]), "tfrecord"),
        ("megatron", megatron(), "egatron"),
    ];
    for (_, bytes, _) in &mut others {
        bytes.resize(bytes.len().next_multiple_of(8), b'\n');
    }
    others
}

fn three(folder: &Path, at: usize, other: &[u8]) -> Vec<PathBuf> {
    let of = |i| if i == at { other.to_vec() } else { vec![7; 64] };
    (0..3).map(|i| write(folder, format!("{i}.bin"), of(i))).collect()
}

#[test]
fn a_file_of_another_kind_is_refused_by_name_and_kind_at_any_place() {
    let folder = folder();
    for (name, bytes, word) in others() {
        for at in 0..3 {
            let paths = three(folder.path(), at, &bytes);
            for options in [OpenOptions::new().seq_len(2), OpenOptions::new().record_bytes(8)] {
                for given in [&paths[..], &[folder.path().to_owned()]] {
                    let error = refused(given, &options);
                    let said = error.to_string();
                    assert!(error.path == paths[at] || said.contains(&format!("{at}.bin")), "{name} at {at}: {said}");
                    assert!(said.contains(word) && said.contains("; "), "{name} at {at}: {said}");
                }
            }
        }
    }
}

/// What other programs write, which is what people leave beside their data.
#[test]
fn what_python_writes_is_known_in_any_place() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    let made = python.run(
        folder.path(),
        r#"
import bz2, gzip, io, lzma, numpy as np, pickle, tarfile, zipfile
def put(name, data):
    open(name, "wb").write(data + b"\0" * (-len(data) % 8))
    print(name)
put("gzip.bin", gzip.compress(b"x" * 999))
put("gzip-n.bin", gzip.compress(b"x" * 999, 1, mtime=0))
put("bzip2.bin", bz2.compress(b"x" * 999))
put("bzip2-of-nothing.bin", bz2.compress(b""))
put("xz.bin", lzma.compress(b"x" * 999))
for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
    put(f"pickle-dict-{protocol}.bin", pickle.dumps({"a": [1, 2, 3], "b": "text"}, protocol))
    put(f"pickle-list-{protocol}.bin", pickle.dumps([{"a": 1}, {"a": 2}], protocol))
    put(f"pickle-array-{protocol}.bin", pickle.dumps(np.arange(99), protocol))
f = io.BytesIO(); np.save(f, np.arange(9)); put("npy.bin", f.getvalue())
f = io.BytesIO(); np.savez(f, x=np.arange(9)); put("npz.bin", f.getvalue())
f = io.BytesIO(); tarfile.open(fileobj=f, mode="w").close(); 
f = io.BytesIO(); t = tarfile.open(fileobj=f, mode="w"); t.addfile(tarfile.TarInfo("a.txt"), io.BytesIO()); t.close(); put("tar.bin", f.getvalue())
f = io.BytesIO(); z = zipfile.ZipFile(f, "w"); z.writestr("a.txt", "x"); z.close(); put("zip.bin", f.getvalue())
"#,
    );
    let good = write(folder.path(), "good", vec![7; 64]);
    assert!(made.lines().count() > 20);
    for name in made.lines() {
        let other = folder.path().join(name);
        for options in [OpenOptions::new().seq_len(2), OpenOptions::new().record_bytes(8)] {
            let said = refused(&[&good, &other], &options).to_string();
            assert!(said.contains(name), "{name}: {said}");
        }
    }
}

#[test]
fn a_later_file_of_any_format_is_called_what_it_is() {
    let folder = folder();
    let formats: [(&str, Vec<u8>); 4] = [
        ("tfrecord", tfrecord(&[b"1"])),
        ("tar", tar(&[("0.a", b"1")])),
        ("npy", npy()),
        ("safetensors", safetensors(b"a")),
    ];
    let others: [(&[u8], &str); 4] = [
        (LFS, "Git LFS"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"\x1f\x8b\x08\x00\0\0\0\0\0\x03abc", "gzip"),
        (&llm_c(), "tokens"),
    ];
    for (ending, sound) in &formats {
        for (other, word) in others {
            for options in [OpenOptions::new(), OpenOptions::new().format(format_of(ending))] {
                let first = write(folder.path(), format!("a.{ending}"), sound);
                let later = write(folder.path(), format!("b.{ending}"), other);
                let error = refused(&[&first, &later], &options);
                assert_eq!(error.path, later, "{error}");
                assert!(error.to_string().contains(word), "{ending}, {word}: {error}");
            }
        }
    }
}

fn format_of(ending: &str) -> Format {
    ending.parse().unwrap()
}

/// The data of a pair has no header either.
#[test]
fn the_data_of_an_index_is_called_what_it_is() {
    let folder = folder();
    let idx = write(folder.path(), "text.idx", megatron());
    write(folder.path(), "text.bin", LFS);
    let error = refused(&[&idx], &OpenOptions::new());
    assert!(error.to_string().contains("Git LFS") && error.path.ends_with("text.bin"), "{error}");
}

/// An index that is one itself.
#[test]
fn an_index_that_was_not_fetched_is_called_what_it_is() {
    let folder = folder();
    write(folder.path(), "a.safetensors", safetensors(b"a"));
    write(folder.path(), "model.safetensors.index.json", LFS);
    let error = refused(&[folder.path()], &OpenOptions::new());
    assert!(error.to_string().contains("Git LFS"), "{error}");
}

/// What is forced is read, with one warning for all of it.
#[test]
fn a_forced_format_overrules_with_one_warning() {
    let folder = folder();
    let made: Vec<(PathBuf, usize)> = others()
        .into_iter()
        .enumerate()
        .map(|(i, (_, bytes, _))| (write(folder.path(), format!("{i:02}.bin"), &bytes), bytes.len()))
        .collect();
    let paths: Vec<&PathBuf> = made.iter().map(|(path, _)| path).collect();
    let samples = made.iter().map(|(_, len)| *len as u64 / 8).sum::<u64>();
    let (dataset, warnings) =
        crate::heard::warnings(|| open(&paths, &OpenOptions::new().format(Format::Records).record_bytes(8)).unwrap());
    assert_eq!(dataset.len(), samples);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with(&format!("{} of the files", paths.len())), "{warnings:?}");
    assert!(warnings[0].contains("00.bin") && warnings[0].contains("Git LFS"), "{warnings:?}");
    let (_, warnings) =
        crate::heard::warnings(|| open(&paths, &OpenOptions::new().format(Format::Tokens).seq_len(2)).unwrap());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let plain = write(folder.path(), "plain.bin", [7; 64]);
    let (_, warnings) =
        crate::heard::warnings(|| open(&[plain], &OpenOptions::new().format(Format::Tokens).seq_len(2)).unwrap());
    assert!(warnings.is_empty(), "{warnings:?}");
}

proptest! {
    /// What begins as a header does by chance is data: no more than one file in 2^32 may be taken for something else, so
    /// none of these.
    #[test]
    fn tokens_that_begin_as_some_header_does_are_tokens(
        beginning in prop::sample::select(vec![
            &b"\x1f\x8b\x08\xff"[..], b"BZhx", b"\x80\x02\x01\x01", b"\x80\x03\x01\x01", b"\x80\x04\x95\x01", b"PKPK",
            b"\x7b\x22\x00\x00", b"\x10\x00\x00\x00\x00\x00\x00\x00\x7b\x00", b"<h", b"<!", b"\n\n\n\n",
        ]),
        tokens in prop::collection::vec(0_u16..50257, 64..128),
    ) {
        let folder = folder();
        let mut bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        bytes[..beginning.len()].copy_from_slice(beginning);
        // Random bytes behind the beginning, so none that complete it.
        let paths = [write(folder.path(), "a.bin", &bytes), write(folder.path(), "b.bin", &bytes)];
        prop_assert!(open(&paths, &OpenOptions::new().seq_len(4)).is_ok());
    }
}

/// Numbers of 64 bits, of which the first is small and the second 123, begin as a safetensors file does.
#[test]
fn records_of_small_numbers_are_no_safetensors() {
    let folder = folder();
    let bytes: Vec<u8> = [5_u64, 123, 7, 9].iter().flat_map(|number| number.to_le_bytes()).collect();
    let path = write(folder.path(), "a.bin", &bytes);
    let stored = open_stored(&[path], &OpenOptions::new().record_bytes(8)).unwrap();
    assert_eq!((stored.format, stored.samples), (Format::Records, Some(4)));
    assert!(matches!(
        refused(&[write(folder.path(), "b.bin", LFS)], &OpenOptions::new().record_bytes(8)).fault,
        DatasetFault::Unsupported { .. }
    ));
}
