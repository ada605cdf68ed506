use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::{build, path_beside, read, read_or_build};
use crate::dataset::heard::warnings;
use crate::dataset::source::Source;
use crate::dataset::tar::writer::{Tar, changed, header};
use crate::dataset::webdataset::shard::Shard;

struct Place {
    folder: tempfile::TempDir,
    archive: PathBuf,
    index: PathBuf,
}

fn place(archive: &[u8]) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    fs::write(&path, archive).unwrap();
    Place { index: path_beside(&path), archive: path, folder }
}

fn archive(samples: u32) -> Vec<u8> {
    let members = (0..samples)
        .fold(Tar::default(), |tar, i| tar.file(format!("{i}.jpg"), vec![0; 600]).file(format!("{i}.cls"), "1"));
    let link = changed(header("0.link", 0, b'1'), |block| block[157..162].copy_from_slice(b"0.jpg"));
    let left_out = Tar::default().header(&link).file("d/._0.jpg", "").header(&header("0.nothing", 0, b'2')).0;
    Tar([members.file("sp ace/\u{e4}.1.png", "").0, left_out].concat()).end()
}

/// The shard by way of the index, and the warnings on the way.
fn shard(path: &Path) -> (Shard, Vec<String>) {
    warnings(|| read_or_build(&Source::open(path).unwrap()).unwrap())
}

fn built(path: &Path) -> Shard {
    build::build(&Source::open(path).unwrap()).unwrap()
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

fn set_modified(path: &Path, time: SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn an_index_that_was_kept_is_used_and_says_the_same() {
    for samples in [0, 1, 100] {
        let place = place(&archive(samples));
        let (first, heard) = shard(&place.archive);
        assert_eq!((heard, &first), (vec![], &built(&place.archive)));
        let kept = fs::metadata(&place.index).unwrap();
        let source = Source::open(&place.archive).unwrap();
        assert_eq!(read(&source, &place.index).unwrap().as_ref(), Some(&first), "it is read");
        assert_eq!(shard(&place.archive), (first, vec![]));
        assert_eq!(
            fs::metadata(&place.index).unwrap().modified().unwrap(),
            kept.modified().unwrap(),
            "and not written"
        );
        assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 2, "nothing else is left");
    }
    let nothing = place(&Tar::default().end());
    assert_eq!(shard(&nothing.archive), shard(&nothing.archive));
}

#[test]
fn an_index_goes_with_a_copy_that_kept_its_times_and_with_no_other() {
    let place = place(&archive(10));
    let (first, _) = shard(&place.archive);
    let copy = place.folder.path().join("elsewhere.tar");
    fs::copy(&place.archive, &copy).unwrap();
    fs::copy(&place.index, path_beside(&copy)).unwrap();
    set_modified(&copy, modified(&place.archive));
    assert!(read(&Source::open(&copy).unwrap(), &path_beside(&copy)).unwrap().is_some());
    set_modified(&copy, modified(&place.archive) + Duration::from_nanos(1000));
    let (again, heard) = shard(&copy);
    assert_eq!(again, first);
    assert_eq!(heard.len(), 1);
    assert!(heard[0].contains("elsewhere.tar holds now: it was written to since; it can be deleted"), "{heard:?}");
    assert_eq!(shard(&copy).1, [""; 0], "it was made again");
}

/// The index says what the archive held; the archive now has other samples, or others of the same size and time.
#[test]
fn an_index_of_what_the_archive_held_before_is_made_again_with_one_warning() {
    let first = archive(10);
    let mut renamed = first.clone();
    let last = renamed.windows(6).position(|name| name == b"sp ace").unwrap();
    renamed[last..last + 4].copy_from_slice(b"ps a");
    for (now, said) in [(archive(7), "bytes and has"), (renamed, "it has other headers")] {
        let place = place(&first);
        shard(&place.archive);
        let time = modified(&place.archive);
        fs::write(&place.archive, now).unwrap();
        set_modified(&place.archive, time);
        let (found, heard) = shard(&place.archive);
        assert_eq!(found, built(&place.archive));
        assert!(heard.len() == 1 && heard[0].contains(said), "{heard:?}");
        assert_eq!(shard(&place.archive), (found, vec![]));
    }
}

#[test]
fn what_is_no_index_is_made_again_with_one_warning() {
    let place = place(&archive(3));
    let (first, _) = shard(&place.archive);
    let good = fs::read(&place.index).unwrap();
    let mut other_version = good.clone();
    other_version[15] = 1;
    for (bytes, said) in [
        (vec![], "it is no index of an archive"),
        ([&good[..], &vec![0; 1 << 20]].concat(), "more than its archive"),
        (b"notes".to_vec(), "it is no index of an archive"),
        (other_version, "another version"),
        (good[..good.len() - 1].to_vec(), "its checksum is wrong"),
        ([&good[..], b"x"].concat(), "its checksum is wrong"),
    ] {
        fs::write(&place.index, bytes).unwrap();
        let (found, heard) = shard(&place.archive);
        assert_eq!(found, first);
        assert!(heard.len() == 1 && heard[0].contains(said), "{heard:?}");
        assert_eq!(fs::read(&place.index).unwrap(), good);
    }
}

#[test]
fn an_index_that_cannot_be_read_or_written_is_a_warning() {
    let place = place(&archive(3));
    let first = built(&place.archive);
    fs::create_dir(&place.index).unwrap();
    let (found, heard) = shard(&place.archive);
    assert_eq!(found, first);
    assert!(heard.len() == 2 && heard[1].contains("the index cannot be kept"), "{heard:?}");
    assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 2, "no unfinished file is left");
    fs::remove_dir(&place.index).unwrap();

    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let (found, heard) = shard(&place.archive);
    assert_eq!(found, first);
    if fs::exists(&place.index).unwrap() {
        crate::skipped::skipped("root writes to any folder");
    } else {
        assert!(heard.len() == 1 && heard[0].contains("the index cannot be kept"), "{heard:?}");
    }
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
}

