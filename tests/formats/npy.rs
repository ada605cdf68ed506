//! Arrays against numpy, which writes them.
use std::fs;
use std::path::{Path, PathBuf};

use forebay::dataset::{DType, Dataset, Npy};

use crate::common::folder;
use crate::common::python::Python;
use crate::common::work::within;
use crate::{bytes, or_skip};

/// Files that numpy 2.4.6 has written: `numpy.arange(6, dtype)`, as two rows of three, in the format's three versions.
#[test]
fn files_that_numpy_has_written_are_read() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/data");
    let npy = Npy::open(&[data.join("v1.npy")]).unwrap();
    assert_eq!(npy.len(), 2);
    assert_eq!(npy.sample(1).unwrap().tensors()[0].dtype, DType::I16);
    assert_eq!(bytes::of(&npy, 1), [("v1".to_owned(), vec![3, 0, 4, 0, 5, 0])]);
    for (name, dtype, element) in [("v2", DType::U8, 1), ("v3", DType::F32, 4)] {
        let npy = Npy::open(&[data.join(name).with_extension("npy")]).unwrap();
        let sample = npy.sample(0).unwrap();
        assert_eq!((sample.tensors()[0].dtype, sample.bytes()), (dtype, 3 * element));
    }
}

/// Each piece of advice is taken, and then the file opens.
#[test]
fn what_is_not_read_is_answered_with_what_works() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    for (kind, expression) in [
        ("V1", "view('u1')"),
        ("V2", "view('<u2')"),
        ("V4", "view('<u4')"),
        ("V8", "view('<u8')"),
        ("V3", "view('u1')"),
    ] {
        let path = folder.path().join(kind).with_extension("npy");
        python.run(
            folder.path(),
            &format!(
                "import numpy as np
array = np.frombuffer(bytes(range(24)), '{kind}')
np.save('{kind}.npy', array)
np.save('{kind}-saved.npy', array.{expression})"
            ),
        );
        let said = Npy::open(&[&path]).unwrap_err().to_string();
        assert!(said.contains(expression), "{kind}: {said}");
        let saved = Npy::open(&[folder.path().join(format!("{kind}-saved.npy"))]).unwrap();
        let read: Vec<u8> = (0..saved.len()).flat_map(|i| bytes::of(&saved, i)[0].1.clone()).collect();
        assert_eq!(read, (0..24).collect::<Vec<u8>>(), "{kind}");
        // The names that ml_dtypes gives to the same bits.
        for (other, is_of) in [("<f1", "V1"), ("<V2", "V2"), ("<V1", "V1")] {
            if is_of == kind {
                let named = fs::read(&path).unwrap();
                let at = named.windows(3).position(|it| it[0] == b'|' && it[1..] == *kind.as_bytes()).unwrap();
                let named = [&named[..at], other.as_bytes(), &named[at + 3..]].concat();
                let path = folder.path().join("named.npy");
                fs::write(&path, named).unwrap();
                let said = Npy::open(&[&path]).unwrap_err().to_string();
                assert!(said.contains(expression), "{other}: {said}");
            }
        }
    }
    let said = Npy::open(&[folder.path().join("V2.npy")]).unwrap_err().to_string();
    assert!(said.contains("bfloat16"), "{said}");
}

/// Each type, version and number of dimensions from 1 to 4, with empty ones, rows and arrays.
#[test]
fn what_numpy_writes_is_read_back_equal() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    let said = python.run(
        folder.path(),
        r#"
import numpy as np, warnings
rng = np.random.default_rng(1)
shapes = [(0,), (1,), (7,), (0, 3), (3, 0), (4, 5), (2, 1, 3), (2, 0, 3), (2, 3, 1, 2), (1, 1, 1, 1)]
n = 0
for kind in ["?", "u1", "i1", "<u2", "<i2", "<f2", "<u4", "<i4", "<f4", "<c8", "<u8", "<i8", "<f8"]:
    for version in [(1, 0), (2, 0), (3, 0)]:
        for shape in shapes:
            a = np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(kind).itemsize), np.dtype(kind)).reshape(shape)
            with open(f"{n}.npy", "wb") as f:
                warnings.simplefilter("ignore")
                np.lib.format.write_array(f, a, version=version)
            open(f"{n}.raw", "wb").write(a.tobytes())
            print(n, a.dtype.itemsize * 8, a.dtype.name, *shape)
            n += 1
"#,
    );
    let mut files = 0;
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let shape: Vec<u64> = words[3..].iter().map(|dim| dim.parse().unwrap()).collect();
        let npy = Npy::open(&[folder.path().join(words[0]).with_extension("npy")]).unwrap();
        assert_eq!(npy.len(), shape[0], "{line}");
        let mut read = Vec::new();
        for row in 0..npy.len() {
            let sample = npy.sample(row).unwrap();
            let spec = &sample.tensors()[0];
            assert_eq!(&spec.shape[..], &shape[1..], "{line}");
            assert_eq!((spec.dtype.bits().to_string(), named(spec.dtype)), (words[1].into(), words[2]), "{line}");
            read.extend(bytes::of(&npy, row).remove(0).1);
        }
        assert!(read == fs::read(folder.path().join(words[0]).with_extension("raw")).unwrap(), "{line}");
        files += 1;
    }
    assert_eq!(files, 13 * 3 * 10);
}

