use super::super::error::{DatasetError, DatasetFault};
use super::super::source::Source;

/// Little-endian numbers one after the other, with the place in the file that each comes from.
pub(super) struct Fields<'bytes, 'source> {
    source: &'source Source,
    /// Where `rest` begins in the file.
    at: u64,
    rest: &'bytes [u8],
    what: &'static str,
}

impl<'bytes, 'source> Fields<'bytes, 'source> {
    /// The fields of `bytes`, which begin at `at` of the file and are called `what`.
    pub(super) fn new(source: &'source Source, at: u64, bytes: &'bytes [u8], what: &'static str) -> Self {
        Self { source, at, rest: bytes, what }
    }

    /// Where the next field begins in the file.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<&'bytes [u8], DatasetError> {
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else {
            let missing = (len - self.rest.len()) as u64;
            let what = format!("{} ends {missing} bytes too early", self.what);
            return Err(self.malformed(self.at, what, super::zip::REWRITE));
        };
        self.rest = rest;
        self.at += len as u64;
        Ok(bytes)
    }

    /// The next `len` bytes as fields of their own.
    pub(super) fn within(&mut self, len: usize, what: &'static str) -> Result<Fields<'bytes, 'source>, DatasetError> {
        let at = self.at;
        Ok(Fields { source: self.source, at, rest: self.bytes(len)?, what })
    }

    pub(super) fn u16(&mut self) -> Result<u16, DatasetError> {
        self.number().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, DatasetError> {
        self.number().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, DatasetError> {
        self.number().map(u64::from_le_bytes)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], DatasetError> {
        let mut number = [0; N];
        number.copy_from_slice(self.bytes(N)?);
        Ok(number)
    }

    pub(super) fn malformed(&self, at: u64, what: impl Into<String>, fix: &'static str) -> DatasetError {
        self.source.malformed(at, what, fix)
    }

    pub(super) fn unsupported(&self, at: u64, what: impl Into<String>, fix: &'static str) -> DatasetError {
        self.source.fault(at, DatasetFault::Unsupported { what: what.into(), fix })
    }
}
