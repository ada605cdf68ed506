use std::ops::Range;
use std::sync::Arc;

use super::left_out::LeftOut;

/// The samples of one archive, in the order in which their keys are first in it. Of each there are its key and its members,
/// and of a member no more than where its data is and what it is: 20 bytes, and 12 and the key for a sample.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shard {
    /// The keys, one after the other.
    pub(super) keys: Vec<u8>,
    /// For each sample where its key ends in `keys`.
    pub(super) key_ends: Vec<u64>,
    /// For each sample where its members end in the lists below.
    pub(super) member_ends: Vec<u32>,
    /// Where each member's data begins, in bytes.
    pub(super) offsets: Vec<u64>,
    /// Bytes of each member.
    pub(super) sizes: Vec<u64>,
    /// The extension of each member: which of `ext_names`.
    pub(super) exts: Vec<u32>,
    /// The extensions there are, as bytes.
    pub(super) ext_bytes: Vec<Box<[u8]>>,
    /// The same as text, shared between shards. Empty until [`name_exts`](Self::name_exts).
    pub(super) ext_names: Vec<Arc<str>>,
    pub(super) left_out: LeftOut,
}

/// One member of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) ext: &'a Arc<str>,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl Shard {
    pub(super) fn samples(&self) -> u64 {
        self.key_ends.len() as u64
    }

    /// The key of a sample that there is; no bytes for others.
    pub(super) fn key(&self, sample: usize) -> &[u8] {
        range(&self.key_ends, sample).and_then(|range| self.keys.get(range)).unwrap_or_default()
    }

    /// The members of a sample, in the order of the archive.
    pub(super) fn parts(&self, sample: usize) -> impl Iterator<Item = Part<'_>> {
        range(&self.member_ends, sample).unwrap_or_default().filter_map(|member| {
            let ext = self.ext_names.get(*self.exts.get(member)? as usize)?;
            Some(Part { ext, offset: *self.offsets.get(member)?, size: *self.sizes.get(member)? })
        })
    }

    /// The extensions that members have: each with the number of samples that have it, and the first of them.
    pub(super) fn used_exts(&self) -> Vec<(Arc<str>, u64, usize)> {
        let mut counts = vec![(0, 0); self.ext_names.len()];
        for (member, &ext) in self.exts.iter().enumerate() {
            if let Some((count, first)) = counts.get_mut(ext as usize) {
                *first = if *count == 0 { member } else { *first };
                *count += 1;
            }
        }
        let sample_of = |member: usize| self.member_ends.partition_point(|&end| end as usize <= member);
        let used = self.ext_names.iter().zip(counts).filter(|(_, (count, _))| *count > 0);
        used.map(|(ext, (count, first))| (Arc::clone(ext), count, sample_of(first))).collect()
    }

    /// Gives each extension its name as text, which `shared` makes.
    pub(super) fn name_exts(&mut self, mut shared: impl FnMut(&[u8]) -> Arc<str>) {
        self.ext_names = self.ext_bytes.drain(..).map(|ext| shared(&ext)).collect();
        self.ext_bytes = Vec::new();
    }
}

/// From the end of the one before to the end of this one.
fn range<T: Copy>(ends: &[T], i: usize) -> Option<Range<usize>>
where
    u64: From<T>,
{
    let end = u64::from(*ends.get(i)?);
    let start = i.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |&start| u64::from(start));
    Some(start as usize..end as usize)
}
