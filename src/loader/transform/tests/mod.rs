//! Transforms as the loader runs them.

mod cast;
mod caught;
mod chain;
mod floats;
#[cfg(feature = "images")]
mod images;
mod views;
mod windows;

use super::{Output, Sample, Transform, TransformError, TransformFault, apply_caught, specs_caught};
use crate::dataset::TensorSpec;

/// What becomes of a sample, tensor by tensor.
type Done = Vec<(TensorSpec, Vec<u8>)>;

/// Runs it on fields that begin anywhere, into rows that hold something else each time: what comes out must be the same.
fn run(transform: &dyn Transform, sample: &[(TensorSpec, &[u8])]) -> Result<Done, TransformError> {
    run_as(transform, sample, 0, 0, 0)
}

fn run_as(
    transform: &dyn Transform,
    sample: &[(TensorSpec, &[u8])],
    index: u64,
    epoch: u64,
    seed: u64,
) -> Result<Done, TransformError> {
    let input: Vec<TensorSpec> = sample.iter().map(|(spec, _)| spec.clone()).collect();
    let mut specs = Vec::new();
    specs_caught(transform, &input, &mut specs)?;
    let mut first: Option<Done> = None;
    for (shift, garbage) in [(0, 0x00), (1, 0xff), (3, 0x5a), (4, 0xa5)] {
        let moved: Vec<Vec<u8>> = sample.iter().map(|(_, bytes)| [&vec![garbage; shift], *bytes].concat()).collect();
        let fields: Vec<&[u8]> = moved.iter().map(|bytes| &bytes[shift..]).collect();
        let mut memory: Vec<Vec<u8>> =
            specs.iter().map(|spec| vec![garbage; usize::try_from(spec.bytes().unwrap()).unwrap()]).collect();
        let mut rows: Vec<&mut [u8]> = memory.iter_mut().map(|row| &mut row[..]).collect();
        let sample = Sample::new(&input, &fields, index, epoch, seed);
        apply_caught(transform, &sample, &mut Output::new(&specs, &mut rows))?;
        let done: Done = specs.iter().cloned().zip(memory).collect();
        assert_eq!(first.get_or_insert_with(|| done.clone()), &done, "what lay in the rows shows");
    }
    Ok(first.unwrap())
}

fn fault(error: TransformError) -> TransformFault {
    *error.downcast().unwrap()
}

/// Refused before anything is read, in one line that has these words.
fn assert_refused(transform: &dyn Transform, input: &[TensorSpec], words: &[&str]) {
    let fault = fault(transform.specs(input, &mut Vec::new()).unwrap_err());
    assert!(matches!(fault, TransformFault::Refused { .. }), "{fault}");
    let said = fault.to_string();
    assert!(said.contains("; ") && !said.contains('\n'), "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{said}, without one of {words:?}");
}

fn bytes_of<T: bytemuck::Pod>(values: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
}

fn values_of<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}
