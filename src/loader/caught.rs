//! Where a dataset of somebody's own panics, that is an error of its sample's, and not the end of the loader's thread.

use super::error::LoaderFault;
use super::transform::panicking;
use crate::dataset::{Dataset, Fields, SampleSpec, Verified};

/// [`Dataset::locate`].
pub(super) fn locate(dataset: &dyn Dataset, index: u64, sample: &mut SampleSpec) -> Result<(), LoaderFault> {
    panicking(|| dataset.locate(index, sample)).map_err(panicked)?.map_err(LoaderFault::from)
}

/// [`Dataset::fields`]; `None` also where it panics.
pub(super) fn fields(dataset: &dyn Dataset) -> Option<Fields> {
    panicking(|| dataset.fields()).ok().flatten()
}

/// The tensors of a sample, checked by [`Dataset::check`].
pub(super) fn verified<'a>(
    dataset: &dyn Dataset,
    index: u64,
    fields: &'a [&'a [u8]],
) -> Result<Verified<&'a [&'a [u8]]>, LoaderFault> {
    panicking(|| Verified::sample(dataset, index, fields)).map_err(panicked)?.map_err(LoaderFault::from)
}

/// [`Dataset::id`], or the number where it has none to give.
pub(super) fn id(dataset: &dyn Dataset, index: u64) -> String {
    panicking(|| dataset.id(index).into_owned()).unwrap_or_else(|_| index.to_string())
}

fn panicked(message: String) -> LoaderFault {
    LoaderFault::Fields { what: format!("the dataset panicked: {message}"), fix: "mend its implementation" }
}
