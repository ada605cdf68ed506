//! What stands before the elements of an array in numpy's format.

use std::sync::Arc;

use super::super::error::{DatasetError, DatasetFault};
use super::super::foreign;
use super::super::source::Source;
use super::super::spec::TensorSpec;
use super::{descr, literal};

const MAGIC: &[u8] = b"\x93NUMPY";
/// numpy itself reads no header of more than 10,000 bytes unless it is told to.
const LONGEST_HEADER: u64 = 1 << 20;
/// Most headers have 128 bytes, so one read fetches them.
const FIRST_READ: usize = 512;

/// An array as it lies in a file.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) spec: TensorSpec,
    /// Where the elements begin in the file.
    pub(crate) data_offset: u64,
}

/// The place in a file that an array fills: all of it, or a member of an archive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) start: u64,
    /// No more than the file has.
    pub(crate) end: u64,
}

/// Whether a file or member that begins so is one of numpy's.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// Why an array is not read.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It holds texts or objects, of which no tensor can be made.
    NoNumbers(DatasetError),
    Other(DatasetError),
}

impl From<DatasetError> for Refused {
    fn from(error: DatasetError) -> Self {
        Self::Other(error)
    }
}

impl From<Refused> for DatasetError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NoNumbers(error) | Refused::Other(error) => error,
        }
    }
}

/// Reads the header of a file that is one array, called `name`.
pub(crate) fn read_header(source: &Source, name: impl Into<Arc<str>>) -> Result<Header, DatasetError> {
    read_header_in(source, Place { start: 0, end: source.len() }, name.into()).map_err(DatasetError::from)
}

/// Reads the header of an array that fills `place`, no more and no less.
pub(crate) fn read_header_in(source: &Source, place: Place, name: Arc<str>) -> Result<Header, Refused> {
    let within = Within { source, place };
    let mut head = [0; FIRST_READ];
    let len = (place.end - place.start).min(FIRST_READ as u64) as usize;
    let head = &mut head[..len];
    source.read_at(place.start, head, "the header")?;

    let preamble = preamble(&within, head)?;
    let long;
    let text = match head.get(preamble.len..preamble.len + preamble.header_len as usize) {
        Some(text) => text,
        None => {
            within.check(preamble.len as u64, preamble.header_len, "the header")?;
            long = source.read_vec(place.start + preamble.len as u64, preamble.header_len, "the header")?;
            &long
        }
    };
    let spec = spec(&within, &preamble, text, name)?;

    let header_len = preamble.len as u64 + preamble.header_len;
    let Some(data_len) = spec.bytes() else {
        let what = format!("an array of shape {} has more bytes than can be counted", spec.shape);
        return Err(within.malformed(preamble.len, what, "check where the file comes from").into());
    };
    within.check(header_len, data_len, "the array")?;
    let data_offset = place.start + header_len;
    match place.end - data_offset - data_len {
        0 => Ok(Header { spec, data_offset }),
        more => {
            let what = format!("{more} bytes follow the array");
            Err(source.malformed(data_offset + data_len, what, "save each array to a file of its own").into())
        }
    }
}

/// What the bytes before the dictionary say.
struct Preamble {
    version: u8,
    /// Bytes before the dictionary.
    len: usize,
    /// Bytes of the dictionary.
    header_len: u64,
}

