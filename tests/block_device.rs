//! Raw block devices: their size, their sectors, and what they answer when they are gone.
mod common;

use common::data;
use common::mounts::LoopDevice;
use common::reader::{Row, rows};
use common::watchdog::guarded;
use forebay::{Extent, FileKind, Mode};

const LEN: u64 = 3 << 20;

#[test]
fn a_block_device_is_read_to_its_last_byte() {
    for sector in [512, 4096] {
        let device = or_skip!(LoopDevice::new(LEN, sector));
        fill(&device);
        for row in rows() {
            data::drop_cache(&device.device).unwrap();
            let reader = row.reader();
            let file = reader.open(&device.device).unwrap();
            assert_eq!((file.kind(), file.len()), (FileKind::BlockDevice, LEN), "{row}");
            let asked = [(0, LEN), (1, 511), (4095, 2), (LEN - 1, 1), (LEN - 70_000, 70_000), (LEN, 0), (513, 200_001)];
            let extents = asked.map(|(offset, len)| Extent::new(&file, offset, len));
            let pieces = reader.read_blocking(&extents).unwrap_or_else(|error| panic!("{row}: {error}"));
            for ((offset, len), piece) in asked.into_iter().zip(pieces.iter()) {
                assert_eq!(piece.len() as u64, len);
                data::check(piece, 7, offset).unwrap_or_else(|wrong| panic!("{row}, {sector}: {wrong}"));
            }
            let past = reader.read_blocking(&[Extent::new(&file, LEN - 1, 2)]).unwrap_err().to_string();
            assert!(past.contains("passes the end"), "{past}");
        }
    }
}

#[test]
fn a_device_that_answers_nothing_is_an_error_and_not_an_end() {
    guarded("reading a device that lost its end", || {
        for row in rows() {
            let device = or_skip!(LoopDevice::new(LEN, 512));
            fill(&device);
            let reader = row.reader();
            let file = reader.open(&device.device).unwrap();
            device.shrink_to(1 << 20);
            data::drop_cache(&device.device).unwrap();
            let error = reader.read_blocking(&[Extent::new(&file, 2 << 20, 1000)]).unwrap_err().to_string();
            assert!(error.contains(" at 2097152: ") && error.contains("device"), "{row}: {error}");
            let before = reader.read_blocking(&[Extent::new(&file, 100, 1000)]).unwrap();
            data::check(&before[0], 7, 100).unwrap();
        }
    });
}

#[test]
fn what_is_no_file_and_no_device_is_refused_by_name() {
    guarded("opening what is no file", || {
        let row = Row { engine: forebay::EngineChoice::Pread, mode: Mode::Auto };
        // Reading /proc/kmsg waits for the kernel to say something.
        for (path, word) in [
            ("/dev/null", "character device"),
            ("/", "directory"),
            ("/proc/self/status", "kernel makes up"),
            ("/proc/kmsg", "kernel makes up"),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "kernel makes up"),
        ] {
            match row.reader().open(path) {
                Err(error) => {
                    let error = error.to_string();
                    if error.contains("cannot open") {
                        crate::common::skipped::skipped(error);
                        continue;
                    }
                    assert!(error.contains(path) && error.contains(word), "{error}");
                }
                Ok(_) => panic!("{path} was opened"),
            }
        }
    });
}

fn fill(device: &LoopDevice) {
    std::fs::write(&device.device, data::bytes(7, 0, LEN)).unwrap();
    std::fs::File::open(&device.device).unwrap().sync_all().unwrap();
}
