//! The `.idx` file of a pair: how long its tables are and where they lie, and a walk over them. That of fairseq has the same
//! beginning and no table of documents: each sequence is one.

use super::super::dtype::DType;
use super::super::error::{DatasetError, DatasetFault};
use super::super::foreign;
use super::super::source::Source;
use super::super::text::shown;

const MAGIC: &[u8] = b"MMIDIDX\0\0";
/// Magic, version, code of the type, and how many sequences and boundaries of documents there are.
const HEADER_LEN: u64 = 34;
/// The same without the boundaries.
const FAIRSEQ_HEADER_LEN: u64 = 26;
pub(super) const FIX: &str = "write the pair again with Megatron's preprocess_data.py";
/// So many entries of a table are read at once.
const BLOCK: u64 = 1 << 16;

/// Whether a file that begins so is an index.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// Whose index it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Megatron,
    Fairseq,
}

/// What an index says of itself.
#[derive(Debug)]
pub(super) struct Index<'a> {
    source: &'a Source,
    writer: Writer,
    pub(super) dtype: DType,
    pub(super) sequences: u64,
    /// One more than there are documents.
    pub(super) boundaries: u64,
}

impl<'a> Index<'a> {
    pub(super) fn read(source: &'a Source) -> Result<Self, DatasetError> {
        let mut head = [0; HEADER_LEN as usize];
        let len = source.read_up_to(0, &mut head)?;
        if !MAGIC.starts_with(&head[..len.min(MAGIC.len())]) {
            return Err(foreign::instead(source, &head[..len]).unwrap_or_else(|| {
                source.malformed(0, "this is no index of Megatron's", "give the .idx that belongs to the .bin")
            }));
        }
        source.check_range(0, FAIRSEQ_HEADER_LEN, "the index's header")?;
        let number = |at: usize| head.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |it| u64::from_le_bytes(*it));
        if number(9) != 1 {
            return Err(source.unsupported(9, format!("version {} of the index is not known", number(9)), FIX));
        }
        let sequences = number(18);
        // No index of Megatron's has that length: its own header is longer.
        let of_fairseq = u128::from(FAIRSEQ_HEADER_LEN) + u128::from(sequences) * 12;
        let writer = if u128::from(source.len()) == of_fairseq { Writer::Fairseq } else { Writer::Megatron };
        let code = head[17];
        let Some(dtype) = dtype(code, writer) else {
            return Err(source.malformed(17, format!("no type of tokens has the code {code}"), FIX));
        };
        if writer == Writer::Fairseq {
            // The file has twelve bytes of each, so this does not overflow.
            return Ok(Self { source, writer, dtype, sequences, boundaries: sequences + 1 });
        }
        source.check_range(0, HEADER_LEN, "the index's header")?;
        let index = Self { source, writer, dtype, sequences, boundaries: number(26) };
        index.check_len()?;
        index.check_last_boundary()?;
        Ok(index)
    }

    /// Sees that the file has the tables that its header tells of, with or without a byte more for each sequence, which
    /// tells its kind where there are several, such as texts and images.
    fn check_len(&self) -> Result<(), DatasetError> {
        let (sequences, boundaries) = (u128::from(self.sequences), u128::from(self.boundaries));
        let plain = u128::from(HEADER_LEN) + sequences * 12 + boundaries * 8;
        let len = u128::from(self.source.len());
        if len < plain {
            let what = format!("the tables of {sequences} sequences and {boundaries} boundaries of documents");
            let missing = u64::try_from(plain - len).unwrap_or(u64::MAX);
            return Err(self.source.fault(18, DatasetFault::Truncated { what, missing }));
        }
        if len != plain && len != plain + sequences {
            let what = format!("{} bytes follow the tables", len - plain);
            // What is plain is not longer than the file.
            return Err(self.source.malformed(plain as u64, what, FIX));
        }
        Ok(())
    }

    /// The last boundary tells as many sequences as the header: looked at first, since a walk may be long.
    fn check_last_boundary(&self) -> Result<(), DatasetError> {
        let Some(last) = self.boundaries.checked_sub(1) else {
            return Err(self.source.malformed(26, "the index does not tell where its documents begin and end", FIX));
        };
        let at = self.boundary_at(last);
        let mut bytes = [0; 8];
        self.source.read_at(at, &mut bytes, "the last boundary")?;
        let says = u64::from_le_bytes(bytes);
        if says == self.sequences {
            return Ok(());
        }
        let what = format!("the last document ends behind sequence {says}, and there are {}", self.sequences);
        Err(self.source.malformed(at, what, FIX))
    }

    // The tables lie in the file, so the places in them are less than its length.

    fn length_at(&self, sequence: u64) -> u64 {
        let header = if self.writer == Writer::Fairseq { FAIRSEQ_HEADER_LEN } else { HEADER_LEN };
        header + sequence * 4
    }

    pub(super) fn pointer_at(&self, sequence: u64) -> u64 {
        self.length_at(self.sequences) + sequence * 8
    }

    fn boundary_at(&self, boundary: u64) -> u64 {
        self.pointer_at(self.sequences) + boundary * 8
    }

    pub(super) fn unsupported(&self, offset: u64, what: impl Into<String>, fix: &'static str) -> DatasetError {
        self.source.unsupported(offset, what, fix)
    }
}

