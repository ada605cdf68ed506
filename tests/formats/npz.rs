//! Archives of arrays against numpy and Python's zipfile, which write them.
use std::fs;
use std::path::Path;
use std::process::Command;

use forebay::dataset::{Dataset, Npz};

use crate::common::python::Python;
use crate::common::{Skip, folder};
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

/// The arrays of an archive as numpy loads them: those of numbers by name, as bytes in hexadecimal.
const LOAD: &str = r#"
import sys, numpy as np
for name in NAMES:
    with np.load(name) as archive:
        for key in archive.files:
            try:
                array = archive[key]
            except ValueError:
                continue
            if isinstance(array, np.ndarray) and array.dtype.kind in "biuf":
                print(name, key, array.tobytes().hex())
"#;

fn loaded_by_numpy(python: &Python, folder: &Path, names: &[&str]) -> Vec<(String, String, String)> {
    let printed = python.run(folder, &LOAD.replace("NAMES", &format!("{names:?}")));
    let line = |line: &str| {
        let [name, key, hex] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        (name.to_owned(), key.to_owned(), hex.to_owned())
    };
    printed.lines().map(line).collect()
}

/// The same as we read them, row by row, each row checked against the archive's CRC-32.
fn loaded_by_us(folder: &Path, names: &[&str]) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for name in names {
        let npz = Npz::open(&[folder.join(name)]).unwrap_or_else(|error| panic!("{error}"));
        let mut arrays: Vec<(String, String, String)> = Vec::new();
        for index in 0..npz.len() {
            let sample = bytes::of(&npz, index);
            npz.check(index, &sample.iter().map(|(_, row)| &**row).collect::<Vec<_>>()).unwrap();
            for (place, (key, row)) in sample.into_iter().enumerate() {
                let hex: String = row.iter().map(|byte| format!("{byte:02x}")).collect();
                match arrays.get_mut(place) {
                    Some(array) => array.2 += &hex,
                    None => arrays.push(((*name).to_owned(), key, hex)),
                }
            }
        }
        all.extend(arrays);
    }
    all
}

/// Runs a command line in `folder`, or says that its program is not there.
fn shell(folder: &Path, program: &str, line: &str) -> Result<(), Skip> {
    if Command::new(program).arg("--version").output().is_err() {
        return Err(Skip::because(format!("there is no {program}")));
    }
    let done = Command::new("sh").args(["-c", line]).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

/// To a pipe, which cannot go back: lengths and CRC follow the bytes, and bsdtar fills its last record up with zeros.
#[test]
fn archives_that_other_programs_write_to_a_pipe_are_read_as_numpy_reads_them() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    python.run(
        folder.path(),
        r#"
import io, zipfile, numpy as np
np.save("x.npy", np.arange(600, dtype="<f4").reshape(200, 3))
np.save("y.npy", np.arange(200, dtype="u1"))
class Pipe(io.RawIOBase):
    def __init__(self, name): self.f = open(name, "wb")
    def writable(self): return True
    def write(self, b): return self.f.write(b)
    def flush(self): self.f.flush()
for name, wide in [("python.npz", False), ("python-wide.npz", True)]:
    pipe = Pipe(name)
    with zipfile.ZipFile(pipe, "w") as archive:
        for member in ["x.npy", "y.npy"]:
            with archive.open(member, "w", force_zip64=wide) as out:
                out.write(open(member, "rb").read())
    pipe.flush()
"#,
    );
    let bsdtar = "bsdtar --format zip --options zip:compression=store";
    let lines = [
        ("zip", "zip-to-pipe.npz", "zip -q -0 - x.npy y.npy | cat > zip-to-pipe.npz".to_owned()),
        (
            "zip",
            "zip-from-pipe.npz",
            "cat x.npy | zip -q -0 zip-from-pipe.npz - && printf '@ -\n@=x.npy\n' | zipnote -w zip-from-pipe.npz"
                .to_owned(),
        ),
        ("zip", "zip-descriptors.npz", "zip -q -0 -fd zip-descriptors.npz x.npy y.npy".to_owned()),
        ("zip", "zip-wide.npz", "zip -q -0 -fz zip-wide.npz x.npy y.npy".to_owned()),
        ("zip", "zip-folders.npz", "mkdir d && cp x.npy d && zip -q -0 -r zip-folders.npz y.npy d".to_owned()),
        ("bsdtar", "bsdtar-to-pipe.npz", format!("{bsdtar} -cf - x.npy y.npy | cat > bsdtar-to-pipe.npz")),
        ("bsdtar", "bsdtar-wide.npz", format!("{bsdtar},zip:zip64 -cf - ./x.npy y.npy | cat > bsdtar-wide.npz")),
        ("bsdtar", "bsdtar-to-file.npz", format!("{bsdtar} -cf bsdtar-to-file.npz x.npy ./y.npy")),
    ];
    let mut names = vec!["python.npz", "python-wide.npz"];
    for (program, name, line) in &lines {
        match shell(folder.path(), program, line) {
            Ok(()) => names.push(name),
            Err(skip) => eprintln!("skipped: {}", skip.0),
        }
    }
    let expected = loaded_by_numpy(&python, folder.path(), &names);
    assert!(expected.len() > names.len(), "{expected:?}");
    assert_eq!(loaded_by_us(folder.path(), &names), expected);
}

#[test]
fn a_member_that_holds_no_numbers_is_left_out_alone() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    python.run(
        folder.path(),
        r#"
import zipfile, numpy as np
x, text, objects = np.arange(8.0), np.array(["ab", "cdefg"] * 4), np.array([None, "b"] * 4, dtype=object)
np.savez("text.npz", x=x, t=text, b=text.astype("S"))
np.savez("objects.npz", o=objects, x=x)
np.savez("both.npz", t=text, x=x, o=objects)
np.savez("nothing.npz", t=text, o=objects)
np.savez("fortran.npz", x=x, f=np.asfortranarray(np.ones((8, 2))))
with zipfile.ZipFile("mac.npz", "w") as archive:
    archive.mkdir("d") if hasattr(archive, "mkdir") else archive.writestr("d/", b"")
    with archive.open("x.npy", "w") as member:
        np.lib.format.write_array(member, x)
    archive.writestr("__MACOSX/._x.npy", b"\0\5\26\7junk", zipfile.ZIP_DEFLATED)
    archive.writestr("._x.npy", b"\0\5\26\7junk")
    archive.writestr("notes.txt", b"notes")
"#,
    );
    let names = ["text.npz", "objects.npz", "both.npz", "mac.npz"];
    let found = loaded_by_us(folder.path(), &names);
    assert_eq!(found, loaded_by_numpy(&python, folder.path(), &names));
    assert_eq!(found.iter().map(|(_, key, _)| &**key).collect::<Vec<_>>(), ["x"; 4]);
    let nothing = Npz::open(&[folder.path().join("nothing.npz")]).unwrap_err().to_string();
    assert!(nothing.contains("member t.npy: an array of type '<U5' is not read: its elements are texts"), "{nothing}");
    let fortran = Npz::open(&[folder.path().join("fortran.npz")]).unwrap_err().to_string();
    assert!(fortran.contains("Fortran order"), "numbers are not left out: {fortran}");
}
