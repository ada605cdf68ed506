use std::sync::Arc;

use super::error::TransformError;
use super::output::Output;
use super::sample::Sample;
use crate::dataset::TensorSpec;

/// What becomes of a sample.
///
/// It runs on several threads at once, and in any order: what comes out may depend on the sample, and on
/// [`Sample::random`], but not on what came before, or batches would not be the same again.
///
/// An error, or a panic, ends the loader with an error that names the sample, or skips it where the loader skips what is
/// corrupt. Of a panic, the program's own hook still prints its message, as for any other.
///
/// ```
/// use forebay::dataset::{DType, TensorSpec};
/// use forebay::loader::transform::{Output, Sample, Transform, TransformError};
///
/// /// Each tensor, its bytes in reverse.
/// struct Reversed;
///
/// impl Transform for Reversed {
///     fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
///         if let Some(spec) = input.iter().find(|spec| spec.dtype != DType::U8) {
///             return Err(format!("{} is of {}; only bytes are reversed", spec.name, spec.dtype).into());
///         }
///         output.extend_from_slice(input);
///         Ok(())
///     }
///
///     fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
///         for i in 0..sample.len() {
///             let reversed = sample.bytes(i).iter().rev();
///             output.bytes(i).iter_mut().zip(reversed).for_each(|(to, from)| *to = *from);
///         }
///         Ok(())
///     }
/// }
///
/// // Samples and rows can be made by hand, so that a transform can be tested alone.
/// let specs = [TensorSpec::new("x", DType::U8, [3])];
/// let mut row = [0; 3];
/// let sample = Sample::new(&specs, &[b"abc"], 0, 0, 0);
/// Reversed.apply(&sample, &mut Output::new(&specs, &mut [&mut row]))?;
/// assert_eq!(&row, b"cba");
/// # Ok::<(), TransformError>(())
/// ```
pub trait Transform: Send + Sync {
    /// What a sample of these tensors becomes: adds the tensors to `output`, which is empty.
    ///
    /// Asked for every sample, before it is read, so it should be fast: cloning a [`TensorSpec`] allocates nothing where it
    /// has no more than four dimensions, nor does pushing it.
    ///
    /// # Errors
    /// Where it cannot be made of these: an error here costs no read.
    fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError>;

    /// Fills the rows of the tensors that [`specs`](Self::specs) told, each of exactly that many bytes. What lies in the
    /// rows before is left from others: fill them whole.
    ///
    /// # Errors
    /// Where the bytes of the sample are not what they should be.
    fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError>;
}

macro_rules! transform_behind {
    ($pointer:ty) => {
        impl<T: Transform + ?Sized> Transform for $pointer {
            fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
                (**self).specs(input, output)
            }

            fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
                (**self).apply(sample, output)
            }
        }
    };
}

transform_behind!(Box<T>);
transform_behind!(Arc<T>);
transform_behind!(&T);
