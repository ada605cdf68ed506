//! Rewriting datasets as standard safetensors files whose data begins on a block, so that any route reads it whole.
//!
//! The rules of the format are those of <https://github.com/huggingface/safetensors#format>: eight bytes with the
//! length of the header, little-endian; the header, JSON, padded with spaces; the data of the tensors, with no gap
//! anywhere. Here the padding is such that the data begins at a multiple of 4096.
#![forbid(unsafe_code)]

// Owns: what goes into which file and in which order, the writing, and that no file has its final name before it is
// whole. May touch: `dataset`, `route` for the payload, `memory` for aligned buffers.

mod contents;
mod error;
mod feed;
mod header;
mod options;
mod out;
mod rows;
mod samples;
mod tensors;
mod writer;

use std::path::Path;

use crate::dataset::{Dataset, StoredTensors};
use crate::temporary;

use contents::{Contents, Limits};
use feed::Feed;
use out::Out;
use writer::{Buffer, Writer};

pub use crate::dataset::Layout;
pub use error::PackError;
pub use options::{PackOptions, PackProgress, Packed, PackedFile};

/// Writes all samples of a dataset to safetensors files.
///
/// `out` is one file where its name ends in `.safetensors`, and else a folder, made where it is missing, of
/// `shard-000000.safetensors` and so on.
///
/// **Layout.** Where all samples have the same tensors (names, types and shapes), each field is one tensor of shape
/// `[samples, …]`, sample i its row i ([`Layout::Rows`]): the names of samples are not kept. Else each tensor of each
/// sample is one by itself, called `{id}.{field}` ([`Layout::Samples`]), and lies beside the others of its sample,
/// unless a type wider than a byte would not be aligned then: in such a shard the wider types come first. Reading back
/// splits the name at the first dot after the last slash, so ids and fields that would be split elsewhere are refused.
/// A sample is never divided between files, and samples keep their order.
///
/// **Files.** All are written in the same folder, past the page cache where that can be had, synced, and given their final
/// names when the last is complete: a process that is killed leaves none that is not whole. The first ones have no name until
/// then, where the file system has such files; the others are called `.forebay-pack-*.tmp`, and where a process that was
/// killed left some, the next pack to that folder removes them.
///
/// **Checksums.** Whatever the files keep checksums of is checked before a file has its final name: each record of a
/// TFRecord file, and each array of an npz archive of which all rows are packed.
///
/// # Errors
/// [`PackError`]: what was written is taken away then.
pub fn pack(dataset: &dyn Dataset, out: &Path, options: &PackOptions) -> Result<Packed, PackError> {
    let out = Out::new(out);
    let limits = Limits::new(&out, options)?;
    match rows::fields(dataset)? {
        Some(fields) => write(&rows::Rows::new(dataset, fields, limits)?, dataset, &out, options),
        None => write(&samples::Samples::new(dataset, limits)?, dataset, &out, options),
    }
}

/// Writes tensors of a dataset that share no first dimension, such as those of a checkpoint ([`Dataset::stored`], or some
/// of them), to safetensors files under the names that they have ([`Layout::Tensors`]). Files, and the rest, as with [`pack`].
/// Of several files each holds tensors that follow each other in the order given, and `model.safetensors.index.json` beside them
/// says which is where, as Hugging Face writes it.
///
/// # Errors
/// As [`pack`].
pub fn pack_tensors(
    dataset: &dyn Dataset,
    tensors: StoredTensors<'_>,
    out: &Path,
    options: &PackOptions,
) -> Result<Packed, PackError> {
    let out = Out::new(out);
    let limits = Limits::new(&out, options)?;
    write(&tensors::Tensors::new(tensors, limits)?, dataset, &out, options)
}

/// Of files that wait for the last one to be whole, how many are kept open, so that a pack which is killed leaves nothing of them.
const MOST_UNNAMED: usize = 16;

fn write(
    contents: &dyn Contents,
    dataset: &dyn Dataset,
    out: &Out,
    options: &PackOptions,
) -> Result<Packed, PackError> {
    out.check_apart(dataset.files())?;
    let finals = out.finals(contents, options)?;
    let carrier = options.carrier_or_new()?;
    let folder = out.make_folder()?;
    temporary::remove_stale(folder.path(), writer::MAKER);
    let buffer = &mut Buffer::new()?;
    let progress = |bytes| options.tell(PackProgress { bytes, total: contents.data_bytes() });
    let mut feed = Feed::new(&carrier, dataset, &progress);
    let mut written = Vec::with_capacity(finals.len());
    let mut direct = true;
    progress(0);
    for (number, path) in finals.iter().enumerate() {
        let shard = contents.shard(number, options)?;
        let bytes = shard.bytes();
        let mut writer = Writer::create(folder.path(), path, bytes, buffer)?;
        writer.write_header(&shard.header)?;
        contents.ranges(number, &mut |range, sample| feed.push(range, sample, &mut writer))?;
        feed.finish(&mut writer)?;
        let mut done = writer.finish()?;
        direct &= done.direct;
        // There may be more of them than descriptors.
        if number >= MOST_UNNAMED {
            let failed = |error| PackError::io(path, None, "give the file a hidden name", error);
            done.temporary.park().map_err(failed)?;
        }
        let file = PackedFile { path: path.clone(), samples: shard.samples, tensors: shard.tensors, bytes };
        written.push((done.temporary, file));
    }
    let index = contents.index(&finals).map(|text| out.write_index(folder.path(), &text)).transpose()?;
    let files = out.publish(written, index, options.overwrite)?;
    folder.keep();
    Ok(Packed::new(contents.layout(), files, direct))
}
