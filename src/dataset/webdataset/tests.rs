use std::path::PathBuf;

use super::{TarIndex, WebDataset};
use crate::dataset::tar::writer::{Tar, changed, header};
use crate::dataset::{DType, Dataset, DatasetError, SampleSpec};

/// Archives in a folder of their own.
struct Shards {
    _folder: tempfile::TempDir,
    paths: Vec<PathBuf>,
}

impl Shards {
    fn new(archives: &[(&str, Vec<u8>)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let paths = archives.iter().map(|(name, bytes)| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            path
        });
        Self { paths: paths.collect(), _folder: folder }
    }

    fn open(&self) -> Result<WebDataset, DatasetError> {
        WebDataset::open(&self.paths, TarIndex::Memory)
    }
}

/// The samples as `id: field offset+size, …`.
fn samples(dataset: &WebDataset) -> Vec<String> {
    let one = |index| {
        let sample = dataset.sample(index).unwrap();
        let fields = sample.fields().map(|(spec, ranges)| {
            assert_eq!((spec.dtype, &*spec.shape, ranges.len()), (DType::U8, &[ranges[0].len][..], 1));
            format!("{} {}+{}", spec.name, ranges[0].offset, ranges[0].len)
        });
        format!("{}: {}", dataset.id(index), fields.collect::<Vec<_>>().join(", "))
    };
    (0..dataset.len()).map(one).collect()
}

fn ids(dataset: &WebDataset) -> Vec<String> {
    (0..dataset.len()).map(|index| dataset.id(index).into_owned()).collect()
}

fn one_of(archive: Vec<u8>) -> Vec<String> {
    samples(&Shards::new(&[("a.tar", archive)]).open().unwrap())
}

/// webdataset yields four half samples of this.
#[test]
fn members_that_share_a_key_are_one_sample_also_where_others_lie_between() {
    let interleaved =
        Tar::default().file("1.a", "A").file("0.a", "BB").file("1.b", "CCC").file("0.b", "").file("2.b", "D");
    assert_eq!(one_of(interleaved.end()), ["1: a 512+1, b 2560+3", "0: a 1536+2, b 3584+0", "2: b 4096+1"]);
}

/// A key may look like the id of a sample of another archive, or like what such an id would be turned into.
#[test]
fn no_two_samples_have_the_same_id_whatever_their_keys_look_like() {
    let a = Tar::default().file("x.t", "1").file("b.tar/x.t", "2").file("a.tar/b.tar/x.t", "3").file("c/x.t", "4");
    let b = Tar::default().file("x.t", "5").file("a.tar/x.t", "6").file("b.tar/a.tar/x.t", "7").file("y.t", "8");
    let ids = ids(&Shards::new(&[("a.tar", a.end()), ("b.tar", b.end())]).open().unwrap());
    let all: std::collections::HashSet<&String> = ids.iter().collect();
    assert_eq!(all.len(), 8, "{ids:?}");
    assert_eq!((ids[0].as_str(), ids[3].as_str(), ids[7].as_str()), ("a.tar/x", "c/x", "y"));
}

#[test]
fn members_without_a_key_and_webdatasets_own_belong_to_no_sample() {
    let archive = Tar::default()
        .file("noext", "1")
        .file(".hidden.x", "1")
        .file("__meta__/x.y", "1")
        .file("train.v1/1.seg.PNG", "1")
        .header(&header("link.x", 0, b'2'))
        .header(&header("folder.x/", 0, b'5'))
        .file("train.v1/1.seg.png", "1");
    assert_eq!(one_of(archive.end()), ["train.v1/1: seg.PNG 3584+1, seg.png 5632+1"]);
    assert_eq!(one_of(Tar::default().end()), [""; 0]);
}

fn link(name: &str, target: &str, kind: u8) -> [u8; 512] {
    changed(header(name, 0, kind), |block| block[157..157 + target.len()].copy_from_slice(target.as_bytes()))
}

/// In the place that they have in the archive, before or behind what they lead to.
#[test]
fn links_are_fields_with_the_bytes_of_what_they_lead_to() {
    let archive = Tar::default()
        .header(&link("0.later", "1.x", b'2'))
        .header(&link("0.hard", "blob", b'1'))
        .file("blob", "blob")
        .file("1.x", "file")
        .header(&link("1.hard", "./1.x", b'1'))
        .header(&link("1.chain", "0.later", b'2'))
        .header(&link("d/2.up", "../1.hard", b'2'))
        .header(&link("3.x", "4.x", b'2'))
        .header(&link("4.x", "3.x", b'2'));
    let (samples, heard) = crate::dataset::heard::warnings(|| one_of(archive.end()));
    let expected = ["0: later 2560+4, hard 1536+4", "1: x 2560+4, hard 2560+4, chain 2560+4", "d/2: up 2560+4"];
    assert_eq!(samples, expected);
    assert!(
        heard.len() == 1 && heard[0].contains("a.tar at 4608: link 3.x leads to no file in its archive"),
        "{heard:?}"
    );
    assert!(heard[0].ends_with("links left out: 2"), "{heard:?}");
}

