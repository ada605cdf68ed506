//! TFRecord files as another program writes them, which shares no line with what reads them here.
use forebay::dataset::{Corrupt, Dataset, TfRecord};

use crate::common::folder;
use crate::common::python::Python;
use crate::{bytes, or_skip};

/// The checksum bit by bit, as its polynomial defines it.
const WRITE: &str = r#"
import struct
def masked(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff
assert masked(b"123456789") == 0xc78ab0e5
records = [bytes([i]) * (i * i) for i in range(60)]
for name, some in [("a.tfrecord", records[:25]), ("b.tfrecord", []), ("c.tfrecord", records[25:])]:
    with open(name, "wb") as file:
        for data in some:
            length = struct.pack("<Q", len(data))
            file.write(length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data)))
"#;

#[test]
fn records_of_another_writer_are_found_and_sound() {
    let python = or_skip!(Python::with(&["struct"]));
    let folder = folder();
    python.run(folder.path(), WRITE);
    let paths = ["a", "b", "c"].map(|name| folder.path().join(format!("{name}.tfrecord")));
    let dataset = TfRecord::open(&paths, Corrupt::Refuse).unwrap();
    assert_eq!((dataset.len(), dataset.skipped()), (60, 0));
    for index in 0..60 {
        let record = vec![index as u8; (index * index) as usize];
        assert_eq!(bytes::of(&dataset, index), [("record".to_owned(), record.clone())]);
        dataset.verify(index, &record).unwrap();
    }
    assert_eq!(dataset.verify_all().unwrap(), 60);
}