/// A damaged archive is the archive's error, with or without an index.
#[test]
fn no_index_is_kept_of_an_archive_that_is_refused() {
    let place = place(&archive(3)[..1000]);
    assert!(read_or_build(&Source::open(&place.archive).unwrap()).is_err());
    assert!(!place.index.exists());
}

fn with_sum(mut index: Vec<u8>) -> Vec<u8> {
    let end = index.len() - 8;
    let sum = xxh3_64(&index[..end]);
    index[end..].copy_from_slice(&sum.to_le_bytes());
    index
}

/// One changed byte anywhere is seen.
#[test]
fn an_index_cut_or_changed_at_any_byte_is_refused() {
    let place = place(&archive(2));
    shard(&place.archive);
    let source = Source::open(&place.archive).unwrap();
    let good = fs::read(&place.index).unwrap();
    for at in 0..good.len() {
        fs::write(&place.index, &good[..at]).unwrap();
        assert!(read(&source, &place.index).is_err(), "cut at {at}");
        let mut changed = good.clone();
        changed[at] ^= 0x10;
        fs::write(&place.index, &changed).unwrap();
        assert!(read(&source, &place.index).is_err(), "changed at {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::effort::of(250, 1000), ..ProptestConfig::default() })]

    /// Its checksum made right, a changed index is refused or names nothing outside the archive: it is not trusted.
    #[test]
    fn a_forged_index_names_nothing_outside_the_archive(
        changes in prop::collection::vec((16..2000_usize, any::<u8>()), 1..6),
        cut in prop::option::of(24..2000_usize),
    ) {
        let place = place(&archive(5));
        shard(&place.archive);
        let source = Source::open(&place.archive).unwrap();
        let mut index = fs::read(&place.index).unwrap();
        for (at, byte) in changes {
            // The probe is left, or the index would be another archive's.
            let at = 112 + at % (index.len() - 120);
            index[at] = byte;
        }
        index.truncate(cut.unwrap_or(usize::MAX).min(index.len()).max(24));
        fs::write(&place.index, with_sum(index)).unwrap();
        if let Ok(Some(mut shard)) = read(&source, &place.index) {
            shard.name_exts(|_| "x".into());
            for sample in 0..shard.samples() as usize {
                let _ = shard.key(sample);
                for part in shard.parts(sample) {
                    prop_assert!(part.offset.checked_add(part.size).is_some_and(|end| end <= source.len()));
                }
            }
        }
    }
}
