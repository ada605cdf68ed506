//! Tensors as samples: row i of each.
use std::path::PathBuf;

use forebay::dataset::{DType, Dataset, DatasetFault, Safetensors};
use safetensors::Dtype;

use crate::bytes;
use crate::common::folder;
use crate::common::weights::{Tensor, entry, file, write};
use crate::common::work::within;

fn images(rows: usize, seed: u64) -> Tensor {
    Tensor::new("image", Dtype::U8, &[rows, 2, 3], seed)
}

fn labels(rows: usize, seed: u64) -> Tensor {
    Tensor::new("label", Dtype::I64, &[rows], seed)
}

/// The bytes of row `i`, cut by hand.
fn row(tensor: &Tensor, i: usize) -> (String, Vec<u8>) {
    let len = tensor.bytes.len() / tensor.shape[0];
    (tensor.name.clone(), tensor.bytes[i * len..(i + 1) * len].to_vec())
}

#[test]
fn sample_i_is_row_i_of_each_tensor_in_the_order_of_their_data() {
    let folder = folder();
    let (images, labels) = (images(5, 1), labels(5, 2));
    let path = write(folder.path(), "a.safetensors", &[images.clone(), labels.clone()]);
    let opened = Safetensors::open(&[&path]).unwrap().check_samples().unwrap();
    assert_eq!(opened.len(), 5);
    for i in 0..5 {
        // The crate writes the widest type first.
        assert_eq!(bytes::of(&opened, i), [row(&labels, i as usize), row(&images, i as usize)]);
        assert_eq!(opened.id(i), i.to_string());
    }
    let sample = opened.sample(0).unwrap();
    let specs: Vec<_> = sample.tensors().iter().map(|spec| (&*spec.name, spec.dtype, spec.shape.to_string())).collect();
    assert_eq!(specs, [("label", DType::I64, "[]".to_owned()), ("image", DType::U8, "[2, 3]".to_owned())]);
    for past in [5, 6, u64::MAX] {
        let error = opened.sample(past).unwrap_err();
        assert!(matches!(error.fault, DatasetFault::NoSample { len: 5, .. }), "{error}");
    }
    assert_eq!(opened.stored().count(), 2);
}

#[test]
fn shards_follow_one_another_in_the_order_given() {
    let folder = folder();
    let counts = [3, 0, 1, 0, 4, 0];
    let shards: Vec<(Tensor, Tensor)> =
        (0..).zip(counts).map(|(i, rows)| (images(rows, i), labels(rows, 100 + i))).collect();
    let paths: Vec<PathBuf> = shards
        .iter()
        .zip(0..)
        .map(|((images, labels), i)| match i % 2 {
            0 => write(folder.path(), format!("{i}"), &[images.clone(), labels.clone()]),
            // Their data in another order.
            _ => {
                let path = folder.path().join(format!("{i}"));
                let (image, label) = (images.bytes.len() as u64, labels.bytes.len() as u64);
                let rows = images.shape[0] as u64;
                let header = format!(
                    "{{{},{}}}",
                    entry("image", "U8", &[rows, 2, 3], 0, image),
                    entry("label", "I64", &[rows], image, image + label)
                );
                std::fs::write(&path, file(header, &[&images.bytes[..], &labels.bytes].concat())).unwrap();
                path
            }
        })
        .collect();
    let opened = Safetensors::open(&paths).unwrap().check_samples().unwrap();
    assert!(opened.is_sharded());
    assert_eq!(opened.len(), 8);
    let wanted: Vec<_> = shards
        .iter()
        .flat_map(|(images, labels)| (0..images.shape[0]).map(|i| vec![row(labels, i), row(images, i)]))
        .collect();
    for (i, wanted) in wanted.iter().enumerate() {
        assert_eq!(&bytes::of(&opened, i as u64), wanted, "sample {i}");
    }
    assert!(opened.sample(8).is_err());
    let turned: Vec<&PathBuf> = paths.iter().rev().collect();
    let turned = Safetensors::open(&turned).unwrap();
    // Fields are in the order of the first file's data, and the file that is now the first has the other.
    let [label, image] = &wanted[4][..] else { panic!() };
    assert_eq!(bytes::of(&turned, 0), [image.clone(), label.clone()]);
    assert_ne!(turned.fingerprint(), opened.fingerprint());
}

