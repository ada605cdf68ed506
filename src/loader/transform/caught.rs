//! A panic in somebody's transform is an error of its sample's.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::error::{TransformError, TransformFault};
use super::interface::Transform;
use super::output::Output;
use super::sample::Sample;
use crate::dataset::{TensorSpec, brief};

/// [`Transform::specs`], where a panic is an error that carries what it said. The program's panic hook has printed it.
pub(crate) fn specs_caught(
    transform: &dyn Transform,
    input: &[TensorSpec],
    output: &mut Vec<TensorSpec>,
) -> Result<(), TransformError> {
    caught(|| transform.specs(input, output))
}

/// [`Transform::apply`], where a panic is an error that carries what it said. The program's panic hook has printed it.
pub(crate) fn apply_caught(
    transform: &dyn Transform,
    sample: &Sample<'_>,
    output: &mut Output<'_, '_>,
) -> Result<(), TransformError> {
    caught(|| transform.apply(sample, output))
}

/// Whatever `f` leaves half done is never looked at: the caller gives up the sample.
pub(super) fn caught<T>(f: impl FnOnce() -> Result<T, TransformError>) -> Result<T, TransformError> {
    panicking(f).unwrap_or_else(|message| Err(TransformFault::Panicked { message }.into()))
}

/// What `f` gives, or what it said when it panicked. Whatever it leaves half done must not be looked at.
pub(crate) fn panicking<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| brief(message_of(payload)))
}

fn message_of(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<String>() {
        Ok(message) => return *message,
        Err(payload) => payload,
    };
    match payload.downcast::<&str>() {
        Ok(message) => (*message).to_owned(),
        Err(payload) => {
            // Dropping what is not known may panic again.
            std::mem::forget(payload);
            "with something that is no text".to_owned()
        }
    }
}
