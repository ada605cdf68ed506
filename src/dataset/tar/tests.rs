use std::io::Write;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;

use super::writer::{Tar, changed, header};
use super::{BLOCK, Kind, each_member, looks_like};
use crate::dataset::error::{DatasetError, DatasetFault};
use crate::dataset::heard::warnings;
use crate::dataset::source::Source;

type Found = Vec<(Vec<u8>, u64, u64)>;

/// The files in an archive: names, offsets and sizes.
fn members(archive: &[u8]) -> Result<Found, DatasetError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(archive).unwrap();
    let source = Source::open(file.path()).unwrap();
    let mut found = Vec::new();
    let end = each_member(&source, &mut |member| {
        assert_eq!(member.at + BLOCK as u64, member.data);
        if member.kind == Kind::File {
            found.push((member.name.to_vec(), member.data, member.size));
        }
        Ok(())
    })?;
    end.warn(&source);
    Ok(found)
}

fn names(archive: &[u8]) -> Vec<String> {
    members(archive).unwrap().into_iter().map(|(name, ..)| name.escape_ascii().to_string()).collect()
}

fn refusal(archive: &[u8]) -> String {
    let message = members(archive).unwrap_err().to_string();
    message.split_once(" at ").expect("it names an offset").1.to_owned()
}

#[test]
fn members_are_found_with_name_offset_and_size() {
    let archive = Tar::default().file("a.jpg", "one").file("b/c.txt", vec![7; 600]).file("empty", "").end();
    let found = [(b"a.jpg".to_vec(), 512, 3), (b"b/c.txt".to_vec(), 1536, 600), (b"empty".to_vec(), 3072, 0)];
    assert_eq!(members(&archive).unwrap(), found);
    assert!(looks_like(&archive) && looks_like(&archive[..512]) && !looks_like(&archive[..511]));
    assert!(!looks_like(&[0; 512]));
}

/// The prefix is a part of the name in ustar only: GNU tar keeps times there, and old archives anything.
#[test]
fn the_prefix_counts_where_the_magic_is_ustars() {
    let with = |magic: &[u8], end: &[u8]| {
        let block = changed(header("name.x", 0, b'0'), |block| {
            block[257..257 + 8].fill(0);
            block[257..257 + magic.len()].copy_from_slice(magic);
            block[345..355].copy_from_slice(b"the/prefix");
            block[476..488].copy_from_slice(b"00000000000\0");
            block[508..508 + end.len()].copy_from_slice(end);
        });
        names(&Tar::default().header(&block).end()).remove(0)
    };
    assert_eq!(with(b"ustar\x0000", b""), "the/prefix/name.x");
    assert_eq!(with(b"ustar\x0000", b"tar\0"), "the/prefix/name.x");
    assert_eq!(with(b"ustar  \0", b""), "name.x");
    assert_eq!(with(b"", b""), "name.x");
    let block = changed(header(vec![b'n'; 100], 0, b'0'), |block| block[345..500].fill(b'p'));
    let full = names(&Tar::default().header(&block).end()).remove(0);
    assert_eq!(full, format!("{}/{}", "p".repeat(155), "n".repeat(100)), "fields without a NUL are full");
}

#[test]
fn long_names_of_gnu_and_paths_of_pax_name_the_next_member_only() {
    let long = [b'n'; 300];
    let archive = Tar::default()
        .record(b'K', [&[b'k'; 300][..], b"\0"].concat())
        .record(b'L', [&long[..], b"\0"].concat())
        .file("short", "1")
        .file("next", "2")
        .pax(b'x', &[("mtime", b"1.5"), ("path", b"\xff/p\xc3\xa4x")])
        .file("short", "3")
        .pax(b'X', &[("path", b"solaris")])
        .file("short", "3")
        .file("last", "4")
        .end();
    let long = "n".repeat(300);
    assert_eq!(names(&archive), [&long, "next", "\\xff/p\\xc3\\xa4x", "solaris", "last"]);
}