/// What numpy calls a type.
fn named(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "uint8",
        DType::I8 => "int8",
        DType::U16 => "uint16",
        DType::I16 => "int16",
        DType::F16 => "float16",
        DType::U32 => "uint32",
        DType::I32 => "int32",
        DType::F32 => "float32",
        DType::C64 => "complex64",
        DType::U64 => "uint64",
        DType::I64 => "int64",
        DType::F64 => "float64",
        other => panic!("{other} is none of numpy's"),
    }
}

/// Equal, or refused with a fix: never transposed, swapped or unpickled.
#[test]
fn what_numpy_writes_in_other_ways_is_refused() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    python.run(
        folder.path(),
        r#"
import numpy as np
a = np.arange(6, dtype="<f4").reshape(2, 3)
np.save("fortran.npy", np.asfortranarray(a))
np.save("big.npy", a.astype(">f4"))
np.save("objects.npy", np.array([1, "x", None], dtype=object))
np.save("structures.npy", np.zeros(3, dtype=[("x", "<f4"), ("y", "<i2")]))
np.save("texts.npy", np.array(["a", "bc"]))
np.save("bytes.npy", np.array([b"a", b"bc"]))
np.save("times.npy", np.array(["2020-01-01"], dtype="M8[D]"))
np.save("complex.npy", np.zeros(3, dtype="<c16"))
np.save("void.npy", np.zeros(3, dtype="V2"))
np.save("scalar.npy", np.float32(1))
with open("two.npy", "wb") as f:
    np.save(f, a)
    np.save(f, a)
np.save("one_column.npy", np.asfortranarray(a[:, :1]))
"#,
    );
    let open = |name: &str| Npy::open(&[folder.path().join(name).with_extension("npy")]);
    for (name, advice) in [
        ("fortran", "ascontiguousarray"),
        ("big", "newbyteorder"),
        ("objects", "never unpickled"),
        ("structures", "array['field']"),
        ("texts", "texts"),
        ("bytes", "texts"),
        ("times", "view('<i8')"),
        ("complex", "'<c8'"),
        ("void", "view('<u2')"),
        ("scalar", "atleast_1d"),
        ("two", "a file of its own"),
    ] {
        let error = open(name).expect_err(name).to_string();
        assert!(error.contains(advice), "{error}");
    }
    assert_eq!(bytes::of(&open("one_column").unwrap(), 1)[0].1, 3_f32.to_le_bytes());
}

/// The other way round: numpy takes what is taken here, and refuses what breaks its rules.
#[test]
fn numpy_agrees_on_headers_that_somebody_else_wrote() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    let headers = [
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", true),
        ("{'shape': (2,), 'fortran_order': False, 'descr': '<f4'}", true),
        ("{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(2,),}", true),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }", true),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': ( 2 , 1 , )}\n", true),
        ("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2)}", true),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", false),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': [2]}", false),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", false),
        ("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", false),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", false),
        ("{'descr': '<f4', 'fortran_order': False}", false),
        ("{'descr': '<q9', 'fortran_order': False, 'shape': (2,)}", false),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", false),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", false),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (8589934592, 8589934592)}", false),
    ];
    let mut here = String::new();
    for (i, (header, _)) in headers.iter().enumerate() {
        let path = folder.path().join(format!("{i}.npy"));
        let mut file = b"\x93NUMPY\x01\0".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend([0; 8]);
        fs::write(&path, file).unwrap();
        here.push_str(if Npy::open(&[path]).is_ok() { "yes\n" } else { "no\n" });
    }
    let script = r#"
import numpy as np, warnings
warnings.simplefilter("ignore")
for i in range(COUNT):
    try:
        np.load(f"{i}.npy")
        print("yes")
    except Exception:
        print("no")
"#;
    let there = python.run(folder.path(), &script.replace("COUNT", &headers.len().to_string()));
    let expected: String = headers.iter().map(|(_, taken)| if *taken { "yes\n" } else { "no\n" }).collect();
    assert_eq!((here, there), (expected.clone(), expected));
}

#[test]
fn rows_cost_nothing_until_they_are_asked_for() {
    let folder = folder();
    let head = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/data/v2.npy")).unwrap();
    let many = String::from_utf8_lossy(&head[12..128]).replace("(2, 3)", "(1000000, 3)");
    let path = folder.path().join("many.npy");
    fs::write(&path, [&head[..12], &many.as_bytes()[..115], b"\n"].concat()).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(128 + 3_000_000).unwrap();
    // A step for each row would be a unit at least.
    let npy = within(1, "a million rows", || Npy::open(&[path]).unwrap());
    assert_eq!(npy.len(), 1_000_000);
    assert_eq!(npy.sample(999_999).unwrap().ranges()[0].offset, 128 + 2_999_997);
    assert_eq!((&*npy.id(7), npy.stored().count()), ("7", 1));

    let paths: Vec<PathBuf> = (0..2000).map(|i| folder.path().join(format!("{i}.npy"))).collect();
    for path in &paths {
        fs::write(path, &head).unwrap();
    }
    let npy = within(200, "2,000 files", || Npy::open(&paths).unwrap());
    assert_eq!(npy.len(), 4000);
}

#[test]
fn a_name_that_is_no_text_is_read() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let path: PathBuf = folder.path().join(std::ffi::OsStr::from_bytes(b"a\xff.npy"));
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/data/v1.npy"), &path).unwrap();
    assert_eq!(bytes::of(&Npy::open(&[path]).unwrap(), 0)[0].0, "a\\xff");
}
