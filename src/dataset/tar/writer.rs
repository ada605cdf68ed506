//! Writes archives as tests want them, wrong ones too.

use super::BLOCK;

#[derive(Debug, Clone, Default)]
pub(crate) struct Tar(pub(crate) Vec<u8>);

impl Tar {
    /// A member with its data, padded to whole blocks.
    pub(crate) fn file(self, name: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> Self {
        let size = data.as_ref().len() as u64;
        self.header(&header(name, size, b'0')).data(data)
    }

    pub(crate) fn header(mut self, header: &[u8; BLOCK]) -> Self {
        self.0.extend(header);
        self
    }

    pub(crate) fn data(mut self, data: impl AsRef<[u8]>) -> Self {
        self.0.extend(data.as_ref());
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self
    }

    /// A record of this kind about the next member.
    pub(crate) fn record(self, kind: u8, data: impl AsRef<[u8]>) -> Self {
        let size = data.as_ref().len() as u64;
        self.header(&header("././@Record", size, kind)).data(data)
    }

    /// A pax header of these keys and values.
    pub(crate) fn pax(self, kind: u8, records: &[(&str, &[u8])]) -> Self {
        let mut data = Vec::new();
        for (key, value) in records {
            data.extend(pax_record(key, value));
        }
        self.record(kind, data)
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}

fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let text = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
    let mut len = text.len() + 1;
    while len != len.to_string().len() + text.len() {
        len += 1;
    }
    [len.to_string().as_bytes(), &text].concat()
}

/// A ustar header, with a checksum that is right.
pub(crate) fn header(name: impl AsRef<[u8]>, size: u64, kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let name = name.as_ref();
    block[..name.len()].copy_from_slice(name);
    block[100..108].copy_from_slice(b"0000644\0");
    match size {
        0..=0o77_777_777_777 => block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes()),
        _ => {
            block[124] = 0x80;
            block[128..136].copy_from_slice(&size.to_be_bytes());
        }
    }
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    changed(block, |_| {})
}

/// The header with something changed in it, and its checksum made right.
pub(crate) fn changed(mut block: [u8; BLOCK], change: impl FnOnce(&mut [u8; BLOCK])) -> [u8; BLOCK] {
    change(&mut block);
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}
