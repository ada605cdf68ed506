//! Archives of arrays against numpy and Python's zipfile, which write them.
use std::fs;
use std::path::Path;

use forebay::dataset::{Dataset, Npz};

use crate::common::folder;
use crate::common::python::Python;
use crate::{bytes, or_skip};

/// An archive that numpy 2.4.6 has written: `x = arange(6, dtype="<i2").reshape(2, 3)`, `y = array([7, 8], "u1")`.
#[test]
fn an_archive_that_numpy_has_written_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/data/pair.npz");
    let npz = Npz::open(&[path]).unwrap();
    assert_eq!(npz.len(), 2);
    assert_eq!(bytes::of(&npz, 1), [("x".to_owned(), vec![3, 0, 4, 0, 5, 0]), ("y".to_owned(), vec![8])]);
}

#[test]
fn what_numpy_writes_is_read_back_equal() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    python.run(
        folder.path(),
        r#"
import numpy as np, io, zipfile
rng = np.random.default_rng(1)
x, y, z = rng.random((5, 2, 3)).astype("<f4"), rng.integers(0, 99, 5), rng.random((5, 0)) < 1
for name, a in [("x", x), ("y", y), ("z", z)]:
    open(f"{name}.raw", "wb").write(a.tobytes())
arrays = {"x": x, "y": y, "ä/../z": z}
np.savez("plain.npz", **arrays)

# The same by zipfile itself, to a pipe that cannot go back: lengths follow the bytes.
class Pipe(io.RawIOBase):
    def __init__(self): self.f = open("pipe.npz", "wb")
    def writable(self): return True
    def write(self, b): return self.f.write(b)
    def flush(self): self.f.flush()
pipe = Pipe()
np.savez(pipe, **arrays)
pipe.flush()

# With a comment, and in narrow form.
with zipfile.ZipFile("narrow.npz", "w") as archive:
    archive.comment = b"written by hand"
    for name, a in arrays.items():
        with archive.open(name + ".npy", "w") as member:
            np.lib.format.write_array(member, a)
np.savez_compressed("compressed.npz", **arrays)
np.savez("ragged.npz", x=x, y=y[:4])
np.savez("scalar.npz", x=np.float32(3))
np.savez("empty.npz")
np.savez("objects.npz", x=np.array([None, 1], dtype=object))
with zipfile.ZipFile("other.npz", "w") as archive:
    archive.writestr("data.pkl", b"pickled")
"#,
    );
    let raw = |name: &str| fs::read(folder.path().join(name).with_extension("raw")).unwrap();
    for name in ["plain", "pipe", "narrow"] {
        let npz = Npz::open(&[folder.path().join(name).with_extension("npz")]).unwrap();
        let mut read = [const { Vec::new() }; 3];
        for row in 0..npz.len() {
            let sample = bytes::of(&npz, row);
            assert_eq!(sample.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["x", "y", "ä/../z"], "{name}");
            read.iter_mut().zip(sample).for_each(|(all, (_, row))| all.extend(row));
        }
        assert!(read == [raw("x"), raw("y"), raw("z")], "{name}");
    }
    for (name, advice) in [
        ("compressed", "numpy.savez in place of"),
        ("ragged", "array x has 5 rows and array y has 4"),
        ("scalar", "no dimensions"),
        ("empty", "no arrays"),
        ("objects", "never unpickled"),
        ("other", "data.pkl"),
    ] {
        let error = Npz::open(&[folder.path().join(name).with_extension("npz")]).expect_err(name).to_string();
        assert!(error.contains(advice), "{error}");
    }
}
