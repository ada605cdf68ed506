//! Files of known kinds that no samples are read from, so that they are refused by what they are: one table for telling
//! the format of a file, and for each format that is given a file of another kind.

use super::error::DatasetError;
use super::source::Source;

/// What it is, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub(crate) what: &'static str,
    pub(crate) fix: &'static str,
}

const UNPACK: &str = "decompress it first: a compressed file has no sample that can be read alone";
const TORCH: &str = "write the tensors as safetensors with `safetensors.torch.save_file`; pickles are not loaded";
const AGAIN: &str = "get the file again, and see why it came so";

const GZIP: Foreign = Foreign { what: "it is compressed with gzip", fix: UNPACK };
const BZIP2: Foreign = Foreign { what: "it is compressed with bzip2", fix: UNPACK };
const PICKLED: Foreign = Foreign { what: "it is a pickle", fix: TORCH };
const WEB_PAGE: Foreign = Foreign { what: "it is a web page", fix: AGAIN };
const XML: Foreign = Foreign { what: "it is XML, as a store's answer to a failed request is", fix: AGAIN };

/// Of 32 bits at least: data without a meaning begins so by chance once in 2^32 files.
const MAGIC: [(&[u8], Foreign); 9] = [
    (b"\x28\xb5\x2f\xfd", Foreign { what: "it is compressed with zstd", fix: UNPACK }),
    (b"\xfd7zXZ\0", Foreign { what: "it is compressed with xz", fix: UNPACK }),
    (b"\x04\x22\x4d\x18", Foreign { what: "it is compressed with lz4", fix: UNPACK }),
    (b"\x89HDF\r\n\x1a\n", Foreign { what: "it is an HDF5 file", fix: "write its arrays as npy, with h5py and numpy" }),
    (b"GGUF", Foreign { what: "it is a GGUF model", fix: "get the model as safetensors" }),
    // The number that torch.save puts in front, pickled.
    (
        b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
        Foreign { what: "it is a PyTorch pickle", fix: TORCH },
    ),
    (
        b"TNTIDX\0\0",
        Foreign {
            what: "it is an index of fairseq's or old Megatron's",
            fix: "index the tokens with today's Megatron",
        },
    ),
    (
        b"version https://git-lfs",
        Foreign {
            what: "it is a pointer of Git LFS in place of the file",
            fix: "get the file itself with `git lfs pull`",
        },
    ),
    (b"Obj\x01", Foreign { what: "it is an Avro file", fix: "write it as one of the formats that are read" }),
];

/// Too short to tell what a file is, and enough to tell why it is not what it was taken for.
const GUESSES: [(&[u8], Foreign); 7] = [
    (b"\x1f\x8b\x08", GZIP),
    (b"BZh", BZIP2),
    (
        b"PK\x03\x04",
        Foreign { what: "by its first bytes it is a zip archive, such as what torch.save writes", fix: TORCH },
    ),
    (b"\x80\x02", Foreign { what: "by its first bytes it is a pickle", fix: TORCH }),
    (b"\x80\x03", Foreign { what: "by its first bytes it is a pickle", fix: TORCH }),
    (b"\x80\x04", Foreign { what: "by its first bytes it is a pickle", fix: TORCH }),
    (b"\x80\x05", Foreign { what: "by its first bytes it is a pickle", fix: TORCH }),
];

const PICKLE: [&[u8]; 4] = [b".pkl", b".pickle", b".pt", b".pth"];

/// What a file is that begins so, where data that means something else hardly ever does.
pub(super) fn of(head: &[u8]) -> Option<Foreign> {
    let found = find(&MAGIC, head).or_else(|| markup(head)).or_else(|| of_zip(head));
    found.or_else(|| match head {
        _ if is_gzip(head) => Some(GZIP),
        _ if is_bzip2(head) => Some(BZIP2),
        _ if is_pickle(head) => Some(PICKLED),
        _ => None,
    })
}

