//! A rank's share of each tensor, against plain loops over the whole.
use forebay::checkpoint::{LoadOptions, load};
use forebay::dataset::TensorSpec;
use forebay::{Carrier, Device, Route};
use safetensors::Dtype;

use crate::common::reader;
use crate::common::weights::{Seen, Tensor};
use crate::model::{Model, check};

/// The oracle: of every element in order, whether its coordinate on the axis is the rank's.
pub fn share(seen: &Seen, axis: Option<usize>, rank: u64, world: u64) -> Seen {
    let (name, dtype, shape, bytes) = seen.clone();
    let Some(axis) = axis else { return (name, dtype, shape, bytes) };
    let elements: u64 = shape.iter().product();
    let mut part = shape.clone();
    part[axis] /= world;
    if elements == 0 {
        return (name, dtype, part, Vec::new());
    }
    let inner: u64 = shape[axis + 1..].iter().product();
    let size = bytes.len() as u64 / elements;
    let mut taken = Vec::new();
    for element in 0..elements {
        let coordinate = element / inner % shape[axis];
        if coordinate / part[axis] == rank {
            taken.extend_from_slice(&bytes[(element * size) as usize..((element + 1) * size) as usize]);
        }
    }
    (name, dtype, part, taken)
}

/// Dimensions that 1, 2, 3 and 4 divide.
pub fn divisible() -> Model {
    let tensor = |name: &str, dtype, shape: &[usize], seed| Tensor::new(name, dtype, shape, seed);
    let first = vec![
        tensor("cube", Dtype::F32, &[12, 24, 36], 1),
        tensor("wide", Dtype::BF16, &[12, 12, 1200], 2),
        tensor("bytes", Dtype::U8, &[12, 12, 12, 5], 3),
        tensor("none", Dtype::F32, &[12, 0, 12], 4),
        tensor("vector", Dtype::F16, &[24], 5),
        tensor("scalar", Dtype::I64, &[], 6),
    ];
    let second = vec![tensor("deep", Dtype::I64, &[12, 12, 12], 7), tensor("norm", Dtype::BF16, &[33], 8)];
    Model::of(&[first, second])
}

/// Along `axis` what has three dimensions at least; the rest whole.
pub fn axis_of(shape: &[u64], axis: usize) -> Option<usize> {
    (shape.len() >= 3).then_some(axis)
}

pub fn wanted(oracle: &[Seen], axis: usize, rank: u64, world: u64) -> Vec<Seen> {
    oracle.iter().map(|seen| share(seen, axis_of(&seen.2, axis), rank, world)).collect()
}

pub fn options(axis: usize, rank: u64, world: u64) -> LoadOptions {
    LoadOptions::new().tensor_parallel(rank, world, move |spec: &TensorSpec| axis_of(&spec.shape, axis))
}

#[test]
fn the_shares_of_all_ranks_are_what_plain_loops_cut() {
    let model = divisible();
    let oracle = model.oracle();
    for axis in 0..3 {
        for world in 1..=4 {
            for rank in 0..world {
                let loaded = load(model.path(), &Device::host(), &options(axis, rank, world)).unwrap();
                check(&loaded, &wanted(&oracle, axis, rank, world));
            }
        }
    }
}

#[test]
fn shares_by_each_engine_and_route_of_the_host() {
    let model = divisible();
    let oracle = model.oracle();
    for engine in reader::engines() {
        for route in [None, Some(Route::Bounce), Some(Route::Cached)] {
            for axis in 0..3 {
                let builder = Carrier::builder().reader(forebay::Reader::builder().engine(engine));
                let builder = route.into_iter().fold(builder, |builder, route| builder.route(route));
                let options = options(axis, 1, 3);
                check(
                    &load(model.path(), &Device::host(), &options.clone().carrier(builder.clone())).unwrap(),
                    &wanted(&oracle, axis, 1, 3),
                );
                let carrier = builder.device(&Device::host()).budget(4 << 20).build().unwrap();
                let options = options.with(&carrier);
                check(&load(model.path(), &Device::host(), &options).unwrap(), &wanted(&oracle, axis, 1, 3));
            }
        }
    }
}

/// Only tensors that are cut inside: nothing is read as it lies.
#[test]
fn shares_that_are_all_cut_inside() {
    let model =
        Model::of(&[vec![Tensor::new("a", Dtype::F32, &[64, 64], 1), Tensor::new("b", Dtype::U8, &[3, 2, 1], 2)]]);
    for (rank, world) in [(0, 2), (1, 2)] {
        let options = LoadOptions::new().tensor_parallel(rank, world, |_| Some(1));
        let wanted: Vec<Seen> = model.oracle().iter().map(|seen| share(seen, Some(1), rank, world)).collect();
        check(&load(model.path(), &Device::host(), &options).unwrap(), &wanted);
        check(&load(model.path(), &Device::host(), &options.budget(1 << 20)).unwrap(), &wanted);
    }
}

#[test]
fn shares_and_selections_go_together() {
    let model = divisible();
    let options = options(2, 0, 2).names(["cube", "norm", "none"]);
    let wanted: Vec<Seen> = wanted(&model.oracle(), 2, 0, 2)
        .into_iter()
        .filter(|seen| ["cube", "norm", "none"].contains(&seen.0.as_str()))
        .collect();
    check(&load(model.path(), &Device::host(), &options).unwrap(), &wanted);
}

#[test]
fn what_cannot_be_divided_is_refused_by_name() {
    let model = divisible();
    let refused = |options: LoadOptions| load(model.path(), &Device::host(), &options).unwrap_err().to_string();
    assert!(refused(options(0, 0, 5)).contains("cannot be divided by 5"));
    assert!(refused(LoadOptions::new().tensor_parallel(2, 2, |_| None)).contains("rank 2 of 2"));
    assert!(refused(LoadOptions::new().tensor_parallel(0, 0, |_| None)).contains("rank 0 of 0"));
    let said = refused(LoadOptions::new().tensor_parallel(0, 2, |spec| Some(spec.shape.len())));
    assert!(said.contains("has no dimension"), "{said}");
    // One that is not wanted need not be divisible.
    let options = LoadOptions::new().names(["cube"]).tensor_parallel(0, 2, |_| Some(1));
    assert_eq!(load(model.path(), &Device::host(), &options).unwrap().tensors()[0].shape().to_vec(), [12, 12, 36]);
}
