//! The header of a safetensors file, padded so that the data begins on a block.

use std::io::Write as _;

use super::error::PackError;
use super::options::PackOptions;
use crate::dataset::Layout;
use crate::dataset::TensorSpec;

/// What the data's first byte is a multiple of.
pub(super) const BLOCK: usize = 4096;
/// Readers refuse headers of more than 100,000,000 bytes; the padding is less than a block.
pub(super) const CAP: u64 = 100_000_000 - BLOCK as u64;
/// Where a folder's file is cut: opening one is to stay quick.
pub(super) const SOFT_CAP: u64 = 8 << 20;
/// The one name that no tensor can have.
pub(super) const METADATA: &str = "__metadata__";

/// A header as it grows, one tensor after the other in the order of their data.
#[derive(Debug)]
pub(super) struct Header {
    /// The eight bytes of the length, then JSON.
    bytes: Vec<u8>,
    data: u64,
    tensors: u64,
}

impl Header {
    /// `fields` are the names of a sample's tensors in its order, where that of the data is another.
    pub(super) fn new(layout: Layout, options: &PackOptions, fields: Option<&[&str]>) -> Self {
        let mut header = Self { bytes: vec![0; 8], data: 0, tensors: 0 };
        header.push(br#"{"__metadata__":{"forebay.layout":"#);
        header.push_text(layout.name());
        if let Some(fields) = fields {
            header.push(b",");
            header.push_text(Layout::FIELDS);
            header.push(b":");
            header.push_text(&serde_json::json!(fields).to_string());
        }
        for (key, value) in &options.metadata {
            header.push(b",");
            header.push_text(key);
            header.push(b":");
            header.push_text(value);
        }
        header.push(b"}");
        header
    }

    /// A tensor of `bytes` bytes behind those before it, whose sum is no more than any file has.
    pub(super) fn add(&mut self, name: &str, tensor: &TensorSpec, rows: Option<u64>, bytes: u64) {
        self.push(b",");
        self.push_text(name);
        self.push(br#":{"dtype":"#);
        self.push_text(tensor.dtype.name());
        self.push(br#","shape":["#);
        for (i, dim) in rows.iter().chain(tensor.shape.iter()).enumerate() {
            self.push(if i == 0 { b"" } else { b"," });
            self.push_number(*dim);
        }
        self.push(br#"],"data_offsets":["#);
        self.push_number(self.data);
        self.push(b",");
        self.data = self.data.saturating_add(bytes);
        self.push_number(self.data);
        self.push(b"]}");
        self.tensors += 1;
    }

    /// Bytes of data of all tensors so far.
    pub(super) fn data(&self) -> u64 {
        self.data
    }

    pub(super) fn tensors(&self) -> u64 {
        self.tensors
    }

    /// The file's first bytes, up to the data.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, PackError> {
        self.push(b"}");
        let json = (self.bytes.len() - 8) as u64;
        if json > CAP {
            let what = format!("a header of {json} bytes is more than the {CAP} that a file may have");
            return Err(PackError::setting(what, "pack to a folder, or fewer tensors a sample"));
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), b' ');
        let len = (self.bytes.len() - 8) as u64;
        self.bytes[..8].copy_from_slice(&len.to_le_bytes());
        Ok(self.bytes)
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn push_text(&mut self, text: &str) {
        // Writing text to memory does not fail.
        let _ = serde_json::to_writer(&mut self.bytes, text);
    }

    fn push_number(&mut self, number: u64) {
        let _ = write!(self.bytes, "{number}");
    }
}

/// The most bytes of JSON that a tensor of this name can take: what [`Header::add`] writes, offsets at their longest.
pub(super) fn json_bytes(name: &str, tensor: &TensorSpec) -> u64 {
    const NUMBER: usize = 20;
    const REST: usize = r#",:{"dtype":"","shape":[],"data_offsets":[,]}"#.len() + 2;
    // A control character becomes `\u0000`.
    let escaped: usize =
        name.bytes().map(|byte| if byte < 0x20 || byte == b'"' || byte == b'\\' { 6 } else { 1 }).sum();
    // One dimension more: rows.
    let numbers = (NUMBER + 1) * (tensor.shape.len() + 1) + 2 * NUMBER;
    (REST + escaped + tensor.dtype.name().len() + numbers) as u64
}

/// What the offset of a tensor of this many bits an element must be a multiple of: readers look at its elements there.
pub(super) fn align(bits: u32) -> u64 {
    u64::from(bits / 8).max(1)
}
