//! Where samples lie in a `.bin`: what is kept of an index.

use smallvec::{SmallVec, smallvec};

use super::super::error::DatasetError;
use super::super::source::Source;
use super::super::spec::FileRange;
use super::index::{Index, Step, walk};

/// Where the documents or windows of a `.bin` lie.
#[derive(Debug)]
pub(super) enum Table {
    /// All tokens lie one after the other from `offset`, and nobody asked where documents end.
    Tokens { offset: u64, tokens: u64 },
    /// The same, and the token that each document begins with, and the number of tokens: 8 bytes a document.
    Documents { offset: u64, boundaries: Vec<u64> },
    /// Sequences lie in another order, or with something between them: 12 bytes a sequence and 8 a document.
    Sequences(Sequences),
}

/// Sequences that lie anywhere.
#[derive(Debug)]
pub(super) struct Sequences {
    /// In bytes.
    offsets: Vec<u64>,
    tokens: Vec<u32>,
    /// The sequence that each document begins with, and the number of sequences.
    boundaries: Vec<usize>,
}

impl Table {
    /// Without documents: all tokens must lie one after the other.
    pub(super) fn of_tokens(index: &Index<'_>, bin: &Source) -> Result<Self, DatasetError> {
        let mut run = Run::new(index);
        if walk(index, bin, |step| run.goes_on(step))? {
            return Ok(Table::Tokens { offset: run.offset(), tokens: run.tokens });
        }
        let what = format!("sequence {} does not begin where the one before it ends", run.sequence);
        let fix = "ask for documents in place of windows, or write the pair again in the order of its sequences";
        Err(index.unsupported(index.pointer_at(run.sequence), what, fix))
    }

    /// With the places of all documents.
    pub(super) fn of_documents(index: &Index<'_>, bin: &Source) -> Result<Self, DatasetError> {
        let mut run = Run::new(index);
        let mut boundaries = room(index, index.boundaries)?;
        let whole = walk(index, bin, |step| {
            if let Step::Boundary = step {
                boundaries.push(run.tokens);
            }
            run.goes_on(step)
        })?;
        if whole {
            return Ok(Table::Documents { offset: run.offset(), boundaries });
        }
        drop(boundaries);
        let mut sequences = Sequences {
            offsets: room(index, index.sequences)?,
            tokens: room(index, index.sequences)?,
            boundaries: room(index, index.boundaries)?,
        };
        walk(index, bin, |step| {
            match step {
                Step::Boundary => sequences.boundaries.push(sequences.offsets.len()),
                Step::Sequence { offset, tokens, .. } => {
                    sequences.offsets.push(offset);
                    sequences.tokens.push(tokens);
                }
            }
            true
        })?;
        Ok(Table::Sequences(sequences))
    }

    pub(super) fn documents(&self) -> u64 {
        let boundaries = match self {
            Table::Tokens { .. } => 0,
            Table::Documents { boundaries, .. } => boundaries.len(),
            Table::Sequences(sequences) => sequences.boundaries.len(),
        };
        boundaries.saturating_sub(1) as u64
    }

    /// Tokens that lie one after the other.
    pub(super) fn tokens(&self) -> u64 {
        match self {
            Table::Tokens { tokens, .. } => *tokens,
            Table::Documents { boundaries, .. } => boundaries.last().copied().unwrap_or(0),
            Table::Sequences(_) => 0,
        }
    }

    /// How many tokens a document has, and where their bytes lie. There must be such a document.
    pub(super) fn document(&self, document: u64, token_bytes: u64, file: u32) -> (u64, SmallVec<[FileRange; 1]>) {
        let document = document as usize;
        match self {
            Table::Tokens { .. } => (0, SmallVec::new()),
            Table::Documents { offset, boundaries } => {
                // Documents lie in the file, so these are no more than its length.
                let (begins, ends) = (boundaries[document], boundaries[document + 1]);
                let (offset, len) = (offset + begins * token_bytes, (ends - begins) * token_bytes);
                (ends - begins, smallvec![FileRange { file, offset, len }])
            }
            Table::Sequences(sequences) => sequences.document(document, token_bytes, file),
        }
    }
}

impl Sequences {
    fn document(&self, document: usize, token_bytes: u64, file: u32) -> (u64, SmallVec<[FileRange; 1]>) {
        let places = self.boundaries[document]..self.boundaries[document + 1];
        let mut ranges: SmallVec<[FileRange; 1]> = SmallVec::new();
        let mut in_all = 0_u64;
        for (&offset, &tokens) in self.offsets[places.clone()].iter().zip(&self.tokens[places]) {
            // Each lies in the file, and has fewer than 2^31 tokens: no memory holds so many that this overflows.
            let len = u64::from(tokens) * token_bytes;
            in_all += u64::from(tokens);
            match ranges.last_mut() {
                Some(last) if last.offset + last.len == offset => last.len += len,
                _ => ranges.push(FileRange { file, offset, len }),
            }
        }
        (in_all, ranges)
    }
}

/// Memory for a table, of which the file has that many entries.
fn room<T>(index: &Index<'_>, entries: u64) -> Result<Vec<T>, DatasetError> {
    let mut table = Vec::new();
    let entries_here = usize::try_from(entries).unwrap_or(usize::MAX);
    table.try_reserve_exact(entries_here).map_err(|_| {
        let what = format!("a table of {entries} entries does not fit into memory");
        index.unsupported(18, what, "split the pair into several")
    })?;
    Ok(table)
}

/// Sequences that lie one after the other, as far as they do.
struct Run {
    token_bytes: u64,
    /// Where the first sequence begins, once there was one that is not empty.
    begun: Option<u64>,
    tokens: u64,
    /// The one met last.
    sequence: u64,
}

impl Run {
    fn new(index: &Index<'_>) -> Self {
        Self { token_bytes: u64::from(index.dtype.bits() / 8), begun: None, tokens: 0, sequence: 0 }
    }

    fn offset(&self) -> u64 {
        self.begun.unwrap_or(0)
    }

    /// Whether a sequence begins where the one before it ended. Empty ones may be told to lie anywhere.
    fn goes_on(&mut self, step: Step) -> bool {
        let Step::Sequence { number, offset, tokens } = step else {
            return true;
        };
        self.sequence = number;
        if tokens == 0 {
            return true;
        }
        let begun = *self.begun.get_or_insert(offset);
        // What lay one after the other lay in the file, so this is no more than its length.
        let goes_on = begun + self.tokens * self.token_bytes == offset;
        self.tokens += u64::from(tokens);
        goes_on
    }
}