#[test]
fn what_is_left_out_is_counted_over_all_shards_and_said_once() {
    let odd = |number: u32| {
        Tar::default()
            .header(&link(&format!("{number}.a"), "nothing", b'1'))
            .file(format!("{number}.b"), "1")
            .header(&link(&format!("{number}.c"), "/etc/hostname", b'2'))
            .file(format!("d/._{number}.b"), "1")
            .file(format!("__MACOSX/{number}.b"), "1")
            .header(&header(format!("{number}.fifo"), 0, b'6'))
            .header(&header(format!("{number}.folder/"), 0, b'5'))
            .header(&header("device", 0, b'4'))
            .end()
    };
    let shards = Shards::new(&[("a.tar", odd(1)), ("b.tar", odd(2))]);
    for index in [TarIndex::Memory, TarIndex::Beside, TarIndex::Beside] {
        let open = || WebDataset::open(&shards.paths, index).unwrap();
        let (dataset, heard) = crate::dataset::heard::warnings(open);
        assert_eq!(samples(&dataset), ["1: b 1024+1", "2: b 1024+1"]);
        let expected = [
            "a.tar at 0: link 1.a leads to no file in its archive; links left out: 4",
            "a.tar at 2048: member d/._1.b is an AppleDouble file; such files left out: 4",
            "a.tar at 4096: member 1.fifo is neither a file nor a link; such members left out: 2",
        ];
        assert_eq!(heard.len(), expected.len(), "{heard:?}");
        assert!(heard.iter().zip(expected).all(|(heard, expected)| heard.ends_with(expected)), "{heard:?}");
        let strict = WebDataset::open_strict(&shards.paths, index).unwrap_err();
        assert_eq!((&strict.path, strict.offset), (&shards.paths[0], Some(0)));
        assert!(strict.to_string().contains("link 1.a leads to no file in its archive; write"), "{strict}");
    }
}

#[test]
fn an_archive_without_a_sample_is_warned_of_by_name() {
    let shards = Shards::new(&[
        ("good.tar", Tar::default().file("1.a", "1").end()),
        ("bad.tar", Tar::default().file("noext", "1").end()),
    ]);
    let (opened, said) = crate::dataset::heard::warnings(|| shards.open().unwrap());
    assert_eq!(opened.len(), 1);
    assert!(said.len() == 1 && said[0].contains("bad.tar: no member has a key"), "{said:?}");
}

#[test]
fn a_field_that_a_sample_has_twice_is_refused_with_both_places() {
    for between in [0, 3] {
        let mut archive = Tar::default().file("x.y", "").file("1.a", "1");
        for i in 0..between {
            archive = archive.file(format!("between{i}.a"), "1");
        }
        let second = archive.0.len();
        let refused = Shards::new(&[("a.tar", archive.file("1.a", "2").end())]).open().unwrap_err();
        let said = format!("sample 1 has a twice, at 512 and at {second}; write the archive again with each name once");
        assert!(refused.to_string().ends_with(&said), "{refused}");
        assert_eq!(refused.offset, Some(second as u64));
    }
}

#[test]
fn keys_that_several_shards_hold_have_the_shards_name_before_them() {
    let shard = |names: &[&str]| names.iter().fold(Tar::default(), |tar, name| tar.file(name, name)).end();
    let shards = Shards::new(&[
        ("0.tar", shard(&["a.x", "b.x"])),
        ("1.tar", shard(&["c.x", "a.x", "a.y"])),
        ("empty.tar", shard(&[])),
        ("2.tar", shard(&["d.x", "a.x", "c.x"])),
    ]);
    let dataset = shards.open().unwrap();
    assert_eq!(ids(&dataset), ["0.tar/a", "b", "1.tar/c", "1.tar/a", "d", "2.tar/a", "2.tar/c"]);
    let mut sample = SampleSpec::new();
    dataset.locate(4, &mut sample).unwrap();
    assert_eq!((sample.ranges()[0].file, dataset.files().len()), (3, 4));
    let folders = Shards::new(&[("x/0.tar", shard(&["a.x"])), ("y/0.tar", shard(&["a.x"]))]);
    let whole_paths: Vec<_> = folders.paths.iter().map(|path| format!("{}/a", path.display())).collect();
    assert_eq!(ids(&folders.open().unwrap()), whole_paths, "where the names are one, the paths are shown");
}

