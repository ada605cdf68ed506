//! Members of which no tensor can be made.

use std::collections::BTreeMap;

use super::super::error::{DatasetError, DatasetFault};
use super::super::source::DataFile;
use super::super::text::{in_message, shown};

#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Their names, and why each is left out.
    pub(super) members: Vec<(String, DatasetError)>,
    pub(super) apple_doubles: u64,
}

impl LeftOut {
    pub(super) fn push(&mut self, name: String, why: DatasetError) {
        self.members.push((name, why));
    }

    /// The error of the first of them, where nothing else `is_all`.
    pub(super) fn first_where(&mut self, is_all: bool) -> Option<DatasetError> {
        if !is_all || self.members.is_empty() {
            return None;
        }
        let (name, DatasetError { path, offset, fault }) = self.members.swap_remove(0);
        let name = in_message(name.as_bytes());
        let fault = match fault {
            DatasetFault::Unsupported { what, fix } => {
                DatasetFault::Unsupported { what: format!("member {name}: {what}"), fix }
            }
            other => other,
        };
        Some(DatasetError { path, offset, fault })
    }
}

/// Warns once for each name, in whatever number of archives it is.
pub(super) fn warn<'a>(archives: impl Iterator<Item = (&'a DataFile, &'a LeftOut)>) {
    /// Names that are told.
    const MOST: usize = 16;
    let mut names: BTreeMap<&str, (&DatasetError, u64)> = BTreeMap::new();
    let mut apple_doubles: Option<(&DataFile, u64)> = None;
    for (file, left_out) in archives {
        for (name, why) in &left_out.members {
            names.entry(name).or_insert((why, 0)).1 += 1;
        }
        if left_out.apple_doubles > 0 {
            apple_doubles.get_or_insert((file, 0)).1 += left_out.apple_doubles;
        }
    }
    for (name, (why, count)) in names.iter().take(MOST) {
        let of_them = if *count > 1 { format!(", as in {count} archives") } else { String::new() };
        let name = in_message(name.as_bytes());
        tracing::warn!("{}: member {name} is left out{of_them}: {}", place(why), why.fault);
    }
    if let Some(more) = names.len().checked_sub(MOST).filter(|&more| more > 0) {
        tracing::warn!("members of {more} other names are left out, too");
    }
    if let Some((file, count)) = apple_doubles {
        tracing::warn!("{}: AppleDouble files left out: {count}", shown(file.path()));
    }
}

fn place(error: &DatasetError) -> String {
    match error.offset {
        Some(offset) => format!("{} at {offset}", shown(&error.path)),
        None => shown(&error.path).into_owned(),
    }
}
