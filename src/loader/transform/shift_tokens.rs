use std::sync::Arc;

use super::error::{TransformError, TransformFault};
use super::fields::{missing, push_new, unfit};
use super::interface::Transform;
use super::number::{elements, places, put};
use super::output::Output;
use super::sample::Sample;
use crate::dataset::{DType, Shape, TensorSpec};

/// A window of tokens as what a language model reads and what it is to say: `tokens` of `[T + 1]` become `inputs` of `[T]`,
/// all but the last, and `targets` of `[T]`, all but the first.
///
/// Both are of `U32`, or of `I64` where [`dtype`](Self::dtype) asks for it. Tokens may be of `U8`, `U16`, `U32`, `I32` or
/// `I64`; one that the other type cannot hold, such as a negative one in `U32`, is an error and never another token. Other
/// tensors pass as they are, behind the two.
#[derive(Clone, Debug)]
pub struct ShiftTokens {
    field: Arc<str>,
    dtype: DType,
    inputs: Arc<str>,
    targets: Arc<str>,
}

impl ShiftTokens {
    /// From the tensor `tokens`, to `U32`.
    pub fn new() -> Self {
        Self { field: "tokens".into(), dtype: DType::U32, inputs: "inputs".into(), targets: "targets".into() }
    }

    /// The tensor that has the tokens, in place of `tokens`.
    pub fn field(mut self, name: impl Into<Arc<str>>) -> Self {
        self.field = name.into();
        self
    }

    /// The type of inputs and targets, `U32` or `I64`. Another is refused when a sample comes.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Which tensor has the tokens, and the shape of what becomes of them.
    fn find(&self, input: &[TensorSpec]) -> Result<(usize, Shape), TransformFault> {
        if !matches!(self.dtype, DType::U32 | DType::I64) {
            let what = format!("tokens do not become {}", self.dtype);
            return Err(TransformFault::refused(what, "ask for U32 or I64, and cast that"));
        }
        let at = input.iter().position(|spec| spec.name == self.field);
        let (at, spec) = at.and_then(|at| Some((at, input.get(at)?))).ok_or_else(|| missing(&self.field, input))?;
        if !matches!(spec.dtype, DType::U8 | DType::U16 | DType::U32 | DType::I32 | DType::I64) {
            return Err(unfit(spec, "tokens are of U8, U16, U32, I32 or I64", "name the tensor that has tokens"));
        }
        let [tokens] = spec.shape[..] else {
            return Err(unfit(spec, "a window of tokens has one dimension", "name the tensor that has tokens"));
        };
        let shifted = tokens.checked_sub(1);
        let shifted = shifted.ok_or_else(|| unfit(spec, "has no token to begin from", "leave empty samples out"))?;
        Ok((at, Shape::new(&[shifted])))
    }
}

impl Default for ShiftTokens {
    fn default() -> Self {
        Self::new()
    }
}

impl Transform for ShiftTokens {
    fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
        let (at, shape) = self.find(input)?;
        output.push(TensorSpec { name: self.inputs.clone(), dtype: self.dtype, shape: shape.clone() });
        output.push(TensorSpec { name: self.targets.clone(), dtype: self.dtype, shape });
        for (_, spec) in input.iter().enumerate().filter(|(i, _)| *i != at) {
            push_new(output, &spec.name, spec.dtype, spec.shape.clone(), "give the sample's tensor another name")?;
        }
        Ok(())
    }

    fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
        let (at, shape) = self.find(sample.specs())?;
        let (spec, tokens) = sample.field(at)?;
        let token_bytes = (spec.dtype.bits() / 8) as usize;
        let shifted = tokens.len().saturating_sub(token_bytes);
        let (inputs, targets) = (tokens.get(..shifted), tokens.get(token_bytes..));
        for (row, tokens) in [inputs, targets].into_iter().enumerate() {
            let to = output.row_of(row, self.dtype, &shape)?;
            shift(spec, tokens.unwrap_or_default(), self.dtype, to).map_err(|(i, token)| {
                let what = format!("token {} of {} is {token}, which {} does not hold", row + i, spec.name, self.dtype);
                TransformFault::refused(what, "ask for I64, or mend the data")
            })?;
        }
        let others = (0..sample.len()).filter(|i| *i != at);
        for (row, i) in (2..).zip(others) {
            let (spec, bytes) = sample.field(i)?;
            output.row_of(row, spec.dtype, &spec.shape)?.copy_from_slice(bytes);
        }
        Ok(())
    }
}

/// Fills `to` with these tokens, or tells the first that its type does not hold, by its number.
fn shift(spec: &TensorSpec, from: &[u8], dtype: DType, to: &mut [u8]) -> Result<(), (usize, i64)> {
    match (spec.dtype, dtype) {
        (DType::U8, DType::I64) => each::<u8, i64>(from, to),
        (DType::U8, _) => each::<u8, u32>(from, to),
        (DType::U16, DType::I64) => each::<u16, i64>(from, to),
        (DType::U16, _) => each::<u16, u32>(from, to),
        (DType::U32, DType::I64) => each::<u32, i64>(from, to),
        (DType::U32, _) => each::<u32, u32>(from, to),
        (DType::I32, DType::I64) => each::<i32, i64>(from, to),
        (DType::I32, _) => each::<i32, u32>(from, to),
        (_, DType::I64) => each::<i64, i64>(from, to),
        _ => each::<i64, u32>(from, to),
    }
}

fn each<From, To>(from: &[u8], to: &mut [u8]) -> Result<(), (usize, i64)>
where
    From: bytemuck::Pod + Into<i64>,
    To: bytemuck::Pod + TryFrom<From>,
{
    for (i, (place, token)) in places::<To>(to).zip(elements::<From>(from)).enumerate() {
        put(place, To::try_from(token).map_err(|_| (i, token.into()))?);
    }
    Ok(())
}
