//! A drive that does not keep its word: zram (Linux 6.18) says that direct reads may begin at any 512 bytes of memory, and
//! then puts the wrong bytes of the file there where they do not begin at a page.
mod common;
#[path = "../benches/storage/ram_device.rs"]
mod ram_device;
#[allow(dead_code)]
#[path = "../benches/storage/random.rs"]
mod random;

use std::fs;
use std::sync::Arc;

use common::Skip;
use forebay::dataset::{DType, Records, TensorSpec};
use forebay::loader::Loader;
use forebay::sampler::Shuffle;
use forebay::{Carrier, Reader, RouteBytes, Switch};
use ram_device::RamDevice;

/// Rows of which every other one begins in the middle of a page, in the file and in the batch: read there, none is wrong.
#[test]
fn rows_read_to_the_middle_of_a_page_are_those_of_the_file() {
    const ROW: usize = (600 << 10) + 2048;
    const ROWS: usize = 64;
    let device = or_skip!(RamDevice::with_room(64 << 20).map_err(|why| Skip::because(format!("zram: {why}"))));
    let path = device.dir().join("rows.bin");
    let mut file = fs::File::create(&path).unwrap();
    random::fill(&mut file, 40 << 20).unwrap();
    file.set_len((ROW * ROWS) as u64).unwrap();
    file.sync_all().unwrap();
    let expected = fs::read(&path).unwrap();

    let reader = Reader::builder().build().unwrap();
    let align = reader.open(&path).unwrap().direct().unwrap();
    assert!(align.memory >= align.offset.min(4096), "{align:?}");

    let row = TensorSpec::new("x", DType::U8, [ROW as u64]);
    let records = Arc::new(Records::open(&[&path], row).unwrap());
    let carrier = Carrier::builder().cached(Switch::Off);
    let mut loader = Loader::builder(records).batch_size(7).carrier(carrier).shuffle(Shuffle::Full).build().unwrap();
    let (mut seen, mut carried) = (0, RouteBytes::default());
    for batch in loader.blocking() {
        let batch = batch.unwrap();
        carried += batch.carried();
        let rows = batch.tensor("x").unwrap();
        for (row, &index) in rows.host().unwrap().chunks_exact(ROW).zip(batch.indices()) {
            let index = index as usize;
            assert!(row == &expected[index * ROW..(index + 1) * ROW], "row {index}");
            seen += 1;
        }
    }
    assert_eq!(seen, ROWS);
    assert_eq!(carried.bounce, (ROW * ROWS) as u64, "read past the page cache: {carried:?}");
}
