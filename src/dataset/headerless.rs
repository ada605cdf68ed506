//! Files without a header: what their first bytes say that they are instead. Nothing else tells a stray file from data.

use std::path::{Path, PathBuf};

use super::error::DatasetError;
use super::foreign::Foreign;
use super::open::{Content, Format, HEAD, content};
use super::source::Source;
use super::text::shown;

/// What becomes of a file that begins as one of another kind does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherKind {
    /// It is an error.
    Refuse,
    /// It is data, since the format was asked for; one warning names all such files.
    Warn,
}

/// What a file is, by its first bytes.
#[derive(Debug)]
pub(crate) struct Other {
    what: String,
    fix: &'static str,
}

impl Other {
    /// What the file is where it is none of `own` and none without a header. By chance, one file in 2^32 is taken for
    /// another kind.
    pub(crate) fn of(source: &Source, own: Format) -> Result<Option<Self>, DatasetError> {
        let mut head = [0; HEAD];
        let len = source.read_up_to(0, &mut head)?;
        Ok(match content(&head[..len], source.len()) {
            Content::Unknown => None,
            Content::Format(format) if format == own => None,
            Content::Format(format) => Some(Self {
                what: format!(
                    "by its first bytes it is a file of format {format}, and not of {own}, which have no header"
                ),
                fix: "leave it out, or say the format (--format) where it is data after all",
            }),
            Content::Foreign(Foreign { what, fix }) => {
                Some(Self { what: format!("{what} (--format {own} reads it as data all the same)"), fix })
            }
        })
    }

    pub(crate) fn refuse(self, source: &Source) -> DatasetError {
        source.unsupported(0, self.what, self.fix)
    }
}

impl OtherKind {
    /// Looks at a file of `own`: what else it is, where that is to be warned about.
    pub(crate) fn look(self, source: &Source, own: Format) -> Result<Option<Other>, DatasetError> {
        match (self, Other::of(source, own)?) {
            (Self::Refuse, Some(other)) => Err(other.refuse(source)),
            (_, other) => Ok(other),
        }
    }
}

/// Warns once about all files that are read although they begin as others do.
pub(crate) fn warn_of(others: &[(&PathBuf, Other)], own: Format) {
    const SHOWN: usize = 8;
    let Some(((first, other), more)) = others.split_first() else { return };
    let named = |path: &Path, other: &Other| format!("{} ({})", shown(path), other.what);
    let mut list = named(first, other);
    for (path, other) in more.iter().take(SHOWN - 1) {
        list += &format!(", {}", named(path, other));
    }
    if others.len() > SHOWN {
        list += &format!(" and {} more", others.len() - SHOWN);
    }
    let count = others.len();
    let are = if count == 1 { "is" } else { "are" };
    tracing::warn!(
        "{count} of the files {are} read as {own}, as was asked for, but of another kind by the first bytes: {list}"
    );
}
