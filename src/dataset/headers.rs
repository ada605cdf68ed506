//! Headers that lie scattered through a file, read in as few calls as pays.

use super::error::DatasetError;
use super::source::Source;

/// Where headers lie closer than this, reading what is between them costs less than a call for each.
const CLOSE: u64 = 16 << 10;
/// Bytes at once where they lie close: few calls, and no more than fits into a core's cache.
const CHUNK: usize = 256 << 10;
/// Bytes at once where they do not: a header, and one or two that belong to it.
const HEADER: usize = 2 << 10;
/// No file's headers are taken to lie farther apart than this, so that one large payload does not hide many small ones.
const FAR: u64 = 1 << 20;

/// A window over a file that moves forward from header to header.
#[derive(Debug)]
pub(crate) struct Headers<'a> {
    source: &'a Source,
    buffer: Vec<u8>,
    /// Where the window begins in the file.
    start: u64,
    filled: usize,
    /// What was asked for last.
    last: u64,
    /// How far apart headers lie, as a mean of the last ones.
    stride: u64,
}

impl<'a> Headers<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        Self { source, buffer: Vec::new(), start: 0, filled: 0, last: 0, stride: 4 * CLOSE }
    }

    /// The `len` bytes at `at`, fewer where the file ends before.
    pub(crate) fn read(&mut self, at: u64, len: usize) -> Result<&[u8], DatasetError> {
        let step = at.saturating_sub(self.last).min(FAR);
        self.stride = (7 * self.stride + step) / 8;
        self.last = at;
        if self.inside(at, len).is_none() {
            self.fill(at, len)?;
        }
        let (from, to) = self.inside(at, len).unwrap_or((0, self.filled.min(len)));
        Ok(&self.buffer[from..to])
    }

    /// Where those bytes are in the buffer, if all of them are.
    fn inside(&self, at: u64, len: usize) -> Option<(usize, usize)> {
        let from = usize::try_from(at.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(len)?;
        (to <= self.filled).then_some((from, to))
    }

    fn fill(&mut self, at: u64, len: usize) -> Result<(), DatasetError> {
        let want = len.max(if self.stride <= CLOSE { CHUNK } else { HEADER });
        // What the file does not have is not made room for either.
        let want = self.source.len().saturating_sub(at).min(want as u64) as usize;
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        (self.start, self.filled) = (at, 0);
        if want == 0 {
            return Ok(());
        }
        self.filled = self.source.read_up_to(at, &mut self.buffer[..want])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is asked for in whatever steps, it is what the file has there.
    #[test]
    fn any_steps_give_the_bytes_of_the_file() {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let source = Source::open(file.path()).unwrap();
        for step in [1, 100, 512, 1500, 20_000, 300_000, 2_000_000] {
            let mut headers = Headers::new(&source);
            for at in (0..bytes.len() + 2 * step).step_by(step).take(3000) {
                for len in [0, 12, 512, 5000] {
                    let there = &bytes[at.min(bytes.len())..(at + len).min(bytes.len())];
                    assert_eq!(headers.read(at as u64, len).unwrap(), there, "{len} bytes at {at} in steps of {step}");
                }
            }
        }
    }

    #[test]
    fn close_headers_are_read_many_at_once_and_far_ones_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 30).unwrap();
        let source = Source::open(file.path()).unwrap();
        for (step, most) in [(1024, 0.02), (1 << 19, 1.0)] {
            let mut headers = Headers::new(&source);
            let mut fills = 0;
            let mut read = 0;
            for i in 0..2000_u64 {
                let start = headers.start;
                headers.read(i * step, 512).unwrap();
                if headers.start != start {
                    (fills, read) = (fills + 1, read + headers.filled);
                }
            }
            assert!(f64::from(fills) <= most * 2000.0, "{fills} reads for 2000 headers {step} apart");
            assert!(read as u64 <= (2000 * step).min(2000 * 2048) + CHUNK as u64, "{read} bytes read");
        }
    }
}