/// As GNU tar and Python's tarfile read it, whether a record stands in between or not.
#[test]
fn a_pax_size_is_the_members_and_not_that_of_a_record_in_between() {
    let data = vec![b'7'; 700];
    let start = Tar::default().pax(b'x', &[("size", b"700")]);
    for (start, name) in [(start.clone(), "short"), (start.record(b'L', "long\0"), "long")] {
        let at = start.0.len() as u64 + 512;
        let archive = start.header(&header("short", 0, b'0')).data(&data).file("next", "8 bytes.").end();
        let found = [(name.as_bytes().to_vec(), at, 700), (b"next".to_vec(), at + 1536, 8)];
        assert_eq!(members(&archive).unwrap(), found);
    }
}

#[test]
fn global_headers_are_passed_over_unless_they_place_members() {
    let global = |key, value: &[u8]| Tar::default().pax(b'g', &[(key, value)]).file("a", "").end();
    assert_eq!(names(&global("comment", b"0123456789abcdef")), ["a"]);
    for key in ["path", "size", "GNU.sparse.size"] {
        assert!(refusal(&global(key, b"1")).contains("a global pax header gives all members one"), "{key}");
    }
    let between = Tar::default().pax(b'x', &[("path", b"named")]).pax(b'g', &[("comment", b"c")]).file("a", "").end();
    assert_eq!(names(&between), ["named"]);
}

#[test]
fn folders_links_devices_and_fifos_are_passed_over() {
    let mut archive = Tar::default().file("first", "1");
    for kind in *b"123456" {
        archive = archive.header(&header("../../outside", 0, kind));
    }
    // A hard link has the size of the file it leads to, and no data.
    archive = archive.header(&header("hard", 5000, b'1'));
    archive = archive.header(&header("old/", 0, 0));
    // What is of no known kind has its data passed over with it.
    archive = archive.header(&header("V", 0, b'V')).header(&header("D", 700, b'D')).data([b'D'; 700]);
    archive = archive.header(&header("seven", 1, b'7')).data("7").header(&header("old", 1, 0)).data("v");
    assert_eq!(names(&archive.end()), ["first", "seven", "old"]);
}

#[test]
fn what_readers_disagree_on_is_refused() {
    for kind in *b"23456" {
        let said = refusal(&Tar::default().header(&header("odd", 600, kind)).data([0; 600]).end());
        assert!(said.starts_with("0: member odd is no file but has a size"), "{said}");
    }
    assert!(refusal(&Tar::default().header(&header("odd/", 600, 0)).end()).contains("a folder but has a size"));
    let two = Tar::default().record(b'L', "one\0").record(b'L', "two\0").file("x", "").end();
    assert_eq!(refusal(&two), "1024: one member has two long names; write the archive again");
    let two = Tar::default().pax(b'x', &[("path", b"a")]).pax(b'x', &[("size", b"1")]).file("x", "").end();
    assert!(refusal(&two).starts_with("1024: one member has two pax headers"));
}

#[test]
fn sparse_members_and_other_volumes_are_refused_by_name() {
    let old = Tar::default().file("a", "1").header(&header("holes.bin", 0, b'S')).end();
    assert_eq!(refusal(&old), "1024: member holes.bin is sparse; write the archive again without --sparse");
    for (key, value) in [("GNU.sparse.major", &b"1"[..]), ("GNU.sparse.map", b"0,1"), ("SCHILY.realsize", b"9")] {
        let new = Tar::default().pax(b'x', &[("GNU.sparse.name", b"the/name"), (key, value)]).file("made/up", "").end();
        assert!(refusal(&new).contains("member the/name is sparse"), "{key}");
    }
    let volume = Tar::default().header(&header("cut", 0, b'M')).end();
    assert!(refusal(&volume).contains("member cut is continued from another volume"));
}

