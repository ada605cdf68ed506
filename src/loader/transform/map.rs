use std::fmt;

use super::error::TransformError;
use super::interface::Transform;
use super::output::Output;
use super::sample::Sample;
use crate::dataset::TensorSpec;

/// A closure as a [`Transform`]: every sample becomes tensors of the same names, types and shapes.
///
/// ```
/// use forebay::dataset::{DType, TensorSpec};
/// use forebay::loader::transform::{Map, Output, Sample, Transform};
///
/// let mean = Map::new([TensorSpec::new("mean", DType::F32, [])], |sample, output| {
///     let values = sample.slice::<f32>(0)?;
///     output.slice::<f32>(0)?[0] = values.iter().sum::<f32>() / values.len() as f32;
///     Ok(())
/// });
///
/// let input = [TensorSpec::new("x", DType::F32, [2])];
/// let mut specs = Vec::new();
/// mean.specs(&input, &mut specs)?;
/// let bytes: Vec<u8> = [1.0_f32, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
/// let mut row = [0.0_f32];
/// let row_bytes = bytemuck::cast_slice_mut(&mut row);
/// mean.apply(&Sample::new(&input, &[&bytes], 0, 0, 0), &mut Output::new(&specs, &mut [row_bytes]))?;
/// assert_eq!(row, [2.5]);
/// # Ok::<(), forebay::loader::transform::TransformError>(())
/// ```
pub struct Map<F> {
    specs: Vec<TensorSpec>,
    f: F,
}

impl<F> Map<F>
where
    F: Fn(&Sample<'_>, &mut Output<'_, '_>) -> Result<(), TransformError> + Send + Sync,
{
    /// `f` fills rows of these tensors from whatever a sample is. What it cannot be made of is an error of `f`.
    pub fn new(specs: impl Into<Vec<TensorSpec>>, f: F) -> Self {
        Self { specs: specs.into(), f }
    }
}

impl<F> Transform for Map<F>
where
    F: Fn(&Sample<'_>, &mut Output<'_, '_>) -> Result<(), TransformError> + Send + Sync,
{
    fn specs(&self, _: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
        output.extend_from_slice(&self.specs);
        Ok(())
    }

    fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
        (self.f)(sample, output)
    }
}

impl<F> fmt::Debug for Map<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("specs", &self.specs).finish_non_exhaustive()
    }
}
