//! Which format files are: as was said, else by content, else by name, else by what else was said.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::folder;
use super::format::Format;
use super::names::{self, Kind, Named};
use super::options::OpenOptions;
use super::sniff::{self, Content};
use crate::dataset::foreign::{self, Foreign};
use crate::dataset::source::Source;
use crate::dataset::text::shown;
use crate::dataset::{DatasetError, safetensors};

/// The format of all of these files.
pub(super) fn of(files: &[PathBuf], options: &OpenOptions) -> Result<Format, DatasetError> {
    if let Some(format) = options.format {
        return Ok(format);
    }
    let Some((first, others)) = files.split_first() else { return Err(unknown(Path::new(""), "there is no file")) };
    let format = of_file(first, options)?;
    // Whether the others are sound is for the format to say; only those that are called otherwise are looked at here.
    let kind = names::named(first).and_then(Named::kind);
    for other in others {
        if names::named(other).and_then(Named::kind) == kind {
            continue;
        }
        let other_format = of_file(other, options)?;
        if other_format != format {
            let what = format!("it is {other_format}, and {} is {format}", shown(first));
            return Err(DatasetError::setting(other, what, "give files of one format, or concatenate datasets"));
        }
    }
    Ok(format)
}

fn of_file(path: &Path, options: &OpenOptions) -> Result<Format, DatasetError> {
    if safetensors::is_index(path) {
        return Ok(Format::Safetensors);
    }
    let source = Source::open(path)?;
    let mut head = [0; sniff::HEAD];
    let len = source.read_up_to(0, &mut head)?;
    match sniff::content(&head[..len], source.len()) {
        Content::Format(format) => Ok(format),
        Content::Foreign(Foreign { what, fix }) => Err(source.unsupported(0, what, fix)),
        Content::Unknown => by_name(path, options),
    }
}

/// Where its first bytes say nothing: that a file of this name should have had others, its format will say.
fn by_name(path: &Path, options: &OpenOptions) -> Result<Format, DatasetError> {
    match names::named(path) {
        Some(Named::Packed(_, program)) => return Err(folder::packed(path, program)),
        Some(named) => match named.kind() {
            Some(Kind::Format(format)) => return Ok(format),
            Some(Kind::Raw) if names::has_megatron_index(path) && options.record_bytes.is_none() => {
                return Ok(Format::Megatron);
            }
            _ => {}
        },
        None => {}
    }
    if let Some(Foreign { what, fix }) = foreign::of_name(path.as_os_str().as_bytes()) {
        return Err(DatasetError::unsupported(path, None, what, fix));
    }
    match (options.record_bytes.is_some(), options.splits_tokens()) {
        (true, false) => Ok(Format::Records),
        (false, true) => Ok(Format::Tokens),
        (true, true) => Err(unknown(
            path,
            "it may be records or tokens, since both record_bytes (--record-bytes) and seq_len (--seq-len) are given",
        )),
        (false, false) => Err(unknown(path, "neither its first bytes nor its name tell what it is")),
    }
}

fn unknown(path: &Path, what: &str) -> DatasetError {
    DatasetError::setting(
        path,
        what,
        "say its format (--format), or give record_bytes (--record-bytes) for records, seq_len (--seq-len) for tokens",
    )
}
