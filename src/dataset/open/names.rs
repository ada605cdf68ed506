//! What a file is by its name: less than its content tells, but all there is of a folder's files until they are opened,
//! and of files that have no header.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::format::Format;

/// What a name says. `Raw` is `.bin` and the like: records or tokens without a header, or the tokens of a Megatron index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Format(Format),
    /// The index of a model in safetensors files.
    ModelIndex,
    Raw,
    /// Data that must be unpacked first.
    Packed(Kind, &'static str),
    /// Data that somebody is still writing, or never finished.
    Unfinished(Kind),
}

/// What a folder's files are counted as: a folder has one kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Format(Format),
    Raw,
}

/// Endings of the names of data, in lower case.
const ENDINGS: [(&[u8], Named); 17] = [
    (b".index.json", Named::ModelIndex),
    (b".safetensors", Named::Format(Format::Safetensors)),
    (b".npy", Named::Format(Format::Npy)),
    (b".npz", Named::Format(Format::Npz)),
    (b".idx", Named::Format(Format::Megatron)),
    (b".tar", Named::Format(Format::WebDataset)),
    (b".tfrecord", Named::Format(Format::TfRecord)),
    (b".tfrecords", Named::Format(Format::TfRecord)),
    (b".parquet", Named::Format(Format::Parquet)),
    (b".arrow", Named::Format(Format::Arrow)),
    (b".feather", Named::Format(Format::Arrow)),
    (b".bin", Named::Raw),
    (b".raw", Named::Raw),
    (b".rec", Named::Raw),
    (b".dat", Named::Raw),
    (b".u16", Named::Raw),
    (b".u32", Named::Raw),
];

/// Indices of the same kind, but over files that no tensors are read from.
const OTHERS: [&[u8]; 3] = [b".bin.index.json", b".h5.index.json", b".msgpack.index.json"];

/// In the name of the index of a model in safetensors files.
const INDEX: &[u8] = b".safetensors.index.";

/// Of compressed files, and who unpacks them.
const PACKED: [(&[u8], &str); 6] =
    [(b".gz", "gzip"), (b".zst", "zstd"), (b".zstd", "zstd"), (b".xz", "xz"), (b".bz2", "bzip2"), (b".lz4", "lz4")];

/// What programs that fetch files call those that are not whole yet.
const UNFINISHED: [&[u8]; 8] =
    [b".part", b".partial", b".incomplete", b".download", b".crdownload", b".aria2", b".tmp", b".temp"];

/// What the name says; `None` where it says nothing.
pub(super) fn named(path: &Path) -> Option<Named> {
    let name = path.file_name()?.as_bytes().to_ascii_lowercase();
    if let Some(named) = plainly(&name) {
        return Some(named);
    }
    if name.ends_with(b".tgz") {
        return Some(Named::Packed(Kind::Format(Format::WebDataset), "gzip"));
    }
    for (ending, program) in PACKED {
        if let Some(kind) = name.strip_suffix(ending).and_then(plainly).and_then(Named::kind) {
            return Some(Named::Packed(kind, program));
        }
    }
    for ending in UNFINISHED {
        if let Some(kind) = name.strip_suffix(ending).and_then(plainly).and_then(Named::kind) {
            return Some(Named::Unfinished(kind));
        }
    }
    None
}

impl Named {
    /// What it counts as, where it is data as it stands.
    pub(super) fn kind(self) -> Option<Kind> {
        match self {
            Self::Format(format) => Some(Kind::Format(format)),
            Self::ModelIndex => Some(Kind::Format(Format::Safetensors)),
            Self::Raw => Some(Kind::Raw),
            Self::Packed(..) | Self::Unfinished(_) => None,
        }
    }
}

impl Kind {
    /// What files are counted as that are read in this format.
    pub(super) fn of(format: Format) -> Self {
        match format {
            Format::Records | Format::Tokens => Self::Raw,
            format => Self::Format(format),
        }
    }
}

fn plainly(name: &[u8]) -> Option<Named> {
    let name = without_shard(name);
    if OTHERS.iter().any(|ending| name.ends_with(ending)) {
        return None;
    }
    // Those of a variant, `model.safetensors.index.fp16.json`.
    if name.ends_with(b".json") && name.windows(INDEX.len()).any(|part| part == INDEX) {
        return Some(Named::ModelIndex);
    }
    ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, named)| *named)
}

/// Without the `-00000-of-00010` that TensorFlow puts behind the ending.
fn without_shard(name: &[u8]) -> &[u8] {
    let number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let mut parts = name.rsplitn(4, |byte| *byte == b'-');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(all), Some(b"of"), Some(one), Some(name)) if number(all) && number(one) => name,
        _ => name,
    }
}

/// Whether it is the data of a Megatron index, which has its name with `.idx` in place of `.bin`.
pub(super) fn has_megatron_index(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "bin") && path.with_extension("idx").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_files_are() {
        let of = |format| Some(Named::Format(format));
        let cases = [
            ("model-00001-of-00002.safetensors", of(Format::Safetensors)),
            ("model.safetensors.index.json", Some(Named::ModelIndex)),
            ("model.safetensors.index.fp16.json", Some(Named::ModelIndex)),
            ("pytorch_model.bin.index.json", None),
            ("model.json", None),
            ("X.NPY", of(Format::Npy)),
            ("a/b.tar/x", None),
            ("train.tfrecord-00000-of-00010", of(Format::TfRecord)),
            ("train.tfrecords", of(Format::TfRecord)),
            ("train-00000-of-00010", None),
            ("train.tfrecord-00000-of-", None),
            ("shard.tar.gz", Some(Named::Packed(Kind::Format(Format::WebDataset), "gzip"))),
            ("shard.tgz", Some(Named::Packed(Kind::Format(Format::WebDataset), "gzip"))),
            ("train.tfrecord-00000-of-00010.zst", Some(Named::Packed(Kind::Format(Format::TfRecord), "zstd"))),
            ("shard.tar.part", Some(Named::Unfinished(Kind::Format(Format::WebDataset)))),
            ("shard.tar.forebay-index", None),
            ("shard.tar.md5", None),
            ("notes.gz", None),
            ("train.bin", Some(Named::Raw)),
            ("README.md", None),
            (".tar", of(Format::WebDataset)),
            ("..", None),
        ];
        for (name, expected) in cases {
            assert_eq!(named(Path::new(name)), expected, "{name}");
        }
    }
}
