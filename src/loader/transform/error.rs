use crate::dataset::{DType, Shape, TensorSpec, brief};

/// Why a transform failed: any error. The loader adds which sample it was.
pub type TransformError = Box<dyn std::error::Error + Send + Sync>;

/// What this crate itself finds wrong with a transform, or the transforms that it brings with a sample. A
/// [`TransformError`] that is one can be told by `downcast_ref`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransformFault {
    /// A tensor is asked for by a number that none has.
    #[error("tensor {index} is asked for, and there are {count}; ask for one of those that `specs` tells")]
    NoTensor {
        /// The number.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A tensor is asked for as of another type than it is.
    #[error("{name} is asked for as {asked}, and is of {present}; ask for its own type, or for its bytes")]
    OtherType {
        /// The tensor's name.
        name: String,
        /// The type that is asked for.
        asked: DType,
        /// Its type.
        present: DType,
    },
    /// A tensor's memory is not as long as its type and shape say.
    #[error("{name} of {dtype} {shape} comes in {len} bytes; give as many as its type and shape say")]
    Length {
        /// The tensor's name.
        name: String,
        /// Its type.
        dtype: DType,
        /// Its shape.
        shape: Shape,
        /// Bytes there are.
        len: usize,
    },
    /// A row does not lie where numbers of its type may be written.
    #[error("the row of {name} is not aligned for {dtype}; write its bytes, or give memory that is aligned")]
    Misaligned {
        /// The tensor's name.
        name: String,
        /// Its type.
        dtype: DType,
    },
    /// A transform does not take such samples, or was given a setting that makes no sense.
    #[error("{what}; {fix}")]
    Refused {
        /// What is wrong.
        what: String,
        /// What to do.
        fix: String,
    },
    /// A transform panicked.
    #[error("the transform panicked: {message}; mend it, or return an error there")]
    Panicked {
        /// What the panic said.
        message: String,
    },
}

impl TransformFault {
    /// What is wrong, and what to do; on one line whatever names they hold.
    pub(crate) fn refused(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Refused { what: brief(what.into()), fix: brief(fix.into()) }
    }

    pub(crate) fn length(spec: &TensorSpec, len: usize) -> Self {
        Self::Length { name: brief(spec.name.to_string()), dtype: spec.dtype, shape: spec.shape.clone(), len }
    }
}
