//! Loaders to the emulated device by every route, and the looks that most tests take at their batches.
use std::sync::Arc;

use forebay::dataset::TensorSpec;
use forebay::loader::transform::{Output, Sample, Transform, TransformError};
use forebay::{
    Batch, Carrier, CarrierBuilder, Device, DirectForm, Loader, LoaderBuilder, Missing, Reader, Route, Shuffle,
};

use crate::common::effort;
use crate::common::emulator::Control;
use crate::common::watchdog::eventually;
use crate::data::Data;

pub const FORMS: [DirectForm; 3] = [DirectForm::Pool, DirectForm::Batch, DirectForm::Stream];

pub fn cuda() -> Device {
    Device::cuda(0).unwrap()
}

/// Small enough that what is large is split and that little memory must do.
pub fn builder(data: &Data) -> LoaderBuilder {
    Loader::builder(Arc::clone(&data.dataset))
        .device(&cuda())
        .batch_size(8)
        .shuffle(Shuffle::Full)
        .seed(11)
        .workers(2)
        .budget(12 << 20)
        .device_budget(24 << 20)
        .carrier(carrier())
        .missing(Missing::Allow)
}

pub fn carrier() -> CarrierBuilder {
    Carrier::builder().reader(Reader::builder().depth(16)).chunk(1 << 20)
}

/// A way to carry: its name, the carrier, what the emulator must be told first, and the route that must carry every byte.
pub struct Way {
    pub name: String,
    pub carrier: CarrierBuilder,
    pub script: &'static str,
    pub route: Option<Route>,
}

impl Way {
    fn new(name: impl Into<String>, carrier: CarrierBuilder, route: Option<Route>) -> Way {
        Way { name: name.into(), carrier, script: "cufile_path=p2p", route }
    }

    pub fn is_direct(&self) -> bool {
        self.route == Some(Route::Direct)
    }

    pub fn is_compat(&self) -> bool {
        self.script == COMPAT
    }
}

const COMPAT: &str = "cufile_path=compat";

/// Those that carry whatever rows there are: by host memory, or as is best.
pub fn any_rows() -> Vec<Way> {
    let copied = [Route::Bounce, Route::Cached];
    let mut ways: Vec<Way> =
        copied.into_iter().map(|route| Way::new(route.to_string(), carrier().route(route), Some(route))).collect();
    ways.extend(FORMS.map(|form| Way::new(format!("auto/{form:?}"), carrier().direct_form(form), None)));
    ways.push(Way { script: COMPAT, ..Way::new("auto where cuFile has its compatibility mode only", carrier(), None) });
    ways
}

/// cuFile alone, in each form, and through its compatibility mode: for rows of whole blocks.
pub fn direct() -> Vec<Way> {
    let direct = |form| carrier().route(Route::Direct).direct_form(form);
    let mut ways: Vec<Way> =
        FORMS.into_iter().map(|form| Way::new(format!("direct/{form:?}"), direct(form), Some(Route::Direct))).collect();
    ways.push(Way { script: COMPAT, ..Way::new("direct/compat", direct(DirectForm::Pool), Some(Route::Direct)) });
    ways
}

/// Of a table's rows every `nth` by default, from the first on, and all in the long suites.
pub fn some_of<T>(rows: impl IntoIterator<Item = T>, nth: u32) -> impl Iterator<Item = T> {
    rows.into_iter().step_by(effort::of(nth, 1) as usize)
}

/// Every byte another, and one tensor more than there were.
#[derive(Debug)]
pub struct Flip;

pub fn flipped(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ 0x5a).collect()
}

pub fn sum_of(fields: &[(String, Vec<u8>)]) -> u64 {
    fields.iter().flat_map(|(_, bytes)| bytes).map(|&byte| u64::from(byte)).sum()
}