/// By the writer's table of codes: of floats, theirs differ.
fn dtype(code: u8, writer: Writer) -> Option<DType> {
    Some(match code {
        7 if writer == Writer::Fairseq => DType::F64,
        9 if writer == Writer::Fairseq => DType::U32,
        10 if writer == Writer::Fairseq => DType::U64,
        1 => DType::U8,
        2 => DType::I8,
        3 => DType::I16,
        4 => DType::I32,
        5 => DType::I64,
        6 => DType::F64,
        7 => DType::F32,
        8 => DType::U16,
        _ => return None,
    })
}

/// What a walk meets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A document begins, or the last ends.
    Boundary,
    /// A sequence that lies in the `.bin`.
    Sequence { number: u64, offset: u64, tokens: u32 },
}

/// Walks over all sequences and boundaries in their order, until `each` says that it has seen enough, and sees that they
/// are sound: that each sequence lies in `bin`, whole tokens from its beginning, the last of them at its end, and that
/// boundaries begin with 0 and do not go back. `false` where it was told to end.
pub(super) fn walk(index: &Index<'_>, bin: &Source, mut each: impl FnMut(Step) -> bool) -> Result<bool, DatasetError> {
    let source = index.source;
    let token_bytes = u64::from(index.dtype.bits() / 8);
    let mut boundaries = Boundaries { index, next: 0, said: 0, block: Vec::new() };
    let mut boundary = boundaries.next()?;
    if boundary != Some(0) {
        return Err(source.malformed(
            index.boundary_at(0),
            "the first document does not begin with the first sequence",
            FIX,
        ));
    }
    let mut end = 0;
    let mut sparse = Sparse::default();
    let (mut lengths, mut pointers) = (Vec::new(), Vec::new());
    let mut first = 0;
    while first < index.sequences {
        let count = (index.sequences - first).min(BLOCK);
        fill(source, index.length_at(first), count * 4, &mut lengths)?;
        fill(source, index.pointer_at(first), count * 8, &mut pointers)?;
        let (lengths, pointers) = (lengths.as_chunks::<4>().0, pointers.as_chunks::<8>().0);
        for (number, (length, pointer)) in (first..).zip(lengths.iter().zip(pointers)) {
            while boundary == Some(number) {
                sparse.check(Step::Boundary).map_err(|what| source.unsupported(index.length_at(number), what, FIX))?;
                if !each(Step::Boundary) {
                    return Ok(false);
                }
                boundary = boundaries.next()?;
            }
            let Ok(tokens) = u32::try_from(i32::from_le_bytes(*length)) else {
                let what = format!("sequence {number} has a negative length");
                return Err(source.malformed(index.length_at(number), what, FIX));
            };
            let offset = u64::from_le_bytes(*pointer);
            let sequence_end = offset.checked_add(u64::from(tokens) * token_bytes).filter(|&end| end <= bin.len());
            let Some(sequence_end) = sequence_end.filter(|_| offset.is_multiple_of(token_bytes)) else {
                return Err(misplaced(index, bin, number, offset, tokens));
            };
            end = end.max(sequence_end);
            let step = Step::Sequence { number, offset, tokens };
            sparse.check(step).map_err(|what| source.unsupported(index.length_at(number), what, FIX))?;
            if !each(step) {
                return Ok(false);
            }
        }
        first += count;
    }
    while boundary == Some(index.sequences) {
        let at = index.boundary_at(boundaries.next.saturating_sub(1));
        sparse.check(Step::Boundary).map_err(|what| source.unsupported(at, what, FIX))?;
        each(Step::Boundary);
        boundary = boundaries.next()?;
    }
    if end < bin.len() {
        let what = format!("{} bytes follow the last sequence that {} tells of", bin.len() - end, shown(source.path()));
        return Err(bin.malformed(end, what, "give the .idx that belongs to this .bin"));
    }
    Ok(true)
}

