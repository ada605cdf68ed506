use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::dtype::DType;

/// The lengths of a tensor's dimensions, the outermost first; of a scalar there are none. Up to four lie in the value
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape(SmallVec<[u64; 4]>);

impl Shape {
    /// The shape of these dimensions.
    pub fn new(dims: &[u64]) -> Self {
        Self(SmallVec::from_slice(dims))
    }

    /// Elements in all; `None` where they are more than a `u64` counts.
    pub fn elements(&self) -> Option<u64> {
        // Nothing times too much is nothing.
        if self.0.contains(&0) {
            return Some(0);
        }
        self.0.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim))
    }

    /// Bytes of a tensor of this shape, its elements one after the other; `None` where they do not fill whole bytes or
    /// are more than a `u64` counts.
    pub fn bytes(&self, dtype: DType) -> Option<u64> {
        dtype.bytes(self.elements()?)
    }

    /// The shape of one row: without the first dimension. `None` of a scalar.
    pub fn row(&self) -> Option<Shape> {
        self.0.split_first().map(|(_, rest)| Self::new(rest))
    }
}

impl Deref for Shape {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.0
    }
}

impl<const N: usize> From<[u64; N]> for Shape {
    fn from(dims: [u64; N]) -> Self {
        Self::new(&dims)
    }
}

impl FromIterator<u64> for Shape {
    fn from_iter<I: IntoIterator<Item = u64>>(dims: I) -> Self {
        Self(dims.into_iter().collect())
    }
}

impl From<Vec<u64>> for Shape {
    fn from(dims: Vec<u64>) -> Self {
        Self(SmallVec::from_vec(dims))
    }
}

impl Serialize for Shape {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_have_one_element_and_empty_tensors_none() {
        assert_eq!(Shape::new(&[]).elements(), Some(1));
        assert_eq!(Shape::new(&[u64::MAX, u64::MAX, 0]).elements(), Some(0));
        assert_eq!(Shape::new(&[1 << 33, 1 << 33]).elements(), None);
        assert_eq!(Shape::new(&[3]).bytes(DType::F4), None);
        assert_eq!(Shape::new(&[2, 3]).to_string(), "[2, 3]");
        assert_eq!(Shape::new(&[2, 3]).row(), Some([3].into()));
        assert_eq!(Shape::new(&[]).row(), None);
    }
}
