use super::file::File;

/// A run of bytes in one open file.
#[derive(Clone, Debug)]
pub struct Extent {
    pub(crate) file: File,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Extent {
    /// The `len` bytes of `file` from `offset` on. Whether they lie inside the file is checked when they are read.
    pub fn new(file: &File, offset: u64, len: u64) -> Self {
        Self { file: file.clone(), offset, len }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where the extent begins, in bytes from the start of the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
