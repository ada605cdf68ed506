//! Safetensors files, sound and broken, and the safetensors crate as the oracle of both.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

/// A file of this header and this data.
pub fn file(header: impl AsRef<[u8]>, data: &[u8]) -> Vec<u8> {
    let header = header.as_ref();
    [&(header.len() as u64).to_le_bytes()[..], header, data].concat()
}

/// What a header says of one tensor.
pub fn entry(name: &str, dtype: &str, shape: &[u64], from: u64, to: u64) -> String {
    format!("{name:?}:{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{from},{to}]}}")
}

/// A tensor to be written.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// With bytes that are its own: no other seed has the same.
    pub fn new(name: impl Into<String>, dtype: Dtype, shape: &[usize], seed: u64) -> Tensor {
        let bits = shape.iter().product::<usize>() * dtype.bitsize();
        assert_eq!(bits % 8, 0);
        let mut bytes = vec![0; bits / 8];
        super::data::fill(&mut bytes, seed, 0);
        Tensor { name: name.into(), dtype, shape: shape.to_vec(), bytes }
    }
}

/// A file as the safetensors crate writes it.
pub fn serialize(tensors: &[Tensor]) -> Vec<u8> {
    let views = tensors.iter().map(|Tensor { name, dtype, shape, bytes }| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

/// Writes such a file, synced, so that its pages can be dropped.
pub fn write(folder: &Path, name: impl AsRef<std::ffi::OsStr>, tensors: &[Tensor]) -> PathBuf {
    let path = folder.join(name.as_ref());
    std::fs::write(&path, serialize(tensors)).unwrap();
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    path
}

/// Writes an index that maps tensors to files.
pub fn write_index(folder: &Path, map: &[(&str, &str)]) -> PathBuf {
    let map: BTreeMap<_, _> = map.iter().copied().collect();
    let json = serde_json::json!({ "metadata": { "total_size": 0 }, "weight_map": map });
    let path = folder.join("model.safetensors.index.json");
    std::fs::write(&path, json.to_string()).unwrap();
    path
}

/// A tensor as the oracle sees it: name, type, shape and bytes.
pub type Seen = (String, String, Vec<u64>, Vec<u8>);

/// What the safetensors crate makes of a file's bytes, by name.
pub fn oracle(bytes: &[u8]) -> Result<Vec<Seen>, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut seen: Vec<Seen> = file
        .iter()
        .map(|(name, view)| {
            let shape = view.shape().iter().map(|&dim| dim as u64).collect();
            (name.to_owned(), view.dtype().to_string(), shape, view.data().to_vec())
        })
        .collect();
    seen.sort();
    Ok(seen)
}
