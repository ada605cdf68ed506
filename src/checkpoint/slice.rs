//! One rank's share of a tensor: its shape, and the runs of bytes that it is made of.

use super::error::CheckpointError;
use super::options::Slice;
use crate::dataset::{Shape, TensorSpec};

/// A part of a tensor, as equal runs at equal distances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) spec: TensorSpec,
    /// Where the first run begins in the tensor, in bytes.
    pub(super) start: u64,
    /// Bytes of each run.
    pub(super) len: u64,
    /// How many there are.
    pub(super) count: u64,
    /// From the beginning of one run to that of the next, in bytes.
    pub(super) stride: u64,
}

impl Share {
    pub(super) fn whole(spec: &TensorSpec, len: u64) -> Self {
        Self { spec: spec.clone(), start: 0, len, count: 1, stride: len }
    }

    /// The share of a tensor of `len` bytes.
    pub(super) fn new(spec: &TensorSpec, len: u64, slice: &Slice) -> Result<Self, CheckpointError> {
        let refused = |what: String| CheckpointError::Slice { name: spec.name.to_string(), what };
        let Some(axis) = (slice.axis)(spec) else { return Ok(Self::whole(spec, len)) };
        let Some(&dim) = spec.shape.get(axis) else {
            return Err(refused(format!("its shape {} has no dimension {axis}", spec.shape)));
        };
        if !dim.is_multiple_of(slice.world) {
            return Err(refused(format!("dimension {axis} of {} cannot be divided by {}", spec.shape, slice.world)));
        }
        let share = dim / slice.world;
        let mut shape = spec.shape.to_vec();
        shape[axis] = share;
        let spec = TensorSpec { shape: Shape::from(shape), ..spec.clone() };
        if len == 0 || share == 0 {
            return Ok(Self { spec, start: 0, len: 0, count: 1, stride: 0 });
        }
        let before: u64 = spec.shape[..axis].iter().product();
        // `before` divides the elements, of which there are some; whether it divides the bytes is another matter.
        let stride = len / before;
        let run = stride / slice.world;
        if !len.is_multiple_of(before) || !stride.is_multiple_of(slice.world) {
            return Err(refused(format!("a share of {} {} does not fill whole bytes", spec.dtype, spec.shape)));
        }
        let start = run * slice.rank;
        Ok(match before {
            1 => Self { spec, start, len: run, count: 1, stride },
            // Neighbours without a gap are one.
            _ if slice.world == 1 => Self { spec, start: 0, len, count: 1, stride: len },
            count => Self { spec, start, len: run, count, stride },
        })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.len * self.count
    }

    /// Where each run begins in the tensor, in bytes.
    pub(super) fn starts(&self) -> impl Iterator<Item = u64> {
        let (start, stride) = (self.start, self.stride);
        (0..self.count).map(move |i| start + i * stride)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::dataset::DType;

    fn slice(rank: u64, world: u64, axis: usize) -> Slice {
        Slice { rank, world, axis: Arc::new(move |_| Some(axis)) }
    }

    proptest! {
        /// The oracle: elements numbered row by row, and taken by their coordinate on the axis.
        #[test]
        fn the_runs_are_the_elements_whose_coordinate_is_in_the_share(
            mut shape in prop::collection::vec(1_u64..5, 1..5), axis: prop::sample::Index, world in 1_u64..4, share in 0_u64..3, rank_of: prop::sample::Index
        ) {
            let axis = axis.index(shape.len());
            shape[axis] = share * world;
            let rank = rank_of.index(world as usize) as u64;
            let spec = TensorSpec::new("t", DType::U16, shape.clone());
            let len = spec.bytes().unwrap();
            let got = Share::new(&spec, len, &slice(rank, world, axis)).unwrap();
            let inner: u64 = shape[axis + 1..].iter().product();
            let wanted: Vec<u64> = (0..len / 2)
                .filter(|element| {
                    let coordinate = element / inner % shape[axis];
                    (rank * share..(rank + 1) * share).contains(&coordinate)
                })
                .flat_map(|element| [2 * element, 2 * element + 1])
                .collect();
            let bytes: Vec<u64> = got.starts().flat_map(|start| start..start + got.len).collect();
            prop_assert_eq!(bytes, wanted);
            prop_assert_eq!(got.spec.bytes(), Some(got.bytes()));
        }
    }

    #[test]
    fn what_cannot_be_divided_is_refused_with_the_tensor() {
        let refused = |shape: &[u64], dtype, axis, world| {
            let spec = TensorSpec::new("t", dtype, Shape::new(shape));
            Share::new(&spec, spec.bytes().unwrap(), &slice(0, world, axis)).unwrap_err().to_string()
        };
        assert!(refused(&[5, 4], DType::F32, 0, 2).contains("\"t\": dimension 0 of [5, 4] cannot be divided by 2"));
        assert!(refused(&[4], DType::F32, 1, 2).contains("has no dimension 1"));
        assert!(refused(&[], DType::F32, 0, 2).contains("has no dimension 0"));
        assert!(refused(&[4, 2], DType::F4, 1, 2).contains("whole bytes"));
    }
}
