//! Where an archive ends, and what lies behind that.

use super::BLOCK;
use super::header::Header;
use crate::dataset::error::DatasetError;
use crate::dataset::headers::Headers;
use crate::dataset::source::Source;
use crate::dataset::text::shown;

/// How an archive ended.
#[derive(Debug, Default)]
pub(crate) struct End {
    /// Where another archive first begins behind the end of one.
    joined: Option<u64>,
    /// Where bytes begin that are no archive.
    junk: Option<u64>,
    /// There was no block of zeros.
    pub(super) is_missing: bool,
}

impl End {
    /// Says what is odd about it.
    pub(crate) fn warn(&self, source: &Source) {
        let path = shown(source.path());
        if let Some(at) = self.joined {
            tracing::warn!(
                "{path} at {at}: an archive begins behind the end of another; it is read, as with `tar --ignore-zeros`"
            );
        }
        if let Some(at) = self.junk {
            tracing::warn!("{path} at {at}: the bytes behind the end of the archive are no members, and are not read");
        }
        if self.is_missing {
            tracing::warn!("{path}: no end of archive; no member is cut, but its writer was");
        }
    }

    /// The header of the archive that is joined to one which ends at `at`, and its place; `None` where there is none. Zeros
    /// fill up what a writer writes at once, which may be any number of blocks.
    pub(super) fn next_archive(
        &mut self,
        source: &Source,
        headers: &mut Headers<'_>,
        at: u64,
    ) -> Result<Option<(u64, [u8; BLOCK])>, DatasetError> {
        let Some((at, block)) = behind_zeros(source, headers, at)? else { return Ok(None) };
        if Header::new(&block).is_some() {
            self.joined.get_or_insert(at);
            return Ok(Some((at, block)));
        }
        if let Some(next) = next_header(headers, at)? {
            let what =
                format!("what is behind the end of the archive is no header, and another archive follows at {next}");
            return Err(source.malformed(at, what, "get it again, and join archives with `tar --concatenate`"));
        }
        self.junk = Some(at);
        Ok(None)
    }
}

/// The first block that is not all zeros; what is less than a block at the end of the file is filled up with zeros.
fn behind_zeros(
    source: &Source,
    headers: &mut Headers<'_>,
    mut at: u64,
) -> Result<Option<(u64, [u8; BLOCK])>, DatasetError> {
    /// Steps after which holes in the file are looked for: reading them takes long.
    const STEP: u64 = 1 << 20;
    let start = at;
    loop {
        if (at - start).is_multiple_of(STEP) {
            let data = source.next_data(at);
            at = data - data.saturating_sub(start) % BLOCK as u64;
        }
        let mut block = [0; BLOCK];
        let bytes = headers.read(at, BLOCK)?;
        let (read, _) = block.split_at_mut(bytes.len());
        read.copy_from_slice(bytes);
        if bytes.is_empty() || block.iter().any(|&byte| byte != 0) {
            return Ok((!bytes.is_empty()).then_some((at, block)));
        }
        at += BLOCK as u64;
    }
}

fn next_header(headers: &mut Headers<'_>, mut at: u64) -> Result<Option<u64>, DatasetError> {
    loop {
        at += BLOCK as u64;
        match headers.read(at, BLOCK)?.first_chunk() {
            // Zeros have a checksum as well.
            Some(block) if block[0] != 0 && Header::new(block).is_some() => return Ok(Some(at)),
            Some(_) => {}
            None => return Ok(None),
        }
    }
}