/// Counts what is empty. Holes in a file read as sequences and documents of nothing, which no walk would come to the end
/// of; in files that people have they are few.
#[derive(Default)]
struct Sparse {
    tokens: u64,
    empty_sequences: u64,
    sequences_since: u64,
    documents: u64,
    empty_documents: u64,
}

impl Sparse {
    const MOST: u64 = 1 << 20;

    fn check(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Sequence { tokens, .. } => {
                self.sequences_since += 1;
                self.tokens = self.tokens.saturating_add(tokens.into());
                self.empty_sequences += u64::from(tokens == 0);
            }
            Step::Boundary => {
                self.documents += 1;
                self.empty_documents += u64::from(std::mem::take(&mut self.sequences_since) == 0);
            }
        }
        let (empty, of) = match step {
            Step::Sequence { .. } => (self.empty_sequences, self.tokens),
            Step::Boundary => (self.empty_documents, self.documents - self.empty_documents),
        };
        match empty > Self::MOST.saturating_add(of) {
            true => Err(format!("more than {} sequences or documents up to here are empty", Self::MOST)),
            false => Ok(()),
        }
    }
}

fn misplaced(index: &Index<'_>, bin: &Source, number: u64, offset: u64, tokens: u32) -> DatasetError {
    let what = format!(
        "sequence {number} of {tokens} tokens at {offset} does not lie in the {} bytes of {}",
        bin.len(),
        shown(bin.path())
    );
    index.source.malformed(index.pointer_at(number), what, "give the .bin that belongs to this .idx")
}

/// The boundaries of documents, one by one.
struct Boundaries<'a> {
    index: &'a Index<'a>,
    /// The boundary that comes next.
    next: u64,
    /// The sequence that the one before it told of.
    said: u64,
    block: Vec<u8>,
}

impl Boundaries<'_> {
    fn next(&mut self) -> Result<Option<u64>, DatasetError> {
        if self.next == self.index.boundaries {
            return Ok(None);
        }
        if self.index.writer == Writer::Fairseq {
            self.next += 1;
            return Ok(Some(self.next - 1));
        }
        let in_block = self.next % BLOCK;
        let at = self.index.boundary_at(self.next);
        if in_block == 0 {
            let count = (self.index.boundaries - self.next).min(BLOCK);
            fill(self.index.source, at, count * 8, &mut self.block)?;
        }
        let bytes = self.block.get(in_block as usize * 8..).and_then(<[u8]>::first_chunk);
        let boundary = bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if boundary < self.said || boundary > self.index.sequences {
            let what = format!(
                "document {} begins with sequence {boundary}, behind one that begins with {}",
                self.next, self.said
            );
            return Err(self.index.source.malformed(at, what, FIX));
        }
        self.said = boundary;
        self.next += 1;
        Ok(Some(boundary))
    }
}

/// Reads a piece of a table, of which it is known that the file has it.
fn fill(source: &Source, at: u64, len: u64, block: &mut Vec<u8>) -> Result<(), DatasetError> {
    block.resize(len as usize, 0);
    source.read_at(at, block, "a table of the index")
}
