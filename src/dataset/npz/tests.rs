use std::fs;
use std::os::unix::fs::FileExt;

use super::*;
use crate::dataset::DType;
use crate::dataset::heard::warnings;
use crate::dataset::mutants::{assert_damage_is_survived, assert_no_beginning_opens, assert_sound};
use crate::dataset::npy::tests::{dictionary, npy};
use crate::work::within;

/// A writer of archives that can be told to get each field wrong. Sound ones are numpy's in tests/formats/npz.rs.
#[derive(Clone)]
struct Zip {
    members: Vec<(Vec<u8>, Vec<u8>)>,
    method: u16,
    flags: u16,
    /// Every length and place stands in ZIP64 fields, and the end has its wide form.
    wide: bool,
    /// Local headers have no lengths: they follow the bytes.
    behind: bool,
    comment: Vec<u8>,
    /// Added to the place of the second member.
    shift: i64,
    local_name: Option<Vec<u8>>,
}

fn zip(members: &[(&str, Vec<u8>)]) -> Zip {
    let members = members.iter().map(|(name, data)| (name.as_bytes().to_vec(), data.clone())).collect();
    Zip { members, method: 0, flags: 0, wide: false, behind: false, comment: vec![], shift: 0, local_name: None }
}

fn numbers<const N: usize>(out: &mut Vec<u8>, numbers: [(u64, usize); N]) {
    numbers.iter().for_each(|(number, len)| out.extend(&number.to_le_bytes()[..*len]));
}

impl Zip {
    fn bytes(&self) -> Vec<u8> {
        let (mut out, mut directory) = (Vec::new(), Vec::new());
        let flags = u64::from(self.flags | if self.behind { 8 } else { 0 });
        let method = u64::from(self.method);
        for (i, (name, data)) in self.members.iter().enumerate() {
            let place = out.len() as u64;
            let len = data.len() as u64;
            let local_name = self.local_name.as_ref().unwrap_or(name);
            let (told, extra) = match (self.behind, self.wide) {
                (true, _) => (0, 0),
                (false, true) => (u32::MAX.into(), 20),
                (false, false) => (len, 0),
            };
            let sum = u64::from(crc32fast::hash(data));
            let crc = if self.behind { 0 } else { sum };
            numbers(
                &mut out,
                [(0x0403_4b50, 4), (20, 2), (flags, 2), (method, 2), (0, 4), (crc, 4), (told, 4), (told, 4)],
            );
            numbers(&mut out, [(local_name.len() as u64, 2), (extra, 2)]);
            out.extend(local_name);
            if extra > 0 {
                numbers(&mut out, [(1, 2), (16, 2), (len, 8), (len, 8)]);
            }
            out.extend(data);
            if self.behind {
                numbers(&mut out, [(0x0807_4b50, 4), (sum, 4), (len, 4), (len, 4)]);
            }
            let place = if i == 1 { place.wrapping_add_signed(self.shift) } else { place };
            let (told, told_place, extra) =
                if self.wide { (u32::MAX.into(), u32::MAX.into(), 28) } else { (len, place, 0) };
            numbers(&mut directory, [(0x0201_4b50, 4), (20, 2), (20, 2), (flags, 2), (method, 2), (0, 4), (sum, 4)]);
            numbers(&mut directory, [(told, 4), (told, 4), (name.len() as u64, 2), (extra, 2), (0, 2), (0, 2), (0, 6)]);
            numbers(&mut directory, [(told_place, 4)]);
            directory.extend(name);
            if extra > 0 {
                numbers(&mut directory, [(1, 2), (24, 2), (len, 8), (len, 8), (place, 8)]);
            }
        }
        let (start, len, entries) = (out.len() as u64, directory.len() as u64, self.members.len() as u64);
        out.extend(directory);
        let mut told = [(entries, 2), (entries, 2), (len, 4), (start, 4)];
        if self.wide {
            let end = out.len() as u64;
            numbers(&mut out, [(0x0606_4b50, 4), (44, 8), (45, 2), (45, 2), (0, 8), (entries, 8), (entries, 8)]);
            numbers(&mut out, [(len, 8), (start, 8), (0x0706_4b50, 4), (0, 4), (end, 8), (1, 4)]);
            told = [(u16::MAX.into(), 2), (u16::MAX.into(), 2), (u32::MAX.into(), 4), (u32::MAX.into(), 4)];
        }
        numbers(&mut out, [(0x0605_4b50, 4), (0, 4)]);
        numbers(&mut out, told);
        numbers(&mut out, [(self.comment.len() as u64, 2)]);
        out.extend(&self.comment);
        out
    }
}