fn preamble(within: &Within<'_>, head: &[u8]) -> Result<Preamble, DatasetError> {
    let begun = &head[..head.len().min(MAGIC.len())];
    if !MAGIC.starts_with(begun) {
        let other = || within.malformed(0, "this is no array of numpy's", "give a file that numpy.save has written");
        let whole = within.place.start == 0;
        return Err(Some(head)
            .filter(|_| whole)
            .and_then(|head| foreign::instead(within.source, head))
            .unwrap_or_else(other));
    }
    within.check(0, MAGIC.len() as u64 + 2, "the header")?;
    let (len, header_len) = match head {
        [_, _, _, _, _, _, 1, 0, low, high, ..] => (10, u64::from(u16::from_le_bytes([*low, *high]))),
        [_, _, _, _, _, _, 2 | 3, 0, a, b, c, d, ..] => (12, u64::from(u32::from_le_bytes([*a, *b, *c, *d]))),
        [_, _, _, _, _, _, 1, 0, ..] => return Err(within.cut(0, "the header", 10)),
        [_, _, _, _, _, _, 2 | 3, 0, ..] => return Err(within.cut(0, "the header", 12)),
        _ => {
            let version: Vec<String> = head.iter().skip(MAGIC.len()).take(2).map(u8::to_string).collect();
            let what = format!("version {} of numpy's format is not known", version.join("."));
            return Err(within.unsupported(MAGIC.len(), what, "write it with version 1.0, 2.0 or 3.0"));
        }
    };
    if header_len > LONGEST_HEADER {
        let what = format!("the header claims {header_len} bytes, more than the {LONGEST_HEADER} that are read");
        return Err(within.malformed(MAGIC.len() + 2, what, "check where the file comes from"));
    }
    let version = head.get(MAGIC.len()).copied().unwrap_or_default();
    Ok(Preamble { version, len, header_len })
}

fn spec(within: &Within<'_>, preamble: &Preamble, text: &[u8], name: Arc<str>) -> Result<TensorSpec, Refused> {
    if preamble.version == 3
        && let Err(error) = str::from_utf8(text)
    {
        let at = preamble.len + error.valid_up_to();
        return Err(within.malformed(at, "the header is no UTF-8", "write it again with numpy.save").into());
    }
    let fields = literal::parse(text, preamble.version < 3).map_err(|wrong| match wrong.structured {
        true => within.unsupported(preamble.len + wrong.at, wrong.what, "save each field by itself: array['field']"),
        false => within.malformed(preamble.len + wrong.at, wrong.what, "write it again with numpy.save"),
    })?;
    let dtype = descr::dtype(&fields.descr).map_err(|not_read| {
        let descr: String = fields.descr.chars().take(40).flat_map(char::escape_default).collect();
        let what = format!("an array of type '{descr}' is not read: {}", not_read.what);
        let error = within.unsupported(preamble.len + fields.descr_at, what, not_read.fix);
        if descr::holds_no_numbers(&fields.descr) { Refused::NoNumbers(error) } else { Refused::Other(error) }
    })?;
    let spec = TensorSpec::new(name, dtype, fields.shape);
    if fields.fortran_order && !same_in_both_orders(&spec.shape) {
        let what = "its elements lie in Fortran order, column by column";
        return Err(within.unsupported(preamble.len, what, "save numpy.ascontiguousarray(array)").into());
    }
    Ok(spec)
}

/// Whether elements lie the same way row by row and column by column.
fn same_in_both_orders(shape: &[u64]) -> bool {
    shape.contains(&0) || shape.iter().filter(|&&dim| dim > 1).count() <= 1
}

/// Faults at places of an array, told as places of its file.
struct Within<'a> {
    source: &'a Source,
    place: Place,
}

impl Within<'_> {
    /// Sees that there are `len` bytes from `at`.
    fn check(&self, at: u64, len: u64, what: &str) -> Result<(), DatasetError> {
        match at.checked_add(len) {
            Some(end) if end <= self.place.end - self.place.start => Ok(()),
            end => Err(self.cut(at, what, end.unwrap_or(u64::MAX))),
        }
    }

    /// The place ends before byte `end` of what is in it.
    fn cut(&self, at: u64, what: &str, end: u64) -> DatasetError {
        let missing = end.saturating_sub(self.place.end - self.place.start);
        let offset = self.place.start + at;
        if self.place.end == self.source.len() {
            return self.source.fault(offset, DatasetFault::Truncated { what: what.into(), missing });
        }
        let what = format!("{what} needs {missing} bytes more than the archive's member has");
        self.source.malformed(offset, what, "write the archive again")
    }

    fn malformed(&self, at: usize, what: impl Into<String>, fix: &'static str) -> DatasetError {
        self.source.malformed(self.place.start + at as u64, what, fix)
    }

    fn unsupported(&self, at: usize, what: impl Into<String>, fix: &'static str) -> DatasetError {
        self.source.unsupported(self.place.start + at as u64, what, fix)
    }
}
