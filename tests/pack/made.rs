//! Datasets made for these tests: what their samples hold is known, and lies anywhere in two files.
use std::borrow::Cow;
use std::fs;
use std::path::Path;

use forebay::dataset::{
    DType, DataFile, Dataset, DatasetError, Fields, FileRange, Fingerprint, SampleSpec, TensorSpec,
};

use crate::common::Rng;

#[derive(Debug)]
pub struct Tensor {
    pub spec: TensorSpec,
    pub bytes: Vec<u8>,
}

/// A tensor of bytes in which every position can be told from its neighbours.
pub fn tensor(name: &str, dtype: DType, shape: &[u64], seed: u64) -> Tensor {
    let spec = TensorSpec::new(name, dtype, shape.to_vec());
    let mut bytes = vec![0; spec.bytes().unwrap() as usize];
    crate::common::data::fill(&mut bytes, seed, 0);
    Tensor { spec, bytes }
}

pub type Sample = (String, Vec<Tensor>);

pub fn sample(id: impl ToString, tensors: impl IntoIterator<Item = Tensor>) -> Sample {
    (id.to_string(), tensors.into_iter().collect())
}

#[derive(Debug)]
pub struct Made {
    pub files: Vec<DataFile>,
    pub samples: Vec<(String, SampleSpec)>,
}

impl Made {
    /// Writes the payload to two files in `folder`, at odd offsets, in pieces and in an order of its own.
    pub fn new(folder: &Path, samples: &[Sample]) -> Made {
        Made::scattered(folder, samples, 3)
    }

    /// The same, each tensor in at most so many pieces.
    pub fn scattered(folder: &Path, samples: &[Sample], pieces: u64) -> Made {
        let mut rng = Rng::new(samples.len() as u64);
        let mut contents = [Vec::new(), vec![0xee; 5]];
        let mut specs: Vec<Option<SampleSpec>> = samples.iter().map(|_| None).collect();
        let mut order: Vec<usize> = (0..samples.len()).collect();
        rng.shuffle(&mut order);
        for i in order {
            let mut spec = SampleSpec::new();
            for tensor in &samples[i].1 {
                let mut ranges = Vec::new();
                let mut rest = tensor.bytes.as_slice();
                for piece in (1..=pieces).rev() {
                    let len = if piece == 1 { rest.len() } else { rng.below(rest.len() as u64 + 1) as usize };
                    let file = rng.below(2) as usize;
                    ranges.push(FileRange { file: file as u32, offset: contents[file].len() as u64, len: len as u64 });
                    contents[file].extend_from_slice(&rest[..len]);
                    contents[file].resize(contents[file].len() + rng.below(9) as usize, 0xee);
                    rest = &rest[len..];
                }
                spec.push(tensor.spec.clone(), ranges);
            }
            specs[i] = Some(spec);
        }
        let files = ["one.data", "two.data"].iter().zip(contents).map(|(name, bytes)| {
            fs::write(folder.join(name), bytes).unwrap();
            DataFile::new(folder.join(name)).unwrap()
        });
        let files = files.collect();
        let samples = samples.iter().zip(specs).map(|((id, _), spec)| (id.clone(), spec.unwrap())).collect();
        Made { files, samples }
    }
}

impl Dataset for Made {
    fn len(&self) -> u64 {
        self.samples.len() as u64
    }

    fn files(&self) -> &[DataFile] {
        &self.files
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let (_, spec) = self.samples.get(index as usize).ok_or(DatasetError::no_sample(index, self.len()))?;
        spec.fields().for_each(|(tensor, ranges)| sample.push(tensor.clone(), ranges.iter().copied()));
        Ok(())
    }

    fn fields(&self) -> Option<Fields> {
        Some(Fields::of_all(self).unwrap())
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("made", "", self.len(), &self.files)
    }

    fn id(&self, index: u64) -> Cow<'_, str> {
        Cow::Borrowed(&self.samples[index as usize].0)
    }
}

/// Samples of the same tensors: wide and narrow types, half bytes, nothing at all, in an order that is not aligned.
pub fn uniform(samples: u64) -> Vec<Sample> {
    (0..samples)
        .map(|i| {
            let tensors = [
                tensor("label", DType::U8, &[], 10 * i),
                tensor("image", DType::F32, &[3, 5], 10 * i + 1),
                tensor("empty", DType::I64, &[0, 7], 0),
                tensor("half", DType::F4, &[6], 10 * i + 2),
                tensor("wide", DType::F64, &[1], 10 * i + 3),
                tensor("mask", DType::Bool, &[11], 10 * i + 4),
                tensor("brain", DType::BF16, &[2, 2], 10 * i + 5),
                tensor("scale", DType::F8E8M0, &[3], 10 * i + 6),
            ];
            sample(i, tensors)
        })
        .collect()
}

/// Samples of bytes of any length, as of archives.
pub fn varying(samples: u64, most: u64) -> Vec<Sample> {
    let mut rng = Rng::new(samples);
    (0..samples)
        .map(|i| {
            let mut tensors = vec![tensor("jpg", DType::U8, &[rng.below(most + 1)], 10 * i)];
            if i % 3 != 1 {
                tensors.push(tensor("cls", DType::U8, &[1], 10 * i + 1));
            }
            sample(format!("{i:06}"), tensors)
        })
        .collect()
}