/// Three bytes alone begin one file in 2^24: the fields behind them have few values, by RFC 1952.
fn is_gzip(head: &[u8]) -> bool {
    let [0x1f, 0x8b, 0x08, flags, ..] = head else { return false };
    let level = head.get(8).is_none_or(|level| matches!(level, 0 | 2 | 4));
    let system = head.get(9).is_none_or(|system| matches!(system, 0..=13 | 255));
    flags & 0xe0 == 0 && level && system
}

/// The size of a block, and what its first block or its end begins with.
fn is_bzip2(head: &[u8]) -> bool {
    let [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..] = head else { return false };
    rest.starts_with(b"1AY&SY") || rest.starts_with(b"\x17rE8P\x90")
}

/// The number of the protocol is too little: what follows is how pickle begins a frame, a dict, a list or an object.
fn is_pickle(head: &[u8]) -> bool {
    let [0x80, protocol @ 2..=5, rest @ ..] = head else { return false };
    match rest {
        // pickle makes none of fewer than four bytes.
        [0x95, frame @ ..] if *protocol >= 4 => {
            frame.first_chunk().is_some_and(|len| (4..1 << 40).contains(&u64::from_le_bytes(*len)))
        }
        [b'}' | b']', b'q', 0, ..] => true,
        [b'c', module @ ..] => {
            let is_named = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
            let len = module.iter().take_while(|byte| is_named(byte)).count();
            len >= 3 && module.get(len) == Some(&b'\n')
        }
        _ => false,
    }
}

fn markup(head: &[u8]) -> Option<Foreign> {
    const BEGINNINGS: [(&[u8], Foreign); 4] =
        [(b"<!doctype", WEB_PAGE), (b"<html", WEB_PAGE), (b"<!-- saved from url", WEB_PAGE), (b"<?xml", XML)];
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let begins = |with: &[u8]| text.get(..with.len()).is_some_and(|begun| begun.eq_ignore_ascii_case(with));
    BEGINNINGS.iter().find(|(with, _)| begins(with)).map(|(_, foreign)| *foreign)
}

/// Of a file that begins so, and is not what it was taken for: what it is, where that is known.
pub(super) fn instead(source: &Source, head: &[u8]) -> Option<DatasetError> {
    let Foreign { what, fix } = of(head).or_else(|| guess(head))?;
    Some(source.unsupported(0, what, fix))
}

/// What a file may be whose beginning is that of many.
pub(super) fn guess(head: &[u8]) -> Option<Foreign> {
    find(&GUESSES, head)
}

fn find(table: &[(&[u8], Foreign)], head: &[u8]) -> Option<Foreign> {
    table.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, foreign)| *foreign)
}

/// What a file is that its first bytes do not tell, by its name.
pub(super) fn of_name(name: &[u8]) -> Option<Foreign> {
    let name = name.to_ascii_lowercase();
    let is_pickle = PICKLE.iter().any(|ending| name.ends_with(ending));
    is_pickle.then_some(Foreign { what: "by its name it is a pickle", fix: TORCH })
}

fn of_zip(head: &[u8]) -> Option<Foreign> {
    let name = first_member(head).filter(|name| !name.ends_with(b".npy"))?;
    let torch: [&[u8]; 4] = [b"/data.pkl", b"/byteorder", b"/version", b"/.format_version"];
    Some(match torch.iter().any(|member| name.ends_with(member)) {
        true => Foreign { what: "it is a PyTorch file, a pickle in a zip archive", fix: TORCH },
        false => Foreign { what: "it is a zip archive that does not begin with an array", fix: "unpack it first" },
    })
}

/// The name of the first member of a zip archive, where all of it is there.
fn first_member(head: &[u8]) -> Option<&[u8]> {
    let rest = head.strip_prefix(b"PK\x03\x04")?;
    let len = rest.get(22..24)?.first_chunk().map(|len| usize::from(u16::from_le_bytes(*len)))?;
    rest.get(26..)?.get(..len)
}