fn array(descr: &str, shape: &str, len: usize) -> Vec<u8> {
    npy(1, &dictionary(descr, shape), &vec![1; len])
}

fn two() -> Zip {
    zip(&[("x.npy", array("<f4", "(3, 2)", 24)), ("y.npy", array("|u1", "(3,)", 3))])
}

fn opened(bytes: &[u8]) -> Result<Npz, DatasetError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    Npz::open(&[file.path().to_owned()])
}

fn refused(zip: &Zip) -> String {
    opened(&zip.bytes()).expect_err("it must not open").to_string()
}

#[test]
fn a_sample_has_a_row_of_each_array() {
    for zip in [
        two(),
        Zip { wide: true, ..two() },
        Zip { behind: true, ..two() },
        Zip { comment: b"PK\x05\x06 is in this comment, with more behind it".to_vec(), ..two() },
    ] {
        let npz = opened(&zip.bytes()).unwrap();
        assert_eq!(npz.len(), 3);
        let sample = npz.sample(1).unwrap();
        assert_eq!(sample.tensors(), [TensorSpec::new("x", DType::F32, [2]), TensorSpec::new("y", DType::U8, [])]);
        let stored: Vec<_> = npz.stored().map(Result::unwrap).collect();
        assert_eq!(stored[1].spec, TensorSpec::new("y", DType::U8, [3]));
        let bytes = zip.bytes();
        let at = |range: FileRange| &bytes[range.offset as usize..][..range.len as usize];
        assert_eq!((at(stored[0].range), at(stored[1].range)), (&[1; 24][..], &[1; 3][..]));
        assert_eq!(sample.ranges()[0].offset, stored[0].range.offset + 8);
        assert_sound(&npz);
    }
}

#[test]
fn what_is_not_stored_as_it_is_is_refused_by_name() {
    let said = refused(&Zip { method: 8, ..two() });
    assert!(said.contains("member x.npy is") && said.contains("savez_compressed"), "{said}");
    for flags in [1, 1 << 5, 1 << 6, 1 << 13] {
        assert!(refused(&Zip { flags, ..two() }).contains("encrypted"));
    }
}

#[test]
fn names_are_names_and_lead_nowhere() {
    for name in ["../../etc/passwd.npy", "/etc/passwd.npy", ".npy", "ä/\u{202e}.npy"] {
        let npz = opened(&zip(&[(name, array("|u1", "(1,)", 1))]).bytes()).unwrap();
        assert_eq!(&*npz.sample(0).unwrap().tensors()[0].name, name.strip_suffix(".npy").unwrap());
    }
    let mut odd = zip(&[("x.npy", array("|u1", "(1,)", 1))]);
    odd.members[0].0 = b"\xff.npy".to_vec();
    assert_eq!(&*opened(&odd.bytes()).unwrap().sample(0).unwrap().tensors()[0].name, "\\xff");
    let long = format!("{}.pkl", "é".repeat(30_000));
    assert!(refused(&zip(&[(&long, vec![])])).len() < 1000);
    for name in ["x\0.npy", ""] {
        assert!(refused(&zip(&[(name, array("|u1", "(1,)", 1))])).contains("no name"));
    }
    let said = refused(&zip(&[("data.pkl", vec![]), ("data/0", vec![1])]));
    assert!(said.contains("data.pkl") && said.contains("safetensors"), "{said}");
    let said = refused(&zip(&[("x.npy", array("|u1", "(1,)", 1)), ("x.npy", array("|u1", "(1,)", 1))]));
    assert!(said.contains("two members"), "{said}");
}

