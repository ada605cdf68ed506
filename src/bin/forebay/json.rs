//! JSON lines.

use serde::Serialize;

use crate::failure::Failure;

/// One object as one line, without the newline.
pub fn line(object: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(object)
        .map_err(|error| Failure::Error(format!("cannot write JSON: {error}; please report this")))
}