#[test]
fn names_of_any_bytes_are_keys_and_fields() {
    let archive = Tar::default().file(b"\xff\xfe/k\xe4.\xe9xt", "1").file("größe.bild", "22").end();
    assert_eq!(one_of(archive), ["\\xff\\xfe/k\\xe4: \\xe9xt 512+1", "größe: bild 1536+2"]);
}

#[test]
fn names_that_lead_outside_make_and_open_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inside/a.tar");
    std::fs::create_dir(folder.path().join("inside")).unwrap();
    let outside = folder.path().join("outside.x");
    let absolute = outside.as_os_str().as_encoded_bytes();
    let link = header("link", 0, b'2');
    let archive =
        Tar::default().file("../outside.x", "1").file(absolute, "2").header(&link).file("link/outside.x", "3");
    std::fs::write(&path, archive.end()).unwrap();
    let dataset = WebDataset::open(&[path], TarIndex::Memory).unwrap();
    assert_eq!(dataset.len(), 3);
    assert!(!outside.exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn samples_past_the_last_are_no_samples() {
    let dataset = Shards::new(&[("a.tar", Tar::default().file("a.x", "").end())]).open().unwrap();
    assert!(dataset.sample(0).is_ok());
    let refused = dataset.sample(1).unwrap_err().to_string();
    assert_eq!(refused, "there is no sample 1, since the dataset has 1; ask for a lower one");
    assert!(dataset.sample(u64::MAX).is_err());
    assert!(WebDataset::open(&[] as &[&std::path::Path], TarIndex::Memory).is_err(), "no shard was given");
}

/// Bytes that are no text are shown as text that other names may have; one shard may be given twice.
#[test]
fn no_two_samples_have_one_name_and_no_two_fields_of_one() {
    let odd =
        Tar::default().file(b"a\xff.x", "1").file("a\\xff.x", "2").file(b"a\xff.\xfe", "3").file(b"a\xff.\\xfe", "4");
    let shards = Shards::new(&[("a.tar", odd.end())]);
    let dataset = shards.open().unwrap();
    assert_eq!(ids(&dataset), ["a\\xff", "a\\x5cxff"]);
    let sample = dataset.sample(0).unwrap();
    let names: Vec<&str> = sample.tensors().iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["x", "\\xfe", "\\x5cxfe"]);
    let path = dataset.files()[0].path().to_owned();
    let twice = WebDataset::open(&[path.clone(), path], TarIndex::Memory).unwrap();
    let mut names = ids(&twice);
    assert!(names[0].ends_with("a.tar#0/a\\xff") && names[2].ends_with("a.tar#1/a\\xff"), "{names:?}");
    names.sort();
    names.dedup();
    assert_eq!(names.len() as u64, twice.len());
}

#[test]
fn an_error_names_the_one_bad_shard_of_many() {
    let good = Tar::default().file("a.x", "1").end();
    let names: Vec<String> = (0..50).map(|i| format!("{i:02}.tar")).collect();
    let mut archives: Vec<_> = names.iter().map(|name| (&**name, good.clone())).collect();
    archives[33].1.truncate(512);
    let refused = Shards::new(&archives).open().unwrap_err();
    assert!(refused.to_string().contains("33.tar at 512: member a.x needs 1 bytes more"), "{refused}");
}

#[test]
fn a_sample_of_many_members_in_disorder_is_found_whole() {
    let mut archive = Tar::default();
    for field in 0..40 {
        for key in (0..40).rev() {
            archive = archive.file(format!("{key}.{field}"), vec![0; key]);
        }
    }
    let dataset = Shards::new(&[("a.tar", archive.end())]).open().unwrap();
    assert_eq!(ids(&dataset), (0..40).rev().map(|key| key.to_string()).collect::<Vec<_>>());
    for index in 0..40 {
        let sample = dataset.sample(index).unwrap();
        let names: Vec<_> = sample.tensors().iter().map(|tensor| tensor.name.to_string()).collect();
        assert_eq!(names, (0..40).map(|field| field.to_string()).collect::<Vec<_>>());
        assert!(sample.ranges().iter().all(|range| range.len == 39 - index));
        assert!(sample.ranges().is_sorted_by_key(|range| range.offset));
    }
}