#[test]
fn the_two_places_that_tell_of_a_member_must_agree() {
    assert!(refused(&Zip { local_name: Some(b"z.npy".to_vec()), ..two() }).contains("another name"));
    let sound = two().bytes();
    // Flags, method, CRC, lengths, and lengths of name and extra field of the first local header.
    for at in [6, 8, 14, 18, 22, 26, 28] {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        assert!(opened(&bytes).is_err(), "{at}");
    }
}

#[test]
fn members_may_not_overlap_nor_leave_the_archive() {
    let second = two();
    let len = 30 + 5 + second.members[0].1.len() as i64;
    let said = refused(&Zip { shift: -len, ..two() });
    assert!(said.contains("overlap"), "{said}");
    // Two entries for one member, as archives that expand without end have them.
    let mut same = two();
    same.members[1] = same.members[0].clone();
    assert!(refused(&Zip { shift: -len, ..same }).contains("overlap"));
    for shift in [1 << 40, i64::MIN, -1, i64::from(u32::MAX)] {
        assert!(opened(&Zip { wide: true, shift, ..two() }.bytes()).is_err());
    }
}

#[test]
fn arrays_share_their_first_dimension() {
    let said = refused(&zip(&[("x.npy", array("|u1", "(3,)", 3)), ("y.npy", array("|u1", "(4,)", 4))]));
    assert!(said.contains("array x has 3 rows") && said.contains("array y has 4"), "{said}");
    assert!(refused(&zip(&[("x.npy", array("<f4", "()", 4))])).contains("no dimensions"));
    assert!(refused(&zip(&[])).contains("no arrays"));
    // An array may not reach out of its member, nor end before it.
    assert!(refused(&zip(&[("x.npy", array("|u1", "(4,)", 3))])).contains("member has"));
    assert!(refused(&zip(&[("x.npy", array("|u1", "(4,)", 5))])).contains("follow the array"));
}

#[test]
fn rows_go_on_over_archives_that_are_alike() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, zip: Zip| {
        let path = folder.path().join(name);
        fs::write(&path, zip.bytes()).unwrap();
        path
    };
    let turned = zip(&[("y.npy", array("|u1", "(2,)", 2)), ("x.npy", array("<f4", "(2, 2)", 16))]);
    let paths = [write("a.npz", two()), write("b.npz", turned)];
    let npz = Npz::open(&paths).unwrap();
    assert_eq!(npz.len(), 5);
    let sample = npz.sample(4).unwrap();
    assert_eq!(sample.tensors(), npz.sample(0).unwrap().tensors());
    assert!(sample.ranges()[1].offset < sample.ranges()[0].offset, "x comes first, and lies behind y");
    assert_sound(&npz);
    for other in [
        zip(&[("x.npy", array("<f4", "(2, 2)", 16))]),
        zip(&[("x.npy", array("<f4", "(2, 2)", 16)), ("z.npy", array("|u1", "(2,)", 2))]),
        zip(&[("x.npy", array("<f4", "(2, 2)", 16)), ("y.npy", array("|i1", "(2,)", 2))]),
    ] {
        let other = write("c.npz", other);
        let error = Npz::open(&[paths[0].clone(), other.clone()]).unwrap_err();
        assert!(error.path == other && error.to_string().contains("a.npz"), "{error}");
    }
}

#[test]
fn no_beginning_of_an_archive_opens() {
    assert_no_beginning_opens(&two().bytes(), "arrays.npz", Npz::open);
    assert_no_beginning_opens(&Zip { wide: true, ..two() }.bytes(), "arrays.npz", Npz::open);
}

#[test]
fn damaged_archives_are_refused_or_sound() {
    let sound = [two().bytes(), Zip { wide: true, ..two() }.bytes(), Zip { behind: true, ..two() }.bytes()];
    assert_damage_is_survived(&sound, "arrays.npz", 4000, Npz::open);
}

