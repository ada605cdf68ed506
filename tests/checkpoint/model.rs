//! Checkpoints to load, and what the safetensors crate says is in them.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay::checkpoint::Checkpoint;
use safetensors::Dtype;

use crate::common::weights::{self, Seen, Tensor};
use crate::common::{Rng, folder};

/// Files in a folder, which is gone when this is.
#[derive(Debug)]
pub struct Model {
    pub dir: tempfile::TempDir,
    pub files: Vec<PathBuf>,
}

impl Model {
    /// As the crate writes them: `model-0.safetensors` and so on.
    pub fn of(files: &[Vec<Tensor>]) -> Model {
        let dir = folder();
        let files: Vec<PathBuf> = files
            .iter()
            .enumerate()
            .map(|(i, tensors)| weights::write(dir.path(), format!("model-{i:04}.safetensors"), tensors))
            .collect();
        files.iter().for_each(|file| crate::common::data::drop_cache(file).unwrap());
        Model { dir, files }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Every tensor of every file, by name.
    pub fn oracle(&self) -> Vec<Seen> {
        let mut all: Vec<Seen> =
            self.files.iter().flat_map(|file| weights::oracle(&std::fs::read(file).unwrap()).unwrap()).collect();
        all.sort();
        all
    }

    /// Maps every tensor to its file.
    pub fn index(&self) -> PathBuf {
        let mut map = BTreeMap::new();
        for file in &self.files {
            for (name, ..) in weights::oracle(&std::fs::read(file).unwrap()).unwrap() {
                map.insert(name, file.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
        let map: Vec<(&str, &str)> = map.iter().map(|(name, file)| (name.as_str(), file.as_str())).collect();
        weights::write_index(self.path(), &map)
    }
}

/// Tensors of many types and lengths, with scalars, ones without bytes, and ends that no block has.
pub fn mixed(prefix: &str, seed: u64) -> Vec<Tensor> {
    let mut rng = Rng::new(seed + 1);
    let dtypes = [Dtype::F32, Dtype::BF16, Dtype::U8, Dtype::I64, Dtype::F8_E4M3, Dtype::F16];
    let mut tensors = vec![
        Tensor::new(format!("{prefix}scalar"), Dtype::I64, &[], seed * 1000),
        Tensor::new(format!("{prefix}none"), Dtype::F32, &[0, 7], seed * 1000 + 1),
        Tensor::new(format!("{prefix}four"), Dtype::F4, &[3, 6], seed * 1000 + 2),
        Tensor::new(format!("{prefix}large"), Dtype::BF16, &[301, 1009], seed * 1000 + 3),
    ];
    for i in 0..20 {
        let dtype = dtypes[rng.below(6) as usize];
        let shape: Vec<usize> = (0..rng.below(4)).map(|_| rng.below(20) as usize + 1).collect();
        tensors.push(Tensor::new(format!("{prefix}layers.{i}.größe"), dtype, &shape, seed * 1000 + 10 + i));
    }
    tensors
}

/// Looks at every tensor of what was loaded.
pub fn check(loaded: &Checkpoint, wanted: &[Seen]) {
    let names: Vec<&str> = loaded.tensors().iter().map(|tensor| tensor.name()).collect();
    let wanted_names: Vec<&str> = wanted.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, wanted_names);
    for (tensor, (name, dtype, shape, bytes)) in loaded.tensors().iter().zip(wanted) {
        assert_eq!((tensor.dtype().name(), tensor.shape().to_vec()), (dtype.as_str(), shape.clone()), "{name}");
        assert_eq!((tensor.len(), tensor.is_empty()), (bytes.len(), bytes.is_empty()), "{name}");
        let got = loaded.to_host(tensor).unwrap();
        crate::common::data::same(&got, bytes, 0).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        if let Some(host) = tensor.host() {
            assert!(host[..] == bytes[..], "{name}: to_host is right and host is not");
        }
        assert_eq!(loaded.tensor(name).unwrap().spec(), tensor.spec());
    }
    let bytes: usize = wanted.iter().map(|(.., bytes)| bytes.len()).sum();
    assert_eq!(loaded.carried().total(), bytes as u64, "every byte is counted once: {}", loaded.carried());
}