#[test]
fn files_of_different_tensors_belong_together() {
    let folder = folder();
    let a = write(folder.path(), "a", &[images(4, 1)]);
    let b = write(folder.path(), "b", &[labels(4, 2)]);
    let opened = Safetensors::open(&[a, b]).unwrap().check_samples().unwrap();
    assert!(!opened.is_sharded());
    assert_eq!(opened.len(), 4);
    assert_eq!(bytes::of(&opened, 2), [row(&images(4, 1), 2), row(&labels(4, 2), 2)]);
}

#[test]
fn what_has_no_rows_is_refused_with_the_reason_and_is_still_a_checkpoint() {
    let folder = folder();
    let of = |name: &str, tensors: &[Tensor]| write(folder.path(), name, tensors);
    let scalar = Tensor::new("step", Dtype::I64, &[], 1);
    let four = Tensor::new("four", Dtype::F4, &[6], 2);
    let alike = of("alike", &[images(3, 3), labels(3, 4)]);
    let empty = folder.path().join("empty");
    std::fs::write(&empty, file("{}", b"")).unwrap();
    let wide = Tensor::new("image", Dtype::U8, &[3, 2, 4], 5);
    let other = Tensor::new("image", Dtype::I8, &[3, 2, 3], 5);
    let more = Tensor::new("more", Dtype::U8, &[3], 5);
    let cases: Vec<(Vec<PathBuf>, usize, Vec<&str>)> = vec![
        (vec![of("scalar", &[scalar])], 0, vec!["\"step\" is a scalar"]),
        (vec![of("four", std::slice::from_ref(&four))], 0, vec!["a row of tensor \"four\", F4 []", "whole bytes"]),
        (vec![of("counts", &[images(3, 1), labels(4, 2)])], 0, vec!["\"image\" has 3 rows", "\"label\" has 4"]),
        (vec![empty.clone()], 0, vec!["there are no tensors"]),
        (vec![alike.clone(), empty.clone(), alike.clone()], 1, vec!["there are no tensors"]),
        (
            vec![alike.clone(), of("wide", &[wide, labels(3, 1)])],
            1,
            vec!["\"image\" is U8 [2, 4]", "U8 [2, 3]", "alike"],
        ),
        (vec![alike.clone(), of("other", &[other, labels(3, 1)])], 1, vec!["\"image\" is I8 [2, 3]", "U8 [2, 3]"]),
        (vec![alike.clone(), of("fewer", &[images(3, 1)])], 1, vec!["it has no tensor \"label\""]),
        (vec![alike.clone(), of("more", &[images(3, 1), labels(3, 2), more])], 1, vec!["a tensor \"more\" more"]),
    ];
    for (paths, blamed, words) in cases {
        let opened = Safetensors::open(&paths).unwrap();
        assert_eq!(opened.len(), 0);
        assert!(opened.sample(0).is_err());
        let error = opened.check_samples().unwrap_err();
        assert_eq!(error.path, paths[blamed], "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{error} lacks {word}");
        }
    }
    // Two values of half a byte are a row.
    let even = Tensor::new("four", Dtype::F4, &[3, 2], 2);
    let opened = Safetensors::open(&[of("even", std::slice::from_ref(&even))]).unwrap().check_samples().unwrap();
    assert_eq!(bytes::of(&opened, 1), [row(&even, 1)]);
}

/// Not as many looks as the square of the tensors, for each shard.
#[test]
fn shards_of_many_tensors_open_soon() {
    let folder = folder();
    let tensors: Vec<Tensor> = (0..20_000).map(|i| Tensor::new(format!("t{i}"), Dtype::U8, &[2], i)).collect();
    let paths: Vec<PathBuf> = (0..3).map(|i| write(folder.path(), format!("{i}"), &tensors)).collect();
    // The square of them would be 1,200 units of steps alone.
    let opened =
        within(400, "3 shards of 20,000 tensors", || Safetensors::open(&paths).unwrap().check_samples().unwrap());
    assert_eq!(opened.len(), 6);
}

#[test]
fn rows_of_no_bytes_and_rows_beyond_count_are_safe() {
    let folder = folder();
    let path = folder.path().join("endless");
    let header = format!("{{{}}}", entry("a", "F32", &[1 << 63, 0], 0, 0));
    std::fs::write(&path, file(header, b"")).unwrap();
    let opened = Safetensors::open(&[&path]).unwrap();
    assert_eq!(opened.len(), 1 << 63);
    assert_eq!(opened.sample((1 << 63) - 1).unwrap().bytes(), 0);
    let error = Safetensors::open(&[&path, &path]).unwrap().check_samples().unwrap_err();
    assert!(error.to_string().contains("more rows than can be counted"), "{error}");
}
