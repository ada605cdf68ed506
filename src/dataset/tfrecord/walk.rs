use super::Corrupt;
use super::frame::{self, HEAD, TAIL};
use crate::dataset::error::{DatasetError, DatasetFault};
use crate::dataset::foreign::{self, Foreign};
use crate::dataset::headers::Headers;
use crate::dataset::source::Source;

/// The records of one file: 12 bytes each, whatever they hold.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Where the data of each record begins, and last where that of one more would.
    starts: Vec<u64>,
    /// The masked CRC-32C of each record's data, as the file has it.
    sums: Vec<u32>,
    /// Whether the rest of the file could not be followed.
    pub(super) is_cut: bool,
}

impl Records {
    pub(super) fn len(&self) -> usize {
        self.sums.len()
    }

    /// Which record's data begins there.
    pub(super) fn at(&self, offset: u64) -> Option<usize> {
        self.starts.binary_search(&offset).ok().filter(|&number| number < self.len())
    }

    /// Offset, bytes and checksum of a record's data.
    pub(super) fn get(&self, number: usize) -> Option<(u64, u64, u32)> {
        let (start, next) = (*self.starts.get(number)?, *self.starts.get(number + 1)?);
        let len = next.checked_sub(start)?.checked_sub((TAIL + HEAD) as u64)?;
        Some((start, len, *self.sums.get(number)?))
    }
}

/// Follows the lengths from record to record. A file of no bytes has no records.
pub(super) fn find(source: &Source, corrupt: Corrupt) -> Result<Records, DatasetError> {
    let mut headers = Headers::new(source);
    let mut records = Records { starts: vec![HEAD as u64], ..Records::default() };
    let mut at = 0;
    while at < source.len() {
        match next(source, &mut headers, at, records.len()) {
            Ok((end, sum)) => {
                records.starts.push(end + HEAD as u64);
                records.sums.push(sum);
                at = end;
            }
            Err(error) if corrupt == Corrupt::Skip && is_damage(&error) => {
                tracing::warn!("{error}; what follows in this file is left out");
                records.is_cut = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    records.starts.shrink_to_fit();
    records.sums.shrink_to_fit();
    Ok(records)
}

/// Where the record at `at` ends, and the checksum of its data. It ends inside the file.
fn next(source: &Source, headers: &mut Headers<'_>, at: u64, number: usize) -> Result<(u64, u32), DatasetError> {
    let head = headers.read(at, HEAD)?;
    let Some(head) = head.first_chunk() else {
        let what = if head.len() < 8 { "the length" } else { "the length's checksum" };
        return Err(truncated(source, at, what, number, (HEAD - head.len()) as u64));
    };
    let Some(len) = frame::length(head) else { return Err(damaged(source, at, &{ *head }, number)) };
    let data = at + HEAD as u64;
    let left = source.len() - data;
    if len > left {
        return Err(truncated(source, at, "the data", number, len - left));
    }
    let end_of_data = data + len;
    let tail = headers.read(end_of_data, TAIL)?;
    match tail.first_chunk() {
        Some(&sum) => Ok((end_of_data + TAIL as u64, u32::from_le_bytes(sum))),
        None => Err(truncated(source, at, "the data's checksum", number, (TAIL - tail.len()) as u64)),
    }
}

fn truncated(source: &Source, at: u64, what: &str, number: usize, missing: u64) -> DatasetError {
    source.fault(at, DatasetFault::Truncated { what: format!("{what} of record {number} of this file"), missing })
}

fn damaged(source: &Source, at: u64, head: &[u8; HEAD], number: usize) -> DatasetError {
    if at > 0 {
        let what = format!("the checksum of the length of record {number} of this file is wrong");
        return source.malformed(at, what, "get the file again, or skip what is corrupt");
    }
    // A record's length may begin as a file of another kind does, 640 as a pickle; but none is so long.
    let is_no_length = head[6..8] != [0, 0];
    let guess = || if is_zlib(head) { Some(ZLIB) } else { foreign::guess(head) };
    let mut more = [0; 512];
    let read = source.read_up_to(0, &mut more).unwrap_or_default();
    if let Some(Foreign { what, fix }) = foreign::of(&more[..read]).or_else(|| guess().filter(|_| is_no_length)) {
        return source.unsupported(0, what, fix);
    }
    let what = "the checksum of the first length is wrong: the file is damaged, or no TFRecord file";
    source.malformed(0, what, "check the path, or get the file again")
}

const ZLIB: Foreign = Foreign { what: "it is compressed with zlib", fix: "write it again uncompressed" };

/// TensorFlow writes zlib streams, too: a header that 31 divides.
fn is_zlib(head: &[u8; HEAD]) -> bool {
    head[0] == 0x78 && (u16::from(head[0]) << 8 | u16::from(head[1])) % 31 == 0
}

/// What skipping passes over. A file of another kind is no damage.
fn is_damage(error: &DatasetError) -> bool {
    matches!(error.fault, DatasetFault::Truncated { .. } | DatasetFault::Malformed { .. })
}
