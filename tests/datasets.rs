//! What `datasets/prepare` makes, against numpy, Python's tarfile and the real data; and against disks without room.
mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use common::folder;
use common::python::Python;
use forebay::dataset::{self, DType, Dataset, OpenOptions};

/// `prepare(…)` runs the script and gives what became of it.
fn in_python(python: &Python, folder: &Path, then: &str) -> String {
    let prepare = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/prepare");
    let before = format!(
        r#"
import os, pathlib, resource, subprocess, sys
HERE = pathlib.Path({:?})
def prepare(*args, **how):
    return subprocess.run([sys.executable, {:?}, *map(str, args)], capture_output=True, text=True, **how)
def made(*args):
    done = prepare(*args)
    assert done.returncode == 0 and not done.stderr, (args, done.stderr)
    return done.stdout
"#,
        prepare.parent().unwrap().display().to_string(),
        prepare.display().to_string()
    );
    python.run(folder, &(before + then))
}

fn bytes_of(dataset: &dyn Dataset, index: u64, field: usize) -> Vec<u8> {
    let sample = dataset.sample(index).unwrap();
    let (_, ranges) = sample.fields().nth(field).unwrap();
    let read = |range: &dataset::FileRange| {
        let file = fs::read(dataset.files()[range.file as usize].path()).unwrap();
        file[range.offset as usize..][..range.len as usize].to_vec()
    };
    ranges.iter().flat_map(read).collect()
}

#[test]
fn tokens_are_the_text_from_the_beginning_again_at_its_end() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    let said = in_python(
        &python,
        folder.path(),
        r#"
import numpy as np
text = (HERE / "kjv.txt").read_bytes()
size = 2 * (2 * len(text) + 77)
print(made("tokens", "kjv.bin", "--size", size), end="")
wanted = np.frombuffer(text * 2 + text[:77], np.uint8).astype("<u2")
assert np.array_equal(np.fromfile("kjv.bin", "<u2"), wanted)
"#,
    );
    let text = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/kjv.txt")).unwrap();
    let tokens = 2 * text.len() + 77;
    assert_eq!(said, format!("kjv.bin: {} bytes\n", 2 * tokens));
    let windows = dataset::open(&[folder.path().join("kjv.bin")], &OpenOptions::new().seq_len(128)).unwrap();
    assert_eq!(windows.len(), (tokens as u64 - 1) / 128);
    assert_eq!(windows.sample(3).unwrap().tensors()[0].dtype, DType::U16);
    let seventh: Vec<u8> = bytes_of(&*windows, 7, 0).chunks(2).map(|token| token[0]).collect();
    assert_eq!(seventh, text[7 * 128..8 * 128 + 1]);
}

#[test]
fn records_are_as_many_as_fit_each_its_own_and_compress_to_no_less() {
    let python = or_skip!(Python::with(&[]));
    let folder = folder();
    in_python(
        &python,
        folder.path(),
        r#"
import hashlib, zlib
made("records", "a.rec", "--size", "1MiB", "--record-bytes", 5000)
made("records", "b.rec", "--size", "1MiB", "--record-bytes", 5000)
made("records", "c.rec", "--size", "1MiB", "--record-bytes", 5000, "--seed", 1)
made("records", "d.rec", "--size", "300KiB")
a, b, c, d = (open(f"{name}.rec", "rb").read() for name in "abcd")
assert len(a) == len(c) == 209 * 5000 and len(d) == 2 * 153600
assert a == b and len({part[at:at + 5000] for part in (a, c) for at in range(0, len(part), 5000)}) == 2 * 209
assert a[15000:20000] == hashlib.shake_128(b"records 0 3").digest(5000)
assert len(zlib.compress(a, 9)) >= len(a)
"#,
    );
    let records = dataset::open(&[folder.path().join("a.rec")], &OpenOptions::new().record_bytes(5000)).unwrap();
    assert_eq!(records.len(), 209);
}

#[test]
fn digits_are_the_same_in_every_format() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    in_python(
        &python,
        folder.path(),
        r#"
import gzip, struct, tarfile, zlib
import numpy as np
made("digits", "out")
rows = np.loadtxt(gzip.open(HERE / "digits.csv.gz"), delimiter=",", dtype=np.uint8)
assert rows.shape == (1797, 65)
images, labels, both = np.load("out/images.npy"), np.load("out/labels.npy"), np.load("out/digits.npz")
assert images.shape == (1797, 8, 8) and images.dtype == labels.dtype == np.uint8
assert np.array_equal(images.reshape(-1, 64), rows[:, :64]) and np.array_equal(labels, rows[:, 64])
assert sorted(both) == ["image", "label"]
assert np.array_equal(both["image"], images) and np.array_equal(both["label"], labels)

def pixels(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        chunks[kind] = png[at + 8:at + 8 + length]
        assert zlib.crc32(png[at + 4:at + 8 + length]) == struct.unpack(">I", png[at + 8 + length:at + 12 + length])[0]
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"] and chunks[b"IHDR"] == struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(8, 9)
    assert not rows[:, 0].any()
    return rows[:, 1:]

with tarfile.open("out/digits.tar") as shard:
    members = [(member.name, shard.extractfile(member).read()) for member in shard]
assert len(members) == 2 * 1797
for number in range(1797):
    (image, png), (label, cls) = members[2 * number:2 * number + 2]
    assert (image, label) == (f"{number:04}.png", f"{number:04}.cls")
    assert int(cls) == labels[number] and np.array_equal(pixels(png), 15 * images[number])
"#,
    );
    let open = |name: &str| dataset::open(&[folder.path().join("out").join(name)], &OpenOptions::new()).unwrap();
    for name in ["images.npy", "labels.npy", "digits.npz", "digits.tar"] {
        assert_eq!(open(name).len(), 1797, "{name}");
    }
    assert_eq!(bytes_of(&*open("digits.npz"), 1796, 0), bytes_of(&*open("images.npy"), 1796, 0));
    assert_eq!(open("digits.tar").id(1796), "1796");
}

