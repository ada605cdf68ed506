//! The index of an archive, kept in a file beside it.

mod format;
mod probe;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use self::probe::Probe;
use super::build;
use super::left_out::{LeftOut, Members};
use super::shard::Shard;
use crate::dataset::error::{DatasetError, DatasetFault};
use crate::dataset::source::Source;
use crate::dataset::text::shown;
use crate::storage::OpenFault;
use crate::temporary::Temporary;

/// The index beside the archive, if it is there and the archive's; otherwise it is made and put there.
///
/// # Errors
/// Those of [`build`](build::build). An index that cannot be used or written is a warning.
pub(super) fn read_or_build(archive: &Source) -> Result<Shard, DatasetError> {
    let path = path_beside(archive.path());
    match read(archive, &path) {
        Ok(Some(shard)) => return Ok(shard),
        Ok(None) => {}
        Err(error) => tracing::warn!("{error}; the index is made again"),
    }
    let shard = build::build(archive)?;
    let probe = Probe::of(archive, &shard)?;
    if let Err(error) = write(&path, &probe, &shard) {
        tracing::warn!("{}: the index cannot be kept: {error}; it is made each time", shown(&path));
    }
    Ok(shard)
}

fn path_beside(archive: &Path) -> PathBuf {
    let mut path = archive.as_os_str().to_owned();
    path.push(".forebay-index");
    path.into()
}

/// `None` where there is none.
fn read(archive: &Source, path: &Path) -> Result<Option<Shard>, DatasetError> {
    let index = match Source::open(path) {
        Err(DatasetError { fault: DatasetFault::Open(OpenFault::Io(error)), .. })
            if error.kind() == io::ErrorKind::NotFound =>
        {
            return Ok(None);
        }
        opened => opened?,
    };
    let refused = |what: String| index.malformed(0, what, "it can be deleted");
    // An index says less of each member than its header does, and repeats names that the archive has.
    if index.len() > archive.len().saturating_add(4096) {
        return Err(refused(format!("it has {} bytes, more than its archive", index.len())));
    }
    // Before all of it is read: its beginning says whose it is, and how long it must be.
    let mut head = [0; format::HEAD];
    let head_len = index.read_up_to(0, &mut head)?;
    let probe = format::probe(&head[..head_len], index.len()).map_err(|what| refused(what.into()))?;
    probe
        .check(archive)
        .map_err(|what| refused(format!("it is not the index of what {} holds now: {what}", shown(archive.path()))))?;
    let bytes = index.read_vec(0, index.len(), "the index")?;
    let (read_again, shard) = format::parse(&bytes).map_err(|what| refused(what.into()))?;
    if read_again != probe {
        return Err(refused("it was written to while it was read".into()));
    }
    format::check(&shard, archive.len()).map_err(|what| refused(what.into()))?;
    Ok(Some(shard))
}

/// Under the final name there is a whole index or none.
fn write(path: &Path, probe: &Probe, shard: &Shard) -> io::Result<()> {
    let temporary = Temporary::create(path.parent().unwrap_or(Path::new("")), "forebay-index")?;
    write_to(temporary.file()?, probe, shard)?;
    temporary.replace(path)
}

fn write_to(file: &File, probe: &Probe, shard: &Shard) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(256 << 10, file);
    format::write(&mut out, probe, shard)?;
    // It is not synced: its checksum finds what a crash left out.
    out.into_inner().map_err(io::IntoInnerError::into_error).map(drop)
}
