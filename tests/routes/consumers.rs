//! What landed and was used on a stream: its memory is lent again when that stream has passed, and not before.
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cudarc::driver::CudaStream;
use forebay::{Device, Extent, Route};

use crate::common::data;
use crate::common::emulated::clean;
use crate::common::emulator::Control;
use crate::common::watchdog::eventually;
use crate::common::watchdog::guarded;
use crate::rig::{Files, builder_on, check, ways, whole};

/// Holds up whatever is queued on a stream behind this, until it is dropped.
struct Dam(Arc<AtomicBool>);

impl Dam {
    fn new(control: &Control, stream: &CudaStream) -> Dam {
        type Launch = extern "C" fn(*mut c_void, extern "C" fn(*mut c_void), *mut c_void) -> i32;
        extern "C" fn wait(open: *mut c_void) {
            // SAFETY: made of an Arc below, and taken once.
            let open = unsafe { Arc::from_raw(open as *const AtomicBool) };
            while !open.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        let open = Arc::new(AtomicBool::new(false));
        stream.context().bind_to_thread().unwrap();
        let data = Arc::into_raw(Arc::clone(&open)).cast_mut().cast();
        let launched = control.function::<Launch>("cuLaunchHostFunc")(stream.cu_stream().cast(), wait, data);
        assert_eq!(launched, 0);
        Dam(open)
    }
}

impl Drop for Dam {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn memory_in_use_on_a_stream_is_not_lent_until_it_has_passed() {
    clean("", |control| {
        let files = Files::new(&[8 << 20, 8 << 20]);
        let device = Device::cuda(0).unwrap();
        let stream = device.context().unwrap().new_stream().unwrap();
        let (alloc, free) = (
            control.function::<extern "C" fn(*mut usize, usize) -> i32>("cuMemAllocHost_v2"),
            control.function::<extern "C" fn(usize) -> i32>("cuMemFreeHost"),
        );
        let copy = control.function::<extern "C" fn(usize, u64, usize, *mut c_void) -> i32>("cuMemcpyDtoHAsync_v2");
        let mut host = 0;
        assert_eq!(alloc(&mut host, 8 << 20), 0);
        for (way, builder) in ways() {
            let carrier = builder.device(&device).device_budget(8 << 20).build().unwrap();
            let opened = files.open(&carrier);
            let mut landed = carrier.carry_blocking(&[whole(&opened[0])]).unwrap();
            let dam = Dam::new(control, &stream);
            // The consumer's work: to read what landed, whenever its stream comes to it.
            assert_eq!(copy(host, landed.device_address(0).unwrap(), 8 << 20, stream.cu_stream().cast()), 0);
            landed.used_on(&stream).unwrap();
            drop(landed);
            let next = carrier.carry(&[whole(&opened[1])]);
            let waiting = thread::spawn(move || next.wait());
            thread::sleep(Duration::from_millis(60));
            assert!(!waiting.is_finished(), "{way}: the memory was lent while a stream uses it");
            assert_eq!(carrier.device_bytes_held(), 8 << 20, "{way}");
            drop(dam);
            let next = waiting.join().unwrap().unwrap();
            check(&next, &[(1, 0, 8 << 20)]);
            stream.synchronize().unwrap();
            // SAFETY: so many bytes were allocated there, and nothing writes to them any more.
            let got = unsafe { std::slice::from_raw_parts(host as *const u8, 8 << 20) };
            data::check(got, 0, 0).unwrap_or_else(|wrong| panic!("{way}: the consumer saw other bytes: {wrong}"));
            drop(next);
            assert!(eventually(|| carrier.device_bytes_held() == 0), "{way}");
        }
        assert_eq!(free(host), 0);
    });
}

#[test]
fn every_stream_that_uses_it_must_have_passed() {
    clean("", |control| {
        let files = Files::one(1 << 20);
        let device = Device::cuda(0).unwrap();
        let carrier = builder_on(&device).route(Route::Bounce).build().unwrap();
        let opened = files.open(&carrier);
        let streams = [0; 3].map(|_| device.context().unwrap().new_stream().unwrap());
        let mut landed = carrier.carry_blocking(&[whole(&opened[0])]).unwrap();
        let mut dams: Vec<Dam> = streams.iter().map(|stream| Dam::new(control, stream)).collect();
        for stream in &streams {
            landed.used_on(stream).unwrap();
        }
        drop(landed);
        while let Some(dam) = dams.pop() {
            thread::sleep(Duration::from_millis(20));
            assert_eq!(carrier.device_bytes_held(), 1 << 20);
            drop(dam);
        }
        assert!(eventually(|| carrier.device_bytes_held() == 0));
    });
}

#[test]
fn memory_not_in_use_is_lent_at_once() {
    clean("", |_| {
        let files = Files::one(1 << 20);
        let device = Device::cuda(0).unwrap();
        let carrier = builder_on(&device).route(Route::Bounce).build().unwrap();
        let opened = files.open(&carrier);
        let landed = carrier.carry_blocking(&[whole(&opened[0]), Extent::new(&opened[0], 7, 0)]).unwrap();
        assert_eq!((carrier.device_bytes_held(), landed.device_address(1)), (1 << 20, None));
        drop(landed);
        assert_eq!(carrier.device_bytes_held(), 0);
    });
}

/// It is the last that holds the carrier, and its consumer's stream takes its time.
#[test]
fn what_landed_may_outlive_its_carrier() {
    clean("", |control| {
        let files = Files::one(1 << 20);
        let device = Device::cuda(0).unwrap();
        let carrier = builder_on(&device).route(Route::Bounce).build().unwrap();
        let opened = files.open(&carrier);
        let stream = device.context().unwrap().new_stream().unwrap();
        let mut landed = carrier.carry_blocking(&[whole(&opened[0])]).unwrap();
        drop((carrier, opened));
        check(&landed, &[(0, 0, 1 << 20)]);
        let dam = Dam::new(control, &stream);
        landed.used_on(&stream).unwrap();
        // The stream goes on behind the dam only: a drop that waits for it hangs.
        guarded("dropping what landed", move || drop(landed));
        let held = |what: &str| control.leaks().iter().filter(|leak| leak.contains(what)).count();
        assert_eq!(held("bytes of device memory"), 1, "the memory was freed under the stream");
        drop(dam);
        assert!(eventually(|| held("bytes of") == 0));
    });
}
