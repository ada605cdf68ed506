use std::fmt;
use std::sync::Mutex;

use smallvec::SmallVec;

use super::error::{TransformError, TransformFault};
use super::interface::Transform;
use super::output::Output;
use super::random::mixed;
use super::sample::Sample;
use crate::dataset::TensorSpec;
use crate::sync::lock;

/// One transform after another: what the first makes of a sample, the second is given.
///
/// What lies between the two is kept in memory that is used again, as much as the largest sample needs for each thread at
/// work. It is not counted in the loader's budget.
pub struct Chain<A, B> {
    first: A,
    second: B,
    between: Mutex<Vec<Between>>,
}

/// What a sample is between two transforms.
#[derive(Default)]
struct Between {
    specs: Vec<TensorSpec>,
    memory: Vec<u8>,
}

/// Tensors begin at multiples of so many bytes, as they do in batches.
const ALIGN: usize = 64;
/// Samples of no more tensors need no memory of their own for the list of them.
const FEW: usize = 16;

impl<A: Transform, B: Transform> Chain<A, B> {
    /// `first`, then `second`.
    pub fn new(first: A, second: B) -> Self {
        Self { first, second, between: Mutex::new(Vec::new()) }
    }

    fn with_between<T>(&self, f: impl FnOnce(&mut Between) -> Result<T, TransformError>) -> Result<T, TransformError> {
        let mut between = lock(&self.between).pop().unwrap_or_default();
        between.specs.clear();
        let done = f(&mut between);
        lock(&self.between).push(between);
        done
    }
}

impl<A: Transform, B: Transform> Transform for Chain<A, B> {
    fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
        self.with_between(|between| {
            self.first.specs(input, &mut between.specs)?;
            self.second.specs(&between.specs, output)
        })
    }

    fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
        self.with_between(|Between { specs, memory }| {
            self.first.specs(sample.specs(), specs)?;
            let mut rows = rows(specs, memory)?;
            // Each has random numbers of its own, however chains are nested.
            self.first.apply(&sample.seeded(|seed| mixed(seed ^ 1)), &mut Output::new(specs, &mut rows))?;
            let fields: SmallVec<[&[u8]; FEW]> = rows.into_iter().map(|row| &*row).collect();
            let between = Sample::new(specs, &fields, sample.index(), sample.epoch(), sample.seed());
            self.second.apply(&between.seeded(|seed| mixed(seed ^ 2)), output)
        })
    }
}

/// A row for each of these tensors in `memory`, which grows where it is too small.
fn rows<'m>(specs: &[TensorSpec], memory: &'m mut Vec<u8>) -> Result<SmallVec<[&'m mut [u8]; FEW]>, TransformFault> {
    let mut lens = SmallVec::<[usize; FEW]>::new();
    let mut needed = ALIGN;
    for spec in specs {
        let len = spec.bytes().and_then(|len| usize::try_from(len).ok()).ok_or_else(|| too_large(spec))?;
        let room = len.checked_next_multiple_of(ALIGN).and_then(|room| needed.checked_add(room));
        needed = room.ok_or_else(|| too_large(spec))?;
        lens.push(len);
    }
    if memory.len() < needed {
        memory.clear();
        memory.try_reserve_exact(needed).map_err(|_| out_of_memory(needed))?;
        memory.resize(needed, 0);
    }
    // Less than `ALIGN`, which was added.
    let skipped = memory.as_ptr().align_offset(ALIGN);
    let mut rest = memory.get_mut(skipped..).unwrap_or_default();
    let mut rows = SmallVec::new();
    for len in lens {
        let room = len.next_multiple_of(ALIGN);
        let Some((row, behind)) = rest.split_at_mut_checked(room) else { return Err(out_of_memory(needed)) };
        rest = behind;
        rows.push(row.get_mut(..len).unwrap_or_default());
    }
    Ok(rows)
}

fn too_large(spec: &TensorSpec) -> TransformFault {
    let what = format!("{} of {} {} has no length in whole bytes that fits memory", spec.name, spec.dtype, spec.shape);
    TransformFault::refused(what, "mend the shape that the first of the chained transforms gives it")
}

fn out_of_memory(needed: usize) -> TransformFault {
    let what = format!("there is no memory for the {needed} bytes between two chained transforms");
    TransformFault::refused(what, "make samples smaller before, or use fewer workers")
}

impl<A: fmt::Debug, B: fmt::Debug> fmt::Debug for Chain<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("first", &self.first).field("second", &self.second).finish_non_exhaustive()
    }
}
