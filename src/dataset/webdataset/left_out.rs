//! Members that would be fields of samples by their names, and are none.

use super::shard::Shard;
use crate::dataset::error::DatasetError;
use crate::dataset::source::DataFile;
use crate::dataset::tar::Member;
use crate::dataset::text::{in_message, shown};

/// Those of an archive, by why they were left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Links that lead to no file in the archive.
    pub(super) links: Members,
    /// What macOS keeps beside files: `._x`, and what is in `__MACOSX`.
    pub(super) apple_doubles: Members,
    /// Devices, FIFOs and what is of no known kind.
    pub(super) others: Members,
}

/// How many there are, and the first of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    pub(super) count: u64,
    /// Where its header begins.
    pub(super) at: u64,
    pub(super) name: Box<[u8]>,
}

impl Members {
    pub(super) fn add(&mut self, member: &Member<'_>) {
        if self.count == 0 {
            (self.at, self.name) = (member.at, member.name.into());
        }
        self.count += 1;
    }
}

/// Warns once for each reason, whatever number of archives there is.
pub(super) fn warn(files: &[DataFile], shards: &[Shard]) {
    if let Some(All { count, path, first }) = all(files, shards, |left_out| &left_out.links) {
        let name = in_message(&first.name);
        tracing::warn!("{path} at {}: link {name} leads to no file in its archive; links left out: {count}", first.at);
    }
    if let Some(All { count, path, first }) = all(files, shards, |left_out| &left_out.apple_doubles) {
        let name = in_message(&first.name);
        tracing::warn!("{path} at {}: member {name} is an AppleDouble file; such files left out: {count}", first.at);
    }
    if let Some(All { count, path, first }) = all(files, shards, |left_out| &left_out.others) {
        let name = in_message(&first.name);
        tracing::warn!(
            "{path} at {}: member {name} is neither a file nor a link; such members left out: {count}",
            first.at
        );
    }
}

/// The error of the first link that leads to no file in its archive.
pub(super) fn deny_dangling_links(files: &[DataFile], shards: &[Shard]) -> Result<(), DatasetError> {
    let found = files.iter().zip(shards).find(|(_, shard)| shard.left_out.links.count > 0);
    let Some((file, shard)) = found else { return Ok(()) };
    let first = &shard.left_out.links;
    let what = format!("link {} leads to no file in its archive", in_message(&first.name));
    Err(DatasetError::unsupported(file.path(), first.at, what, "write the archive again with --dereference"))
}

struct All<'a> {
    count: u64,
    path: std::borrow::Cow<'a, str>,
    first: &'a Members,
}

fn all<'a>(files: &'a [DataFile], shards: &'a [Shard], of: impl Fn(&LeftOut) -> &Members) -> Option<All<'a>> {
    let mut found = files.iter().zip(shards).map(|(file, shard)| (file, of(&shard.left_out)));
    let (file, first) = found.find(|(_, members)| members.count > 0)?;
    let count = found.fold(first.count, |sum, (_, members)| sum.saturating_add(members.count));
    Some(All { count, path: shown(file.path()), first })
}