#[test]
fn checksums_may_be_summed_with_signs_but_must_be_right() {
    let signed = |off: i32| {
        let mut block = header(b"\xff\xfe\xfd.x", 0, b'0');
        block[148..156].fill(b' ');
        let sum: i32 = block.iter().map(|&byte| i32::from(byte as i8)).sum();
        block[148..156].copy_from_slice(format!("{:06o}\0 ", sum + off).as_bytes());
        Tar::default().header(&block).end()
    };
    assert_eq!(names(&signed(0)), ["\\xff\\xfe\\xfd.x"]);
    assert!(members(&signed(1)).is_err());
    let mut damaged = Tar::default().file("a", "1").file("b", "2").end();
    damaged[1024 + 3] ^= 1;
    assert_eq!(refusal(&damaged), "1024: the checksum of a header is wrong; the archive is damaged, get it again");
}

#[test]
fn huge_claims_are_refused_before_anything_is_made_room_for() {
    let claim = |size: u64, kind| refusal(&Tar::default().header(&header("big", size, kind)).data([0; 512]).end());
    for size in [1 << 31, 1 << 33, 1 << 62, 1 << 63, u64::MAX] {
        for kind in *b"0LxgKZ" {
            assert!(claim(size, kind).contains(" bytes more than the file has"), "{size} in {}", kind as char);
        }
    }
    assert!(claim(1 << 33, b'0').starts_with("512: member big needs 8589933056 bytes more"));
    let negative = changed(header("minus", 0, b'0'), |block| block[124..136].fill(0xff));
    assert!(refusal(&Tar::default().header(&negative).end()).contains("the size of member minus is negative"));
    let pax = Tar::default().pax(b'x', &[("size", b"18446744073709551615")]).file("big", "").end();
    assert!(refusal(&pax).contains("member big needs"));
    let record = Tar::default().record(b'L', vec![b'n'; (1 << 20) + 1]).file("x", "").end();
    assert!(refusal(&record).contains("has 1048577 bytes, and may have 1048576"));
}

#[test]
fn records_of_nothing_and_malformed_ones_are_refused() {
    let nothing = Tar::default().file("a", "").record(b'L', "name\0").end();
    assert!(refusal(&nothing).starts_with("512: a record speaks of a member that does not follow"));
    let malformed = Tar::default().record(b'x', "12 path=a/b.c\n").file("a", "").end();
    assert!(refusal(&malformed).starts_with("512: a pax record is not of the form"));
}

/// Cut anywhere, it is an error, or gives the members whose data is all there; without its end all of them.
#[test]
fn an_archive_cut_at_any_byte_gives_no_member_that_is_cut() {
    let whole = Tar::default()
        .file("a.jpg", "one")
        .pax(b'x', &[("path", b"b.jpg"), ("size", b"700")])
        .file("b", [1; 700])
        .record(b'L', "c\0")
        .file("x", [2; 512]);
    let data_ends = whole.0.len();
    let whole = whole.end();
    let all = members(&whole).unwrap();
    for cut in 0..whole.len() {
        let (found, heard) = warnings(|| members(&whole[..cut]));
        match found {
            Ok(found) => {
                assert!(all.starts_with(&found), "cut at {cut}");
                assert!(found.iter().all(|(_, data, size)| data + size <= cut as u64), "cut at {cut}");
                let has_end = cut >= data_ends + BLOCK;
                assert_eq!(heard.len(), usize::from(!has_end), "cut at {cut}: {heard:?}");
                // Only between the data of one member and the next header there is nothing to miss.
                let ends = found.last().map_or(0, |(_, data, size)| (data + size) as usize);
                assert!(has_end || cut <= ends.next_multiple_of(BLOCK) || found.len() == all.len(), "cut at {cut}");
            }
            Err(error) => {
                assert!(cut < data_ends, "cut at {cut}, behind all data: {error}");
                assert!(error.offset.is_some());
            }
        }
    }
    assert_eq!(members(&whole[..data_ends]).unwrap(), all);
    let cut = members(&whole[..512 + 2]).unwrap_err();
    let said = "at 512: member a.jpg needs 1 bytes more than the file has; the file was cut short, get it again";
    assert!(cut.to_string().ends_with(said), "{cut}");
}

