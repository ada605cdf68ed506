//! The header of one file: 8 bytes of length, JSON, and the data behind it. The format's source is the safetensors crate,
//! whose metadata type parses and checks it.

use std::collections::HashMap;

use safetensors::tensor::Metadata;

use super::diagnosis;
use super::listing::Listing;
use crate::dataset::dtype::DType;
use crate::dataset::error::{DatasetError, DatasetFault};
use crate::dataset::foreign;
use crate::dataset::open::in_place_of_safetensors;
use crate::dataset::shape::Shape;
use crate::dataset::source::Source;
use crate::dataset::spec::TensorSpec;
use crate::sys::text::{WITHOUT_MARK, byte_order_mark};

/// Bytes of the longest header that is read, as in the safetensors crate.
pub(crate) const HEADER_CAP: u64 = 100_000_000;

/// Bytes of the length in front.
const LENGTH: u64 = 8;

const FIX: &str = "get the file again, or write it anew";

/// What a file holds, in the order of its data.
#[derive(Debug)]
pub(crate) struct Header {
    /// Each with the offset of its first byte in the file.
    pub(crate) tensors: Vec<(TensorSpec, u64)>,
    pub(crate) metadata: HashMap<String, String>,
}

/// Whether a file that begins so is one: the length of a header, and a JSON object that may be one.
pub(crate) fn looks_like(head: &[u8], file_len: u64) -> bool {
    let Some((length, json)) = head.split_first_chunk::<8>() else { return false };
    let length = u64::from_le_bytes(*length);
    (2..=HEADER_CAP).contains(&length) && length + LENGTH <= file_len && is_object(json, length)
}

/// Whether what there is of the header is the text of a JSON object: numbers of 64 bits begin with a small one and with 123,
/// which is `{`, too often.
fn is_object(json: &[u8], length: u64) -> bool {
    let text = &json[..json.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
    let begun = text.trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    let is_text = match str::from_utf8(text) {
        Ok(_) => true,
        // Its last character goes on behind what was read.
        Err(error) => error.error_len().is_none(),
    };
    matches!(begun, Some([b'"' | b'}', ..]))
        && is_text
        && !text.iter().any(|byte| *byte < b' ' && !b"\n\r\t".contains(byte))
}

/// Whether a `{` follows after nothing but what JSON may have before it.
fn begins_object(json: &[u8]) -> bool {
    json.iter().find(|byte| !b" \n\r\t".contains(byte)) == Some(&b'{')
}

/// Reads and checks the header: every byte of the file belongs to it or to one tensor.
///
/// What the crate accepts is accepted, and what it refuses is refused, but for two tensors of one name, of which the crate
/// takes the later, where other readers take the other, and for more dimensions than anybody has use for.
pub(crate) fn read(source: &Source) -> Result<Header, DatasetError> {
    let json = json(source)?;
    let Listing { metadata, mut tensors } =
        serde_json::from_slice(&json).map_err(|error| not_json(source, &json, &error))?;
    tensors.sort_by(|(a, at), (b, bt)| (at.data_offsets, a).cmp(&(bt.data_offsets, b)));
    tensors.dedup_by(|(a, at), (b, bt)| {
        a == b && at.data_offsets == bt.data_offsets && at.dtype == bt.dtype && at.shape == bt.shape
    });
    if let Some(what) = diagnosis::of(&tensors) {
        return Err(source.malformed(LENGTH, what, FIX));
    }
    let data = LENGTH + json.len() as u64;
    let mut specs = Vec::with_capacity(tensors.len());
    for (name, info) in &tensors {
        let dtype = DType::of_safetensors(info.dtype).ok_or_else(|| {
            let what = format!("tensor {name:?} is {}", info.dtype);
            source.unsupported(LENGTH, what, "use a version of this crate that knows it")
        })?;
        let shape: Shape = info.shape.iter().map(|&dim| dim as u64).collect();
        specs.push((TensorSpec::new(name.as_str(), dtype, shape), data.saturating_add(info.data_offsets.0 as u64)));
    }
    let metadata = Metadata::new(metadata, tensors)
        .map_err(|error| source.malformed(LENGTH, format!("the header is not valid: {error}"), FIX))?;
    check_end(source, data, metadata.data_len() as u64)?;
    Ok(Header { tensors: specs, metadata: metadata.metadata().clone().unwrap_or_default() })
}

fn not_json(source: &Source, json: &[u8], error: &serde_json::Error) -> DatasetError {
    match json.iter().position(|&byte| byte == 0) {
        Some(at) => source.malformed(LENGTH + at as u64, "the header holds a NUL; the format pads with spaces", FIX),
        None => source.malformed(LENGTH, format!("the header is no list of tensors: {error}"), FIX),
    }
}

fn json(source: &Source) -> Result<Vec<u8>, DatasetError> {
    const NOT_ONE: &str = "check that it is a safetensors file";
    let mut head = [0; 512];
    let read = source.read_up_to(0, &mut head)?;
    let Some((length, first)) = head[..read].split_first_chunk::<8>() else {
        let missing = LENGTH - read as u64;
        return Err(source.fault(0, DatasetFault::Truncated { what: "the length of the header".into(), missing }));
    };
    let length = u64::from_le_bytes(*length);
    let refused = |at, what: String| {
        let other = || in_place_of_safetensors(&head[..read], source.len());
        Err(foreign::instead(source, &head[..read]).unwrap_or_else(|| {
            let it = other().map_or(String::new(), |kind| format!(", as this is {kind}"));
            source.malformed(at, what + &it, NOT_ONE)
        }))
    };
    if length > HEADER_CAP {
        return refused(0, format!("the header would have {length} bytes, and more than {HEADER_CAP} are not read"));
    }
    // What is no JSON need not be read to its end.
    let first = &first[..first.len().min(length as usize)];
    if !first.iter().all(|byte| b" \n\r\t".contains(byte)) && !begins_object(first) {
        if let Some(mark) = byte_order_mark(first) {
            return Err(source.malformed(LENGTH, format!("the header does not begin with {{: {mark}"), WITHOUT_MARK));
        }
        return refused(LENGTH, "the header does not begin with {".into());
    }
    // Zeros are no JSON: what follows them need not be read, nor its memory touched.
    source.read_vec_until(LENGTH, length, "the header", |piece| piece.contains(&0))
}

fn check_end(source: &Source, data: u64, data_len: u64) -> Result<(), DatasetError> {
    source.check_range(data, data_len, "the data of the tensors")?;
    // It fits, so this does not overflow.
    match source.len() - data - data_len {
        0 => Ok(()),
        more => Err(source.malformed(
            data + data_len,
            format!("{more} bytes follow that belong to no tensor"),
            "get the file again, or cut them off",
        )),
    }
}
