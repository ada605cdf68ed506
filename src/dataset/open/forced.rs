//! What to say of a file that is not of the format that it is opened as.

use super::format::Format;
use super::options::OpenOptions;
use super::sniff::{self, Content};
use crate::dataset::source::Source;
use crate::dataset::{DatasetError, DatasetFault};

/// The error of opening files as `format`; with what the file is, where its content tells that it is of another.
pub(super) fn explained(error: DatasetError, format: Format, options: &OpenOptions) -> DatasetError {
    let fix = match options.format {
        Some(_) => "leave the format out (--format), and it is read as that",
        // It is none of the first files, which say what all are.
        None => "give files of one format, or concatenate datasets",
    };
    let broken = match error.fault {
        // What else a file without a header is was said by `headerless`.
        DatasetFault::Unsupported { .. } => !matches!(format, Format::Records | Format::Tokens),
        DatasetFault::Malformed { .. } | DatasetFault::Truncated { .. } => true,
        _ => false,
    };
    let Some(content) = content(&error).filter(|content| broken && *content != format) else { return error };
    let DatasetError { path, offset, fault } = error;
    let what = match fault {
        DatasetFault::Malformed { what, .. } | DatasetFault::Unsupported { what, .. } => what,
        DatasetFault::Truncated { what, missing } => format!("{what} needs {missing} bytes more than the file has"),
        other => other.to_string(),
    };
    let what = format!("{what}, and by its content the file is {content}, not {format}");
    DatasetError::new(path, offset, DatasetFault::Setting { what, fix })
}

/// The format that the first bytes of the file tell, where it is one that is read.
fn content(error: &DatasetError) -> Option<Format> {
    let source = Source::open(&error.path).ok()?;
    let mut head = [0; sniff::HEAD];
    let len = source.read_up_to(0, &mut head).ok()?;
    match sniff::content(head.get(..len)?, source.len()) {
        // Those that are not read are no advice.
        Content::Format(Format::Parquet | Format::Arrow) | Content::Foreign(_) | Content::Unknown => None,
        Content::Format(format) => Some(format),
    }
}