#[test]
fn archives_behind_the_end_are_read_and_other_bytes_there_are_warned_about() {
    let one = Tar::default().file("a", "1").end();
    for zeros in [0, 512, 9216, 22 * 512, 5 << 20] {
        let padded = [&one[..], &vec![0; zeros]].concat();
        let (found, heard) = warnings(|| names(&padded));
        assert_eq!((found.len(), heard.len()), (1, 0), "{heard:?}");
        let (found, heard) = warnings(|| names(&[&padded[..], &[0xff; 5000]].concat()));
        assert_eq!((found.len(), heard.len()), (1, 1), "{heard:?}");
        let end = padded.len();
        assert!(heard[0].contains(&format!("at {end}: the bytes behind the end of the archive are no m")), "{heard:?}");
        let (found, heard) = warnings(|| names(&padded.repeat(3)));
        assert_eq!((found.len(), heard.len()), (3, 1));
        assert!(heard[0].contains(&format!("at {end}: an archive begins behind the end of another")), "{heard:?}");
        let refused = refusal(&[&padded[..], &[0xff; 700], &[0; 324], &one].concat());
        let said = format!("and another archive follows at {}; get it again", end + 1024);
        assert!(refused.starts_with(&format!("{end}: ")) && refused.contains(&said), "{refused}");
    }
    assert_eq!(names(&[0; 1024]), [""; 0]);
    // A record does not speak of a member of the next archive.
    let record = Tar::default().pax(b'x', &[("path", b"other")]).end();
    assert!(refusal(&[record, one].concat()).starts_with("0: a record speaks of a member that does not follow"));
}

/// The end of a file that was made long and never written to is not read through.
#[test]
fn holes_behind_the_end_are_passed_over() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let one = Tar::default().file("a", "1").end();
    let far = (1 << 40) + 512;
    file.as_file().write_all_at(&one, 0).unwrap();
    file.as_file().write_all_at(&one, far).unwrap();
    file.as_file().set_len(1 << 41).unwrap();
    let source = Source::open(file.path()).unwrap();
    if source.next_data(1 << 30) == 1 << 30 {
        crate::skipped::skipped("the file system tells of no holes");
        return;
    }
    let mut found = Vec::new();
    let walked = each_member(&source, &mut |member| {
        found.push(member.at);
        Ok(())
    });
    walked.unwrap();
    assert_eq!(found, [0, far]);
}

#[test]
fn links_are_shown_with_what_they_lead_to() {
    let link = |name: &str, target: &[u8], kind| {
        changed(header(name, 0, kind), |block| block[157..157 + target.len()].copy_from_slice(target))
    };
    let long = [&[b'k'; 300][..], b"\0"].concat();
    let archive = Tar::default()
        .header(&link("h", b"a/b", b'1'))
        .header(&link("s", &[b'f'; 100], b'2'))
        .record(b'K', &long)
        .header(&link("l", b"short", b'2'))
        .header(&link("n", b"next", b'1'))
        .pax(b'x', &[("linkpath", b"\xff/p")])
        .header(&link("p", b"short", b'1'))
        .header(&header("fifo", 0, b'6'))
        .header(&header("d/", 0, b'5'))
        .end();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&archive).unwrap();
    let mut found = Vec::new();
    let walked = each_member(&Source::open(file.path()).unwrap(), &mut |member| {
        found.push(match member.kind {
            Kind::HardLink(target) => (b'h', target.to_vec()),
            Kind::SymbolicLink(target) => (b's', target.to_vec()),
            Kind::File => (b'f', vec![]),
            Kind::Other => (b'o', vec![]),
        });
        Ok(())
    });
    walked.unwrap();
    let expected = [
        (b'h', b"a/b".to_vec()),
        (b's', vec![b'f'; 100]),
        (b's', vec![b'k'; 300]),
        (b'h', b"next".to_vec()),
        (b'h', b"\xff/p".to_vec()),
        (b'o', vec![]),
    ];
    assert_eq!(found, expected);
    let two = Tar::default().record(b'K', "a").record(b'K', "b").header(&link("h", b"a", b'1')).end();
    assert!(refusal(&two).contains("two long names of what it leads to"));
    let global = Tar::default().pax(b'g', &[("linkpath", b"a")]).file("a", "").end();
    assert!(refusal(&global).contains("a global pax header"));
}

