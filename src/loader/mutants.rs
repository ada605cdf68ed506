//! A mistake planted where batches are let go of, which a consumer that works late must notice.

use std::ffi::c_void;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use super::Loader;
use crate::dataset::{self, OpenOptions};
use crate::emulated::{Emulator, folder, is_caught, is_child, mutant};
use crate::{Device, Shuffle};

#[test]
fn memory_that_is_lent_again_before_the_consumers_stream_has_passed_is_noticed() {
    let module = module_path!().split_once("::").unwrap().1;
    is_caught(&format!("{module}::works_late_in_child"), "", mutant::REUSED_EARLY, &["wrong bytes"]);
}

static OPEN: AtomicBool = AtomicBool::new(false);

extern "C" fn wait_until_open(_: *mut c_void) {
    while !OPEN.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(1));
    }
}

type Launch = extern "C" fn(*mut c_void, extern "C" fn(*mut c_void), *mut c_void) -> i32;
type Copy = extern "C" fn(u64, u64, usize, *mut c_void) -> i32;

/// Copies the first batches on a stream that is held up, lets go of them, and takes all that comes meanwhile.
#[test]
#[ignore = "run by the test above"]
fn works_late_in_child() {
    const ROW: usize = 8192;
    if !is_child() {
        return;
    }
    let folder = folder();
    let path = folder.path().join("records.bin");
    let bytes: Vec<u8> = (0..64 * ROW).map(|i| (i / ROW * 31 + i) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let (emulator, device) = (Emulator::new(), Device::cuda(0).unwrap());
    let stream = device.context().unwrap().new_stream().unwrap();
    let launch = emulator.function::<Launch>("cuLaunchHostFunc");
    let copy = emulator.function::<Copy>("cuMemcpyDtoDAsync_v2");
    for names_stream in [true, false] {
        OPEN.store(false, Ordering::Release);
        let records = dataset::open(&[&path], &OpenOptions::new().record_bytes(ROW as u64)).unwrap();
        let loader = Loader::builder(records).device(&device).batch_size(4).shuffle(Shuffle::Full).endless();
        let loader = loader.budget(4 << 20).device_budget((16 * ROW) as u64);
        let loader = if names_stream { loader.consumer_stream(&stream) } else { loader };
        let mut loader = loader.build().unwrap();
        stream.context().bind_to_thread().unwrap();
        assert_eq!(launch(stream.cu_stream().cast(), wait_until_open, std::ptr::null_mut()), 0);
        let copies = device.allocate(2 * 4 * ROW).unwrap();
        let to = copies.device_address().unwrap();
        let mut expected: Vec<u8> = Vec::new();
        for batch in loader.blocking().take(2) {
            let batch = batch.unwrap();
            let tensor = batch.tensors().next().unwrap();
            let from = tensor.device_address().unwrap();
            assert_eq!(copy(to + expected.len() as u64, from, tensor.len(), stream.cu_stream().cast()), 0);
            batch.indices().iter().for_each(|&i| expected.extend(&bytes[i as usize * ROW..][..ROW]));
            if !names_stream {
                batch.used_on(&stream).unwrap();
            }
        }
        for _ in 0..100 {
            let next = pin!(loader.next()).poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(next) = next {
                drop(next.unwrap().unwrap());
            }
            thread::sleep(Duration::from_millis(2));
        }
        OPEN.store(true, Ordering::Release);
        stream.synchronize().unwrap();
        assert!(emulator.read_device(to, expected.len()) == expected, "wrong bytes where a batch was read late");
    }
}
