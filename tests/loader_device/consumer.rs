//! A consumer that works on a stream of its own, later than he says: he copies what a batch holds to memory of his own, and
//! looks at the copies in the end.
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cudarc::driver::CudaStream;
use forebay::{Batch, Device, DeviceBuffer};

use crate::common::emulator::Control;
use crate::data::Data;
use crate::rig::wanted;

type Launch = extern "C" fn(*mut c_void, extern "C" fn(*mut c_void), *mut c_void) -> i32;
type Copy = extern "C" fn(u64, u64, usize, *mut c_void) -> i32;

/// Dammed streams wait for this.
static OPEN: AtomicBool = AtomicBool::new(true);

extern "C" fn wait_until_open(_: *mut c_void) {
    while !OPEN.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(1));
    }
}

extern "C" fn be_late(micros: *mut c_void) {
    thread::sleep(Duration::from_micros(micros as u64));
}

pub struct Consumer<'a> {
    control: &'a Control,
    pub stream: Arc<CudaStream>,
    copies: DeviceBuffer,
    end: usize,
    wanted: Vec<(usize, Vec<u8>, String)>,
}

impl<'a> Consumer<'a> {
    /// With room for copies of so many bytes.
    pub fn new(control: &'a Control, device: &Device, room: usize) -> Consumer<'a> {
        let stream = device.context().unwrap().new_stream().unwrap();
        Consumer { control, stream, copies: device.allocate(room).unwrap(), end: 0, wanted: Vec::new() }
    }

    /// Holds up what is ordered from now on, until `open`.
    pub fn dam(&self) {
        OPEN.store(false, Ordering::Release);
        self.launch(wait_until_open, 0);
    }

    pub fn open(&self) {
        OPEN.store(true, Ordering::Release);
    }

    pub fn is_late(&self, micros: u64) {
        self.launch(be_late, micros as usize);
    }

    fn launch(&self, function: extern "C" fn(*mut c_void), data: usize) {
        self.stream.context().bind_to_thread().unwrap();
        let launch = self.control.function::<Launch>("cuLaunchHostFunc");
        assert_eq!(launch(self.stream.cu_stream().cast(), function, data as *mut c_void), 0);
    }

    /// Orders work that reads all of a batch, and does not wait for it.
    pub fn works_on(&mut self, data: &Data, batch: &Batch, flips: bool) {
        self.stream.context().bind_to_thread().unwrap();
        let copy = self.control.function::<Copy>("cuMemcpyDtoDAsync_v2");
        for tensor in batch.tensors().filter(|tensor| !tensor.is_empty()) {
            let (from, to) = (tensor.device_address().unwrap(), self.copies.device_address().unwrap());
            assert!(self.end + tensor.len() <= self.copies.len(), "too little room for the test's copies");
            assert_eq!(copy(to + self.end as u64, from, tensor.len(), self.stream.cu_stream().cast()), 0);
            for (row, offset) in (0..tensor.rows()).zip(tensor.offsets()) {
                let index = batch.indices()[row];
                let sample = wanted(data, index, flips);
                if let Some((name, bytes)) = sample.into_iter().find(|(name, _)| name == tensor.name()) {
                    let what =
                        format!("{name} of sample {index} in batch {} of epoch {}", batch.number(), batch.epoch());
                    self.wanted.push((self.end + offset, bytes, what));
                }
            }
            self.end += tensor.len();
        }
    }

    /// Waits for all that was ordered, and sees that it has read what the batches held. Says how many rows there were.
    pub fn check(&mut self, what: &str) -> usize {
        self.open();
        self.stream.synchronize().unwrap();
        let start = self.copies.device_address().unwrap();
        let got = self.control.read_device(start, self.end);
        for (at, bytes, row) in &self.wanted {
            assert!(got[*at..at + bytes.len()] == bytes[..], "{what}: the consumer read wrong bytes: {row}");
        }
        self.end = 0;
        std::mem::take(&mut self.wanted).len()
    }
}
