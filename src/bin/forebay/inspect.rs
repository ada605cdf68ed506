//! `forebay inspect`: the tensors in files, one by one, however many there are.
//!
//! Names and paths are shown as text; a byte that is none is shown as `\xNN`.

use std::fmt::Write as _;

use forebay::dataset::{DataFile, Dataset, DatasetFault, Format, Shape, Stored, StoredTensor, open_stored, shown};
use serde::Serialize;

use crate::args::{self, Common};
use crate::byte_count::counted;
use crate::failure::{Failure, Outcome};
use crate::stdout::Stdout;
use crate::{byte_count, json, stderr};

pub fn run(common: &Common, inspect: &args::Inspect) -> Outcome {
    let stored = open(inspect)?;
    let mut list = List::new(&stored, common.json)?;
    for tensor in stored.dataset.stored() {
        list.add(&tensor.map_err(Failure::of)?)?;
    }
    list.end()
}

/// Some files of a set that are given by name are worth a look by themselves; a directory is to hold all of them.
fn open(inspect: &args::Inspect) -> Result<Stored, Failure> {
    let options = inspect.dataset.options();
    match open_stored(&inspect.paths, &options) {
        Err(error)
            if matches!(error.fault, DatasetFault::Incomplete { .. })
                && !inspect.paths.iter().any(|path| path.is_dir()) =>
        {
            stderr::line(&format!("warning: {}", stderr::one_line(&error.to_string())));
            open_stored(&inspect.paths, &options.allow_incomplete(true)).map_err(Failure::of)
        }
        opened => opened.map_err(Failure::of),
    }
}

/// Lines of a tensor each, for people or for programs, written in large pieces.
struct List<'a> {
    stored: &'a Stored,
    json: bool,
    /// The file of the last tensor, and its path as text.
    file: Option<(u32, String)>,
    tensors: u64,
    /// Whether any of them has a dimension.
    has_dimensions: bool,
    bytes: u64,
    lines: String,
    stdout: Stdout,
}

#[derive(Serialize)]
struct Tensor<'a> {
    name: &'a str,
    dtype: &'a str,
    shape: &'a Shape,
    file: &'a str,
    offset: u64,
    length: u64,
}

#[derive(Serialize)]
struct Line {
    summary: Summary,
}

#[derive(Serialize)]
struct Summary {
    format: &'static str,
    samples: Option<u64>,
    tensors: u64,
    files: u64,
    bytes: u64,
}

impl<'a> List<'a> {
    fn new(stored: &'a Stored, json: bool) -> Result<Self, Failure> {
        let stdout = Stdout::open()?;
        Ok(Self { stored, json, file: None, tensors: 0, has_dimensions: false, bytes: 0, lines: String::new(), stdout })
    }

    fn add(&mut self, tensor: &StoredTensor) -> Outcome {
        let StoredTensor { spec, range } = tensor;
        let is_next = self.file.as_ref().is_none_or(|(number, _)| *number != range.file);
        if is_next {
            let file = self.stored.dataset.files().get(range.file as usize).map(DataFile::path);
            self.file = Some((range.file, file.map_or_else(String::new, |path| shown(path).into_owned())));
        }
        self.tensors += 1;
        self.has_dimensions |= !spec.shape.is_empty();
        self.bytes = self.bytes.saturating_add(range.len);
        let file = self.file.as_ref().map_or("", |(_, path)| path);
        let (dtype, length) = (spec.dtype.name(), range.len);
        if self.json {
            let tensor = Tensor { name: &spec.name, dtype, shape: &spec.shape, file, offset: range.offset, length };
            self.lines.push_str(&json::line(&tensor)?);
            self.lines.push('\n');
        } else {
            if is_next {
                let _ = writeln!(self.lines, "{}", stderr::one_line(file));
            }
            let (shape, name) = (spec.shape.to_string(), stderr::one_line(&spec.name));
            let _ = writeln!(self.lines, "  {dtype:<11} {shape:<16} {length:>14} bytes at {:<14} {name}", range.offset);
        }
        match self.lines.len() > 1 << 16 {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn end(mut self) -> Outcome {
        let summary = Summary {
            format: self.stored.format.name(),
            samples: self.stored.samples,
            tensors: self.tensors,
            files: self.stored.dataset.files().len() as u64,
            bytes: self.bytes,
        };
        let line = match self.json {
            true => json::line(&Line { summary })?,
            false => summary.for_people(self.has_dimensions),
        };
        self.lines.push_str(&line);
        self.lines.push('\n');
        self.flush()
    }

    fn flush(&mut self) -> Outcome {
        self.stdout.write(self.lines.as_bytes())?;
        self.lines.clear();
        Ok(())
    }
}

impl Summary {
    fn for_people(&self, has_dimensions: bool) -> String {
        let samples = match self.samples {
            Some(samples) => counted(samples, "sample"),
            None if self.format == Format::Tokens.name() => "no samples without --seq-len".to_owned(),
            None if self.tensors == 0 => "no samples, since there are no tensors".to_owned(),
            None if !has_dimensions => "no samples, since the tensors have no dimensions".to_owned(),
            None => "no samples, since the tensors share no first dimension".to_owned(),
        };
        let (tensors, files) = (counted(self.tensors, "tensor"), counted(self.files, "file"));
        format!("{}: {tensors} of {} in {files}; {samples}", self.format, byte_count::shown(self.bytes))
    }
}