/// Each local header with its extra field is read; a few bytes must not have gigabytes read.
#[test]
fn entries_that_name_one_place_or_long_extra_fields_are_refused_soon() {
    const ENTRIES: u64 = 60_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npz");
    for (step, said) in [(0, "overlap"), (1 << 16, "extra field")] {
        let file = fs::File::create(&path).unwrap();
        let mut directory = Vec::new();
        for i in 0..ENTRIES {
            let name = format!("{i:05}.npy");
            let extra = (1 << 16) - 40_u64;
            let mut local = Vec::new();
            numbers(&mut local, [(0x0403_4b50, 4), (20, 2), (0, 2), (0, 2), (0, 4), (7, 4), (0, 4), (0, 4)]);
            numbers(&mut local, [(name.len() as u64, 2), (extra, 2)]);
            local.extend(name.as_bytes());
            if i * step == 0 || step > 0 {
                file.write_all_at(&local, i * step).unwrap();
            }
            numbers(&mut directory, [(0x0201_4b50, 4), (20, 2), (20, 2), (0, 2), (0, 2), (0, 4), (7, 4), (0, 4)]);
            numbers(&mut directory, [(0, 4), (name.len() as u64, 2), (0, 2), (0, 2), (0, 2), (0, 2), (0, 4)]);
            numbers(&mut directory, [(i * step, 4)]);
            directory.extend(name.as_bytes());
        }
        let start = (ENTRIES * step).max(1 << 16);
        let len = directory.len() as u64;
        numbers(&mut directory, [(0x0605_4b50, 4), (0, 2), (0, 2), (ENTRIES, 2), (ENTRIES, 2)]);
        numbers(&mut directory, [(len, 4), (start, 4), (0, 2)]);
        file.write_all_at(&directory, start).unwrap();
        // The square of the entries would be thousands of units.
        let error = within(500, said, || Npz::open(std::slice::from_ref(&path)).unwrap_err().to_string());
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_directory_of_millions_of_members_is_not_read() {
    let mut bytes = Zip { wide: true, ..two() }.bytes();
    let end = bytes.windows(4).position(|at| at == 0x0606_4b50_u32.to_le_bytes()).unwrap();
    for at in [24, 32] {
        bytes[end + at..end + at + 8].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    }
    assert!(opened(&bytes).unwrap_err().to_string().contains("1099511627776 members"));
}

#[test]
fn what_is_left_out_is_named_once_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let odd = zip(&[
        ("x.npy", array("|u1", "(3,)", 3)),
        ("t.npy", array("<U1", "(3,)", 12)),
        ("o.npy", array("|O", "(3,)", 9)),
        ("__MACOSX/._x.npy", vec![1]),
        ("d/._x.npy", vec![1]),
        ("d/", vec![]),
        ("notes.txt", vec![1]),
    ]);
    let paths = ["a.npz", "b.npz"].map(|name| folder.path().join(name));
    paths.iter().for_each(|path| fs::write(path, odd.bytes()).unwrap());
    let (npz, heard) = warnings(|| Npz::open(&paths).unwrap());
    assert_eq!((npz.len(), npz.sample(5).unwrap().tensors().len()), (6, 1));
    let said = ["member notes.txt", "member o.npy", "member t.npy"]
        .map(|member| format!("{member} is left out, as in 2 archives: "));
    assert_eq!(heard.len(), 4, "{heard:?}");
    assert!(
        heard.iter().zip(&said).all(|(heard, said)| heard.contains("a.npz at ") && heard.contains(said)),
        "{heard:?}"
    );
    assert!(heard[3].ends_with("a.npz: AppleDouble files left out: 4"), "{heard:?}");
}

#[test]
fn zeros_behind_the_end_are_what_fills_a_pipe_up_and_other_bytes_are_not() {
    for comment in [vec![], b"written by hand".to_vec(), vec![0; 40]] {
        let sound = Zip { comment, ..two() }.bytes();
        for zeros in [1, 512, 10_000] {
            let padded = [&sound[..], &vec![0; zeros]].concat();
            assert_eq!(opened(&padded).unwrap().len(), 3);
            assert!(opened(&[&padded[..], b"x"].concat()).is_err());
        }
    }
}
