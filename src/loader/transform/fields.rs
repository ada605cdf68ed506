use std::sync::Arc;

use super::error::TransformFault;
use crate::dataset::{DType, Shape, TensorSpec};

/// Where the channels of a picture, or of whatever has some, lie in its shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Channels {
    /// In the last dimension, as in `[height, width, channels]`.
    #[default]
    Last,
    /// In the first dimension, as in `[channels, height, width]`.
    First,
}

/// Which tensors of a sample a transform is for.
#[derive(Clone, Debug, Default)]
pub(super) enum Fields {
    #[default]
    All,
    Named(Vec<Arc<str>>),
}

impl Fields {
    pub(super) fn named<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        Self::Named(names.into_iter().map(Into::into).collect())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.iter().any(|named| &**named == name),
        }
    }

    /// A name that no tensor has is a slip of the pen, and would leave a tensor as it is without a word.
    pub(super) fn check(&self, input: &[TensorSpec]) -> Result<(), TransformFault> {
        let Self::Named(names) = self else { return Ok(()) };
        let has = |name: &Arc<str>| input.iter().any(|spec| spec.name == *name);
        match names.iter().find(|name| !has(name)) {
            Some(name) => Err(missing(name, input)),
            None => Ok(()),
        }
    }
}

/// A sample of these tensors has none of that name.
pub(super) fn missing(name: &str, input: &[TensorSpec]) -> TransformFault {
    let names: Vec<&str> = input.iter().map(|spec| &*spec.name).collect();
    TransformFault::refused(
        format!(
            "there is no tensor called {name}, but {}",
            if names.is_empty() { "none".into() } else { names.join(", ") }
        ),
        "name one that the sample has",
    )
}

/// Such a tensor is not taken.
pub(super) fn unfit(spec: &TensorSpec, what: impl std::fmt::Display, fix: impl Into<String>) -> TransformFault {
    TransformFault::refused(format!("{} is of {} {}, and {what}", spec.name, spec.dtype, spec.shape), fix)
}

/// Adds a tensor of a new name.
pub(super) fn push_new(
    output: &mut Vec<TensorSpec>,
    name: &Arc<str>,
    dtype: DType,
    shape: Shape,
    fix: &str,
) -> Result<(), TransformFault> {
    if output.iter().any(|spec| spec.name == *name) {
        return Err(TransformFault::refused(format!("two tensors would be called {name}"), fix));
    }
    output.push(TensorSpec { name: name.clone(), dtype, shape });
    Ok(())
}
