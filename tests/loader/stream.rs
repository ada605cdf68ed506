//! A loader's batches as plain values, and what the sampler and `std::fs` say they should be.
use std::path::Path;
use std::sync::Arc;

use forebay::dataset::{self, Dataset, OpenOptions};
use forebay::sampler::{Order, Sampler};
use forebay::{Batch, Loader, LoaderBuilder, LoaderError, Missing, Remainder, Shuffle, World};

use crate::{bytes, common::data};

/// A field of a sample: its name, shape and bytes.
pub type Row = (String, Vec<u64>, Vec<u8>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub epoch: u64,
    pub number: u64,
    pub position: u64,
    pub padded: u64,
    pub indices: Vec<u64>,
    /// The fields of each sample, sorted by name: a batch has them in one order, whichever its samples have.
    pub rows: Vec<Vec<Row>>,
}

pub fn taken(batch: &Batch) -> Taken {
    let rows = (0..batch.len()).map(|row| {
        let fields = batch.tensors().filter_map(|tensor| {
            let shape = tensor.row_shape(row)?.to_vec();
            Some((tensor.name().to_owned(), shape, tensor.row(row).unwrap().to_vec()))
        });
        sorted(fields.collect())
    });
    Taken {
        epoch: batch.epoch(),
        number: batch.number(),
        position: batch.position(),
        padded: batch.padded(),
        indices: batch.indices().to_vec(),
        rows: rows.collect(),
    }
}

fn sorted(mut fields: Vec<Row>) -> Vec<Row> {
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields
}

/// All that a loader gives, and the error it ends with, behind which it must give nothing.
pub fn drained(loader: &mut Loader) -> (Vec<Taken>, Option<LoaderError>) {
    let mut all = Vec::new();
    while let Some(batch) = loader.blocking().next() {
        match batch {
            Ok(batch) => all.push(taken(&batch)),
            Err(error) => {
                assert!(loader.blocking().next().is_none(), "nothing comes after an error");
                return (all, Some(error));
            }
        }
    }
    assert!(loader.blocking().next().is_none(), "nothing comes after the end");
    (all, None)
}

/// All that a loader gives without an error.
pub fn all(mut loader: Loader) -> Vec<Taken> {
    let (all, error) = drained(&mut loader);
    assert!(error.is_none(), "{error:?}");
    all
}

/// A sample as `std::fs` reads it.
pub fn sample(dataset: &dyn Dataset, index: u64) -> Vec<Row> {
    let spec = dataset.sample(index).unwrap();
    let fields = bytes::of(dataset, index).into_iter().zip(spec.tensors());
    sorted(fields.map(|((name, bytes), tensor)| (name, tensor.shape.to_vec(), bytes)).collect())
}

/// The settings on which the stream may depend.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub world: World,
    pub batch_size: u64,
    pub shuffle: Shuffle,
    pub seed: u64,
    pub remainder: Remainder,
    pub drop_last: bool,
    pub epochs: u64,
}

impl Setting {
    pub fn new(batch_size: u64) -> Self {
        Self {
            world: World::single(),
            batch_size,
            shuffle: Shuffle::Full,
            seed: 7,
            remainder: Remainder::Pad,
            drop_last: false,
            epochs: 1,
        }
    }

    /// Two workers and a few MiB.
    pub fn builder(self, dataset: &Arc<dyn Dataset>) -> LoaderBuilder {
        Loader::builder(Arc::clone(dataset))
            .world(self.world)
            .batch_size(self.batch_size)
            .shuffle(self.shuffle)
            .seed(self.seed)
            .remainder(self.remainder)
            .drop_last(self.drop_last)
            .epochs(self.epochs)
            .workers(2)
            // Some of the datasets here have samples with other fields than others.
            .missing(Missing::Allow)
            .budget(4 << 20)
    }

    /// What the sampler and plain reads say; `None` where this rank has no batch.
    pub fn expected(self, dataset: &dyn Dataset) -> Option<Vec<Taken>> {
        let order = Order::new(&dataset.fingerprint(), dataset.len(), self.seed, self.shuffle);
        let epochs = Some(self.epochs);
        let sampler = Sampler::new(order, self.world, self.batch_size, self.remainder, self.drop_last, epochs);
        let mut sampler = sampler.ok()?;
        let mut steps = Vec::new();
        let mut indices = Vec::new();
        while let Some(step) = sampler.next_step(&mut indices) {
            steps.push(Taken {
                epoch: step.at.epoch,
                number: step.at.batch,
                position: step.at.position,
                padded: step.padded,
                rows: indices.iter().map(|&index| sample(dataset, index)).collect(),
                indices: std::mem::take(&mut indices),
            });
        }
        Some(steps)
    }
}

/// Says where two streams differ without printing all their bytes.
pub fn assert_same(got: &[Taken], want: &[Taken], what: &str) {
    for (got, want) in got.iter().zip(want) {
        if got == want {
            continue;
        }
        let place = |taken: &Taken| (taken.epoch, taken.number, taken.position, taken.padded, taken.indices.clone());
        assert_eq!(place(got), place(want), "{what}");
        for ((index, got), want) in got.indices.iter().zip(&got.rows).zip(&want.rows) {
            let shapes = |rows: &[Row]| rows.iter().map(|row| (row.0.clone(), row.1.clone())).collect::<Vec<_>>();
            assert_eq!(shapes(got), shapes(want), "{what}: sample {index}");
            assert!(got == want, "{what}: WRONG BYTES in sample {index}");
        }
        panic!("{what}: they differ");
    }
    assert_eq!(got.len(), want.len(), "{what}: batches");
}

/// Self-describing records: record `i` holds what the file has from `i * bytes` on.
pub fn records(folder: &Path, name: &str, bytes: u64, count: u64) -> Arc<dyn Dataset> {
    let path = folder.join(name);
    data::write_dense(&path, count, bytes * count).unwrap();
    open_records(&[path], bytes)
}

pub fn open_records(paths: &[impl AsRef<Path>], bytes: u64) -> Arc<dyn Dataset> {
    dataset::open(paths, &OpenOptions::new().format(dataset::Format::Records).record_bytes(bytes)).unwrap().into()
}
