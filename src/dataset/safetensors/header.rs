//! The header of one file: 8 bytes of length, JSON, and the data behind it. The format's source is the safetensors crate,
//! whose metadata type parses and checks it.

use std::collections::HashMap;

use safetensors::tensor::Metadata;

use super::diagnosis;
use crate::dataset::dtype::DType;
use crate::dataset::error::{DatasetError, DatasetFault};
use crate::dataset::shape::Shape;
use crate::dataset::source::Source;
use crate::dataset::spec::TensorSpec;

/// Bytes of the longest header that is read, as in the safetensors crate.
pub(crate) const HEADER_CAP: u64 = 100_000_000;

/// Bytes of the length in front.
const LENGTH: u64 = 8;

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
    json.first() == Some(&b'{') && (2..=HEADER_CAP).contains(&length) && length + LENGTH <= file_len
}

/// Reads and checks the header: every byte of the file belongs to it or to one tensor.
pub(crate) fn read(source: &Source) -> Result<Header, DatasetError> {
    let json = json(source)?;
    let metadata: Metadata = serde_json::from_slice(&json).map_err(|error| diagnosis::of(source, &json, &error))?;
    let data = LENGTH + json.len() as u64;
    check_end(source, data, metadata.data_len() as u64)?;
    let mut tensors = Vec::with_capacity(metadata.offset_keys().len());
    for name in metadata.offset_keys() {
        // Each key leads to one.
        let Some(info) = metadata.info(&name) else { continue };
        let dtype = serde_name(info.dtype).parse::<DType>();
        let dtype = dtype.map_err(|unknown| {
            source.unsupported(
                LENGTH,
                format!("tensor {name:?}: {unknown}"),
                "use a version of this crate that knows it",
            )
        })?;
        let shape: Shape = info.shape.iter().map(|&dim| dim as u64).collect::<Vec<_>>().into();
        tensors.push((TensorSpec::new(name, dtype, shape), data + info.data_offsets.0 as u64));
    }
    Ok(Header { tensors, metadata: metadata.metadata().clone().unwrap_or_default() })
}

/// The crate's name of a type, as files spell it.
fn serde_name(dtype: safetensors::Dtype) -> String {
    serde_json::to_value(dtype).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn json(source: &Source) -> Result<Vec<u8>, DatasetError> {
    const NOT_ONE: &str = "check that it is a safetensors file";
    let mut head = [0; LENGTH as usize + 1];
    let read = source.read_up_to(0, &mut head)?;
    if read < LENGTH as usize {
        let missing = LENGTH - read as u64;
        return Err(source.fault(0, DatasetFault::Truncated { what: "the length of the header".into(), missing }));
    }
    let (length, first) = head.split_at(LENGTH as usize);
    let length = length.try_into().map_or(0, u64::from_le_bytes);
    if length > HEADER_CAP {
        let it = foreign(&head).map_or(String::new(), |kind| format!(", as this is {kind}"));
        let what = format!("the header would have {length} bytes, and more than {HEADER_CAP} are not read{it}");
        return Err(source.malformed(0, what, NOT_ONE));
    }
    if read > LENGTH as usize && first != b"{" {
        return Err(source.malformed(LENGTH, "the header does not begin with {", NOT_ONE));
    }
    source.read_vec(LENGTH, length, "the header")
}

/// What a file may be that was taken for one.
fn foreign(head: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 6] = [
        (b"PK\x03\x04", "a zip archive, such as what torch.save writes"),
        (b"\x80\x02", "a Python pickle"),
        (b"\x80\x04", "a Python pickle"),
        (b"GGUF", "a GGUF file"),
        (b"\x89HDF", "an HDF5 file"),
        (b"version ", "the pointer that Git LFS leaves for a file that was not fetched"),
    ];
    KINDS.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, kind)| *kind)
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
