//! What packed files hold, by the safetensors crate and by the Python package.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use forebay::pack::Packed;
use safetensors::SafeTensors;
use serde_json::Value;

use crate::common::python::Python;
use crate::made::Sample;

#[derive(Debug, PartialEq, Eq)]
pub struct Held {
    pub dtype: String,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}

pub type Tensors = BTreeMap<String, Held>;

/// All tensors of a file. Its data begins on a block and each tensor at a multiple of its element's size.
pub fn of_file(path: &Path) -> Tensors {
    let bytes = fs::read(path).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(header.is_multiple_of(4096), "{path:?}: data at {header}");
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = file.tensors().into_iter().map(|(name, view)| {
        let place = view.data().as_ptr() as usize - bytes.as_ptr() as usize;
        let size = (view.dtype().bitsize() / 8).max(1);
        assert!((place - header as usize).is_multiple_of(size), "{name}: {} at {place}", view.dtype());
        let shape = view.shape().iter().map(|&dim| dim as u64).collect();
        (name, Held { dtype: view.dtype().to_string(), shape, bytes: view.data().to_vec() })
    });
    tensors.collect()
}

/// The same as Python reads it.
pub fn of_file_in_python(python: &Python, path: &Path) -> Tensors {
    let script = "import json, sys, safetensors\n\
        data = open('FILE', 'rb').read()\n\
        for name, it in safetensors.deserialize(data):\n    \
            print(json.dumps([name, it['dtype'], it['shape'], bytes(it['data']).hex()]))\n";
    let name = path.file_name().unwrap().to_str().unwrap();
    let said = python.run(path.parent().unwrap(), &script.replace("FILE", name));
    let tensors = said.lines().map(|line| {
        let (name, dtype, shape, hex): (String, String, Vec<u64>, String) = serde_json::from_str(line).unwrap();
        let bytes =
            hex.as_bytes().chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap());
        (name, Held { dtype, shape, bytes: bytes.collect() })
    });
    tensors.collect()
}

/// The entries of `__metadata__`.
pub fn metadata_of(path: &Path) -> BTreeMap<String, String> {
    let bytes = fs::read(path).unwrap();
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let json: Value = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    serde_json::from_value(json["__metadata__"].clone()).unwrap()
}

/// Each field of all samples as one tensor.
pub fn rows(samples: &[Sample]) -> Tensors {
    let mut tensors = Tensors::new();
    for (_, fields) in samples {
        for field in fields {
            let held = tensors.entry(field.spec.name.to_string()).or_insert_with(|| Held {
                dtype: field.spec.dtype.to_string(),
                shape: [0].iter().chain(field.spec.shape.iter()).copied().collect(),
                bytes: Vec::new(),
            });
            held.shape[0] += 1;
            held.bytes.extend_from_slice(&field.bytes);
        }
    }
    tensors
}

/// Each field of each sample by itself.
pub fn singles(samples: &[Sample]) -> Tensors {
    let of_sample = |(id, fields): &Sample| {
        let held = fields.iter().map(|field| Held {
            dtype: field.spec.dtype.to_string(),
            shape: field.spec.shape.to_vec(),
            bytes: field.bytes.clone(),
        });
        fields.iter().map(|field| format!("{id}.{}", field.spec.name)).zip(held).collect::<Vec<_>>()
    };
    samples.iter().flat_map(of_sample).collect()
}

/// Sees that what was packed is all that is in `folder`, and says of itself what it is.
pub fn check(packed: &Packed, folder: &Path) {
    let mut found: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    // Sources of a test, and the index of a model in several files.
    found.retain(|path| path.extension().is_none_or(|extension| extension != "data" && extension != "json"));
    found.sort();
    assert_eq!(found, packed.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>());
    let mut sums = [0; 3];
    for file in &packed.files {
        let held = of_file(&file.path);
        assert_eq!((file.bytes, file.tensors), (fs::metadata(&file.path).unwrap().len(), held.len() as u64));
        assert_eq!(metadata_of(&file.path)["forebay.layout"], packed.layout.name());
        sums = [sums[0] + file.samples, sums[1] + file.tensors, sums[2] + file.bytes];
    }
    assert_eq!(sums, [packed.samples, packed.tensors, packed.bytes]);
}

/// The tensors of all files, whose names are all different.
pub fn of_files(packed: &Packed) -> Tensors {
    let mut all = Tensors::new();
    for (name, held) in packed.files.iter().flat_map(|file| of_file(&file.path)) {
        assert!(all.insert(name.clone(), held).is_none(), "{name} is in two files");
    }
    all
}
