//! Block devices whose blocks are larger than a page.
mod common;

use common::{mounts, reader};
use forebay::{Extent, Mode, Reader};

/// The kernel registers memory in buffers of at most 1 GiB: a read that lands in two of them must still end at a block.
#[test]
fn a_direct_read_may_land_across_two_registered_buffers() {
    const BLOCK: u64 = 16 << 10;
    let device = or_skip!(mounts::LoopDevice::new(1 << 20, BLOCK as u32));
    for engine in reader::engines() {
        let budget = (1 << 30) + (1 << 20);
        let reader = Reader::builder().engine(engine).mode(Mode::Direct).budget(budget).build().unwrap();
        let file = reader.open(&device.device).unwrap();
        for before in [4 << 10, BLOCK, BLOCK + (8 << 10)] {
            let held = reader.arena().try_loan((1 << 30) - before as usize).unwrap().unwrap();
            let pieces = reader.read_blocking(&[Extent::new(&file, BLOCK, 8 * BLOCK)]);
            let pieces = pieces.unwrap_or_else(|e| panic!("{engine:?}, {before} bytes before the border: {e}"));
            assert!(pieces[0].iter().all(|&byte| byte == 0));
            drop(held);
        }
    }
}
