//! Tensors that are no samples: each keeps its name.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::contents::{Contents, Give, Limits, Shard, add_bytes, check_bytes};
use super::error::PackError;
use super::header::{Header, METADATA, json_bytes};
use super::options::PackOptions;
use super::rows::reserved;
use crate::dataset::{Layout, StoredTensor, StoredTensors};

pub(super) struct Tensors {
    /// Those of each file, wide types first.
    shards: Vec<Vec<StoredTensor>>,
    data: u64,
}

impl Tensors {
    pub(super) fn new(tensors: StoredTensors<'_>, limits: Limits) -> Result<Self, PackError> {
        let mut names = HashSet::new();
        let mut all = Self { shards: Vec::new(), data: 0 };
        let (mut shard, mut data, mut json) = (Vec::new(), 0, 0_u64);
        for tensor in tensors {
            let tensor = tensor?;
            let name = &tensor.spec.name;
            let bytes = check(&tensor)?;
            if !names.insert(Arc::clone(name)) {
                return Err(PackError::tensor(name, "another one is called so, too", "name each of them once"));
            }
            let text = json_bytes(name, &tensor.spec);
            let is_full = add_bytes(data, bytes)? > limits.data || json.saturating_add(text) > limits.json;
            if is_full && !shard.is_empty() {
                all.shards.push(std::mem::take(&mut shard));
                (data, json) = (0, 0);
            }
            shard.push(tensor);
            data = add_bytes(data, bytes)?;
            json = json.saturating_add(text);
            all.data = add_bytes(all.data, bytes)?;
        }
        if shard.is_empty() {
            return Err(PackError::setting("there are no tensors", "give files that have some"));
        }
        all.shards.push(shard);
        for shard in &mut all.shards {
            let key = |tensor: &StoredTensor| (Reverse(tensor.spec.dtype), Arc::clone(&tensor.spec.name));
            shard.sort_by_cached_key(key);
        }
        Ok(all)
    }
}

fn check(tensor: &StoredTensor) -> Result<u64, PackError> {
    let name = &tensor.spec.name;
    if **name == *METADATA {
        return Err(reserved(name));
    }
    check_bytes(&tensor.spec, &[tensor.range]).map_err(|what| PackError::tensor(name, what, "correct the dataset"))
}

impl Contents for Tensors {
    fn layout(&self) -> Layout {
        Layout::Tensors
    }

    fn shards(&self) -> usize {
        self.shards.len()
    }

    fn data_bytes(&self) -> u64 {
        self.data
    }

    fn shard(&self, number: usize, options: &PackOptions) -> Result<Shard, PackError> {
        let mut header = Header::new(Layout::Tensors, options, None);
        for tensor in self.shards.get(number).into_iter().flatten() {
            header.add(&tensor.spec.name, &tensor.spec, None, tensor.range.len);
        }
        Shard::new(header, 0)
    }

    /// As Hugging Face writes it beside a model in several files.
    fn index(&self, files: &[PathBuf]) -> Option<String> {
        if files.len() < 2 {
            return None;
        }
        let mut weight_map = serde_json::Map::new();
        for (tensors, path) in self.shards.iter().zip(files) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            weight_map.extend(tensors.iter().map(|tensor| (tensor.spec.name.to_string(), name.as_ref().into())));
        }
        let index = serde_json::json!({ "metadata": { "total_size": self.data }, "weight_map": weight_map });
        Some(format!("{index:#}\n"))
    }

    fn ranges(&self, number: usize, give: Give<'_>) -> Result<(), PackError> {
        self.shards.get(number).into_iter().flatten().try_for_each(|tensor| give(tensor.range, None))
    }
}
