//! JSON lines.

use serde::Serialize;

use crate::failure::Failure;

/// One object as one line, without the newline.
pub fn line(object: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(object)
        .map_err(|error| Failure::Error(format!("cannot write JSON: {error}; please report this")))
}

/// What is wrong with text that is not the JSON that it should be. No reader of JSON takes a byte order mark, which some
/// editors write and none shows.
pub fn fault(text: &[u8], error: &serde_json::Error) -> String {
    match text {
        [0xef, 0xbb, 0xbf, ..] | [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            "it begins with a byte order mark: save it as UTF-8 without one".to_owned()
        }
        _ => error.to_string(),
    }
}