impl Transform for Flip {
    fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
        output.extend_from_slice(input);
        output.push(TensorSpec::new("sum", forebay::dataset::DType::U64, [1]));
        Ok(())
    }

    fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
        let mut sum = 0;
        for i in 0..sample.len() {
            let bytes = sample.bytes(i);
            output.bytes(i).copy_from_slice(&flipped(bytes));
            sum += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        }
        output.slice::<u64>(sample.len())?[0] = sum;
        Ok(())
    }
}

/// What a sample must have become: name and bytes of each tensor.
pub fn wanted(data: &Data, index: u64, flips: bool) -> Vec<(String, Vec<u8>)> {
    let fields = data.sample(index);
    if !flips {
        return fields;
    }
    let sum = ("sum".to_owned(), sum_of(&fields).to_le_bytes().to_vec());
    fields.into_iter().map(|(name, bytes)| (name, flipped(&bytes))).chain([sum]).collect()
}

/// How to look at device memory.
#[derive(Clone, Copy)]
pub enum Look<'a> {
    /// As users do, by a copy.
    Fetch,
    /// As it is now, whatever is under way.
    Peek(&'a Control),
}

/// Sees that every row of a batch has its sample's bytes.
pub fn check(data: &Data, batch: &Batch, flips: bool, look: Look<'_>) {
    let what = || format!("{}: batch {} of epoch {}", data.name, batch.number(), batch.epoch());
    let samples: Vec<_> = batch.indices().iter().map(|&index| wanted(data, index, flips)).collect();
    let bytes: u64 = batch.indices().iter().map(|&index| data.bytes_of(index)).sum();
    assert_eq!((batch.bytes(), batch.carried().total()), (bytes, bytes), "{}: {}", what(), batch.carried());
    for tensor in batch.tensors() {
        assert_eq!(tensor.rows(), batch.len(), "{}", what());
        assert!(tensor.host().is_none() && tensor.bytes().is_none() && tensor.row(0).is_none());
        let offsets: Vec<usize> = tensor.offsets().collect();
        assert_eq!((offsets.len(), offsets.last()), (batch.len() + 1, Some(&tensor.len())));
        let whole = match look {
            Look::Fetch => tensor.to_host().unwrap(),
            Look::Peek(_) if tensor.is_empty() => Vec::new(),
            Look::Peek(control) => control.read_device(tensor.device_address().unwrap(), tensor.len()),
        };
        assert!(tensor.device_address().is_none_or(|address| address % 256 == 0));
        for (row, sample) in samples.iter().enumerate() {
            let lacking = Vec::new();
            let found = sample.iter().find(|(name, _)| *name == tensor.name());
            let bytes = found.map_or(&lacking, |(_, bytes)| bytes);
            let place = &whole[offsets[row]..offsets[row + 1]];
            let (got, padding) = place.split_at(bytes.len());
            let index = batch.indices()[row];
            assert!(got == bytes, "{}: wrong bytes: {} of sample {index}, row {row}", what(), tensor.name());
            assert!(padding.iter().all(|&byte| byte == 0), "{}: {} of row {row} is not padded", what(), tensor.name());
            assert_eq!(tensor.row_shape(row).is_some(), found.is_some());
            if matches!(look, Look::Fetch) && row % 3 == 0 {
                assert!(
                    tensor.row_to_host(row).unwrap().as_ref() == found.map(|(_, bytes)| bytes),
                    "{}: row {row} by itself",
                    what()
                );
            }
        }
    }
    for sample in &samples {
        assert!(sample.iter().all(|(name, _)| batch.tensor(name).is_some()), "{}: a field is missing", what());
    }
}

/// What a batch is, but for its bytes.
pub fn facts(batch: &Batch) -> (u64, u64, u64, Vec<u64>, Vec<String>) {
    let ids = batch.ids().map(|id| id.into_owned()).collect();
    (batch.epoch(), batch.number(), batch.padded(), batch.indices().to_vec(), ids)
}

/// Wants nothing to be left, and no mistake to have been made.
pub fn settle(control: &Control) {
    assert!(eventually(|| control.leaks().is_empty()), "left: {:#?}", control.leaks());
    control.assert_no_violations();
}
