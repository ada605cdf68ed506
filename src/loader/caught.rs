//! Where a dataset of somebody's own panics, that is an error of its sample's, and not the end of the loader's thread.

use super::error::LoaderFault;
use super::transform::panicking;
use crate::dataset::{Dataset, Fields, SampleSpec};

/// [`Dataset::locate`].
pub(super) fn locate(dataset: &dyn Dataset, index: u64, sample: &mut SampleSpec) -> Result<(), LoaderFault> {
    panicking(|| dataset.locate(index, sample)).map_err(panicked)?.map_err(LoaderFault::from)
}

/// [`Dataset::fields`]; `None` also where it panics.
pub(super) fn fields(dataset: &dyn Dataset) -> Option<Fields> {
    panicking(|| dataset.fields()).ok().flatten()
}

/// [`Dataset::check`].
pub(super) fn check(dataset: &dyn Dataset, index: u64, fields: &[&[u8]]) -> Result<(), LoaderFault> {
    panicking(|| dataset.check(index, fields)).map_err(panicked)?.map_err(LoaderFault::from)
}

/// [`Dataset::id`], or the number where it has none to give.
pub(super) fn id(dataset: &dyn Dataset, index: u64) -> String {
    panicking(|| dataset.id(index).into_owned()).unwrap_or_else(|_| index.to_string())
}

fn panicked(message: String) -> LoaderFault {
    LoaderFault::Fields { what: format!("the dataset panicked: {message}"), fix: "mend its implementation" }
}
