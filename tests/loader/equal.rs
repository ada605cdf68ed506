use std::path::{Path, PathBuf};

use forebay::dataset::{self, DType, Dataset, OpenOptions};
use forebay::{Batch, Loader, Shuffle};

/// What a dataset's sample has, by plain reads.
pub fn oracle(dataset: &dyn Dataset, index: u64) -> Vec<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let sample = dataset.sample(index).unwrap();
    sample
        .fields()
        .map(|(_, ranges)| {
            let mut bytes = Vec::new();
            for range in ranges {
                let file = std::fs::File::open(dataset.files()[range.file as usize].path()).unwrap();
                let mut piece = vec![0; range.len as usize];
                file.read_exact_at(&mut piece, range.offset).unwrap();
                bytes.extend(piece);
            }
            bytes
        })
        .collect()
}

pub fn records(folder: &Path, bytes: usize, count: usize) -> PathBuf {
    let path = folder.join("records.bin");
    let data: Vec<u8> = (0..bytes * count).map(|i| (i ^ (i >> 8) ^ (i >> 13)) as u8).collect();
    std::fs::write(&path, data).unwrap();
    path
}

pub fn check(dataset: &dyn Dataset, batch: &Batch) {
    for (row, &index) in batch.indices().iter().enumerate() {
        let expected = oracle(dataset, index);
        let spec = dataset.sample(index).unwrap();
        for (field, bytes) in spec.tensors().iter().zip(expected) {
            let tensor = batch.tensor(&field.name).unwrap();
            assert!(tensor.row_to_host(row).unwrap().unwrap() == bytes, "sample {index}, row {row}");
        }
    }
}

#[test]
fn every_sample_of_an_epoch_comes_once_with_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for (bytes, count) in [(153_600, 100), (4096, 1000), (1000, 333), (131_072, 64)] {
        let path = records(folder.path(), bytes, count);
        let options = OpenOptions::new().record_bytes(bytes as u64);
        let dataset = std::sync::Arc::new(dataset::open(&[&path], &options).unwrap());
        for (shuffle, workers) in [(Shuffle::Full, 0), (Shuffle::Full, 2), (Shuffle::None, 1)] {
            let mut loader = Loader::builder(std::sync::Arc::clone(&dataset))
                .batch_size(7)
                .shuffle(shuffle)
                .workers(workers)
                .budget(32 << 20)
                .build()
                .unwrap();
            let mut seen = vec![0; count];
            for batch in loader.blocking() {
                let batch = batch.unwrap();
                batch.indices().iter().for_each(|&index| seen[index as usize] += 1);
                check(&*dataset, &batch);
            }
            assert!(seen.iter().all(|&times| times == 1));
            println!("{:?}", loader.stats());
        }
    }
    let _ = DType::U8;
}