#[test]
fn shards_come_to_the_size_asked_for_and_replace_those_that_were_there() {
    let python = or_skip!(Python::with(&[]));
    let folder = folder();
    let said = in_python(
        &python,
        folder.path(),
        r#"
import tarfile
args = ["--jpg-bytes", 20000, "--shard-size", "500KiB"]
made("tar", "out", "--size", "3MiB", *args)
first = sorted(path.name for path in pathlib.Path("out").iterdir())
assert first == [f"shard-{number:06}.tar" for number in range(len(first))] and len(first) >= 6
total, index, lengths = 0, 0, []
for name in first:
    path = pathlib.Path("out") / name
    total += path.stat().st_size
    assert path.stat().st_size <= 500 << 10
    with tarfile.open(path) as shard:
        members = shard.getmembers()
        for jpg, cls in zip(members[::2], members[1::2]):
            assert (jpg.name, cls.name) == (f"{index:09}.jpg", f"{index:09}.cls")
            content = shard.extractfile(jpg).read()
            assert content[:2] == b"\xff\xd8" and content[-2:] == b"\xff\xd9"
            assert int(shard.extractfile(cls).read()) == index % 1000
            lengths.append(len(content))
            index += 1
assert (3 << 20) - 40000 < total <= 3 << 20, total
assert all(10000 <= length <= 30000 for length in lengths) and 18000 < sum(lengths) / index < 22000
print(index)

before = {name: (pathlib.Path("out") / name).read_bytes() for name in first}
refused = prepare("tar", "out", "--size", "1MiB", *args)
assert refused.returncode == 1 and "--force" in refused.stderr, refused
assert before == {path.name: path.read_bytes() for path in pathlib.Path("out").iterdir()}
made("tar", "again", "--size", "3MiB", *args)
assert before == {path.name: path.read_bytes() for path in pathlib.Path("again").iterdir()}
made("tar", "again", "--size", "1MiB", "--force", *args)
after = {path.name: path.read_bytes() for path in pathlib.Path("again").iterdir()}
assert sum(map(len, after.values())) <= 1 << 20 and after["shard-000000.tar"] == before["shard-000000.tar"]
"#,
    );
    let shards = dataset::open(&[folder.path().join("out")], &OpenOptions::new()).unwrap();
    assert_eq!(shards.len().to_string(), said.trim());
}

#[test]
fn nothing_is_replaced_or_left_half_written() {
    let python = or_skip!(Python::with(&[]));
    let folder = folder();
    in_python(
        &python,
        folder.path(),
        r#"
def refused(code, what, *args, **how):
    done = prepare(*args, **how)
    lines = done.stderr.splitlines()
    assert done.returncode == code and what in lines[-1] and (code == 2 or len(lines) == 1), done
open("mine", "w").write("mine")
os.mkdir("folder")
small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
for command in ["tokens", "records"]:
    refused(1, "--force", command, "mine", "--size", "1MiB")
    refused(1, "are free", command, "new", "--size", "900TiB")
    refused(1, "are free", command, "mine", "--size", "900TiB", "--force")
    refused(1, "File too large", command, "mine", "--size", "1MiB", "--force", preexec_fn=small)
    refused(1, "folder", command, "folder", "--size", "1MiB", "--force")
    for size in ["0", "-1", "1kb", "", "1.5MiB"]:
        refused(2, "--size", command, "new", "--size=" + size)
refused(1, "even", "tokens", "new", "--size", 3)
refused(1, "does not fit", "records", "new", "--size", 3)
refused(1, "are free", "tar", "folder", "--size", "10TiB", "--shard-size", "10TiB", "--jpg-bytes", "1TiB")
refused(1, "does not fit", "tar", "folder", "--size", "1MiB", "--shard-size", "20KiB")
refused(1, "File too large", "tar", "folder", "--size", "1MiB", preexec_fn=small)
refused(1, "File too large", "digits", "folder", preexec_fn=small)
assert open("mine").read() == "mine" and sorted(os.listdir()) == ["folder", "mine"], os.listdir()
assert os.listdir("folder") == []
made("tokens", "mine", "--size", 8, "--force")
"#,
    );
    assert_eq!(fs::metadata(folder.path().join("mine")).unwrap().size(), 8);
}