#[test]
fn what_is_no_archive_is_named_where_it_is_known() {
    for (bytes, said) in [
        (&b"\x1f\x8b\x08\0"[..], "it is compressed with gzip; decompress it first"),
        (b"\x28\xb5\x2f\xfd", "it is compressed with zstd; decompress it first"),
        (b"BZh91AY", "it is compressed with bzip2; decompress it first"),
        (b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0a", "it is a zip archive"),
        (b"\x80\x04\x95", "by its first bytes it is a pickle"),
        (b"text", "it is no tar archive: it does not begin with a header; check the path"),
    ] {
        for len in [bytes.len(), 2000] {
            let mut file = bytes.to_vec();
            file.resize(len, 0);
            let refusal = refusal(&file);
            assert!(refusal.starts_with(&format!("0: {said}")), "{refusal}");
        }
    }
    assert!(refusal(b"").contains("it is empty"));
}

/// Long records before many members: each would have a mebibyte read.
#[test]
fn records_are_not_read_without_end() {
    let attribute = vec![b'a'; (1 << 20) - 100];
    let long = Tar::default().pax(b'x', &[("SCHILY.xattr.user.x", &attribute)]).file("a.x", "").0;
    assert!(refusal(&long.repeat(80)).contains("extended attributes"));
    assert_eq!(names(&[long.repeat(50), vec![0; 1024]].concat()).len(), 50);
    let short = Tar::default().pax(b'x', &[("SCHILY.xattr.user.x", &attribute[..2000])]);
    let many: Vec<u8> = (0..40_000).flat_map(|i| short.clone().file(format!("{i}.x"), "").0).collect();
    assert_eq!(names(&many).len(), 40_000);
}

/// Sound archives to mutate: one of each thing that is read.
fn seeds() -> Vec<Vec<u8>> {
    let files = Tar::default().file("a.x", "1").file("b.x", [3; 600]).end();
    let pax = Tar::default()
        .pax(b'g', &[("comment", b"c")])
        .pax(b'x', &[("path", b"long"), ("size", b"9")])
        .file("a", [1; 9]);
    let gnu = Tar::default().record(b'K', "k\0").record(b'L', "l\0").file("a", "1").header(&header("d/", 0, b'5'));
    let big = Tar::default().header(&header("big", 1 << 33, b'0'));
    let joined = [files.clone(), vec![0; 700], files.clone()].concat();
    vec![files, pax.end(), gnu.end(), big.end(), joined]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::effort::of(500, 2000), ..ProptestConfig::default() })]

    /// Whatever is done to an archive, also where its checksums are made right again: no panic, and no member that is not
    /// all in the file.
    #[test]
    fn no_mutation_makes_a_member_outside_the_file(
        seed in 0..5_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..5_u8), 0..12),
        fix in any::<bool>(),
    ) {
        let mut bytes = seeds().swap_remove(seed);
        for (place, byte, kind) in changes {
            let at = place.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => bytes.insert(at, byte),
                3 => bytes[at / BLOCK * BLOCK..][124..136].fill(byte),
                _ if bytes.len() > BLOCK => { bytes.remove(at); }
                _ => {}
            }
            let whole = bytes.len().next_multiple_of(BLOCK);
            bytes.resize(whole, 0);
        }
        if fix {
            for block in bytes.as_chunks_mut::<BLOCK>().0 {
                if block.iter().any(|&byte| byte != 0) && block[257..262] == *b"ustar" {
                    *block = changed(*block, |_| {});
                }
            }
        }
        match members(&bytes) {
            Ok(found) => for (_, data, size) in found {
                prop_assert!(data.checked_add(size).is_some_and(|end| end <= bytes.len() as u64));
            },
            Err(error) => prop_assert!(!matches!(error.fault, DatasetFault::Io(_)), "{error}"),
        }
    }
}
