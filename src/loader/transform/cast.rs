use std::sync::Arc;

use super::error::{TransformError, TransformFault};
use super::fields::{Fields, unfit};
use super::interface::Transform;
use super::number::{As, elements, is_number, places, put, with_number};
use super::output::Output;
use super::sample::Sample;
use crate::dataset::{DType, TensorSpec};

/// Elements of another type, each converted as Rust's `as` does it.
///
/// - Between integers, the low bits are kept: 300 as `U8` is 44, and -1 as `U32` is 4294967295.
/// - A float as an integer is cut towards zero and kept within what the integer holds; NaN is 0.
/// - To a float it is the nearest, ties to even; what is too large is infinite. To `F16` and `BF16` that happens twice, by
///   way of `F32`, as in PyTorch.
/// - `BOOL` is the byte that it is, 0 or 1.
///
/// Every tensor is cast, or those that [`fields`](Self::fields) names while the others pass as they are. `BOOL` is not
/// cast to, and neither to nor from are `C64` and floats of 8 bits and fewer.
///
/// ```
/// use forebay::dataset::DType;
/// use forebay::loader::transform::Cast;
///
/// let cast = Cast::to(DType::BF16).fields(["image"]);
/// ```
#[derive(Clone, Debug)]
pub struct Cast {
    to: DType,
    fields: Fields,
}

impl Cast {
    /// Casts to that type. One that cannot be is refused when a sample comes.
    pub fn to(dtype: DType) -> Self {
        Self { to: dtype, fields: Fields::All }
    }

    /// Only the tensors of these names, all of which a sample must have.
    pub fn fields<N: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.fields = Fields::named(names);
        self
    }
}

impl Transform for Cast {
    fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
        if self.to == DType::Bool || !is_number(self.to) {
            let what = format!("nothing is cast to {}", self.to);
            return Err(TransformFault::refused(what, "cast to an integer, or to a float of 16 bits or more").into());
        }
        self.fields.check(input)?;
        for spec in input {
            let chosen = self.fields.has(&spec.name);
            if chosen && !is_number(spec.dtype) {
                let fix = "name the fields to cast, without this one";
                return Err(unfit(spec, "its elements are not cast", fix).into());
            }
            let dtype = if chosen { self.to } else { spec.dtype };
            output.push(TensorSpec { dtype, ..spec.clone() });
        }
        Ok(())
    }

    fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
        for i in 0..sample.len() {
            let (spec, from) = sample.field(i)?;
            let dtype = if self.fields.has(&spec.name) { self.to } else { spec.dtype };
            let to = output.row_of(i, dtype, &spec.shape)?;
            match dtype == spec.dtype {
                true => to.copy_from_slice(from),
                false => cast(spec, from, dtype, to)?,
            }
        }
        Ok(())
    }
}

/// `to` is as long as so many elements are.
fn cast(spec: &TensorSpec, from: &[u8], dtype: DType, to: &mut [u8]) -> Result<(), TransformFault> {
    let refused = || Err(unfit(spec, format_args!("is not cast to {dtype}"), "cast numbers to numbers"));
    with_number!(spec.dtype, From => with_number!(dtype, To => {
        places::<To>(to).zip(elements::<From>(from)).for_each(|(place, element)| put::<To>(place, element.as_()));
        Ok(())
    }, else refused()), else refused())
}
