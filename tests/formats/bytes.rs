//! The bytes of samples, read with `std::fs` from the places that a dataset names.
use std::fs::File;
use std::os::unix::fs::FileExt;

use forebay::dataset::Dataset;

/// The bytes of each tensor of a sample, by name.
pub fn of(dataset: &dyn Dataset, index: u64) -> Vec<(String, Vec<u8>)> {
    let sample = dataset.sample(index).unwrap();
    let bytes_of = |ranges: &[forebay::dataset::FileRange]| {
        let mut bytes = Vec::new();
        for range in ranges {
            let start = bytes.len();
            bytes.resize(start + range.len as usize, 0);
            let file = File::open(dataset.files()[range.file as usize].path()).unwrap();
            file.read_exact_at(&mut bytes[start..], range.offset).unwrap();
        }
        bytes
    };
    let mut fields = Vec::new();
    for (spec, ranges) in sample.fields() {
        let bytes = bytes_of(ranges);
        assert_eq!(Some(bytes.len() as u64), spec.bytes(), "{spec:?}: its places hold what its type and shape say");
        fields.push((spec.name.to_string(), bytes));
    }
    fields
}
