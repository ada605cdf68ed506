//! Files that change while they are carried: an error with path and offset, never bytes of two files, or made-up ones.
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use forebay::{CarryFault, Change, ReadFault};

use crate::common::data;
use crate::common::emulated::clean;
use crate::common::reader::names_offset;
use crate::rig::{Files, check, ways, whole};

const LEN: u64 = 6 << 20;

type Alter = fn(&Path);

const ALTERATIONS: [(&str, Alter); 4] = [
    ("truncated", |path| fs::File::options().write(true).open(path).unwrap().set_len(LEN / 2 + 7).unwrap()),
    ("grown", |path| fs::File::options().append(true).open(path).unwrap().write_all(&[1; 5000]).unwrap()),
    ("overwritten", |path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(b"other", LEN / 2).unwrap();
    }),
    ("replaced", |path| {
        let other = path.with_extension("new");
        data::write_dense(&other, 98, LEN).unwrap();
        fs::rename(other, path).unwrap();
    }),
];

#[test]
fn a_file_that_changes_while_it_is_carried_is_an_error() {
    clean("", |control| {
        for (way, builder) in ways() {
            for (how, alter) in ALTERATIONS {
                let files = Files::one(LEN);
                // Less pinned memory than the file has bytes, so that while copies are held up, reads wait.
                let carrier = builder.clone().budget(2 << 20).build().unwrap();
                let file = carrier.open(&files.paths[0]).unwrap();
                check(&carrier.carry_blocking(&[whole(&file)]).unwrap(), &[(0, 0, LEN)]);
                files.cool();
                for entry in ["cuFileRead", "batch_entry", "async_entry"] {
                    control.script(&format!("stall={entry}@1:600"));
                }
                control.script("paused=1");
                let carry = carrier.carry(&[whole(&file)]);
                let carrying = thread::spawn(move || carry.wait());
                thread::sleep(Duration::from_millis(60));
                assert!(!carrying.is_finished(), "{way}, {how}: nothing held it up");
                alter(&files.paths[0]);
                control.script("paused=0; clear");
                let error = match carrying.join().unwrap() {
                    Ok(_) => panic!("{way}, {how}: delivered"),
                    Err(error) => error,
                };
                names_offset(&error.to_string(), &files.paths[0]).unwrap();
                let CarryFault::Read(fault) = &error.fault else { panic!("{way}, {how}: {error:?}") };
                let ReadFault::Changed(change) = fault else { panic!("{way}, {how}: {error:?}") };
                let right = match how {
                    "truncated" => matches!(change, Change::Shrank { from: LEN, .. }),
                    "grown" => matches!(change, Change::Grew { from: LEN, .. }),
                    "overwritten" => matches!(change, Change::Touched),
                    _ => matches!(change, Change::Replaced),
                };
                assert!(right, "{way}, {how}: {error:?}");
                assert_eq!(carrier.device_bytes_held(), 0, "{way}, {how}");
                // Opened anew, it is the file that it is now.
                let now = carrier.open(&files.paths[0]).unwrap();
                assert_eq!(carrier.carry_blocking(&[whole(&now)]).unwrap().carried().total(), now.len());
            }
        }
    });
}
