//! Samples that lack a field, or of which a transform makes fewer tensors than of others: what is done about them.

use std::sync::Arc;

use super::caught;
use super::error::LoaderFault;
use super::transform::{Transform, specs_caught};
use crate::dataset::{Compared, Dataset, DatasetFault, Fields, SampleSpec, TensorSpec, brief};

/// What becomes of a sample that lacks a field which [others of the dataset have](Dataset::fields).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Missing {
    /// It is an error, which names the sample and the field.
    #[default]
    Error,
    /// The sample is left out of its batch, which is smaller by that, and [counted](super::LoaderStats::missing). One warning
    /// names the first.
    Skip,
    /// The sample keeps its row in every tensor of the batch, and the row of what it lacks says that it is
    /// [absent](super::BatchTensor::is_present).
    Allow,
}

/// What a sample is good for.
pub(super) enum Verdict {
    Kept,
    /// With the field that it lacks.
    LeftOut(LoaderFault, String),
    /// It could not be located.
    Corrupt(LoaderFault),
}

/// The fields of the samples of a loader, before and after the transform: the columns of each of its batches.
pub(super) struct Columns {
    missing: Missing,
    input: Option<Arc<Fields>>,
    /// The same after the transform; none where there is none.
    output: Option<Arc<Fields>>,
    is_asked: bool,
}

impl Columns {
    pub(super) fn new(missing: Missing) -> Self {
        Self { missing, input: None, output: None, is_asked: false }
    }

    /// Those of the rows of a batch.
    pub(super) fn of_rows(&self, transformed: bool) -> Option<&Arc<Fields>> {
        if transformed { self.output.as_ref() } else { self.input.as_ref() }
    }

    /// Compares a sample with the fields of the dataset. Where those are not known, they are the first sample's.
    pub(super) fn check_input(
        &mut self,
        dataset: &dyn Dataset,
        transform: Option<&dyn Transform>,
        sample: &SampleSpec,
    ) -> Result<Verdict, LoaderFault> {
        if !self.is_asked {
            self.is_asked = true;
            self.input = caught::fields(dataset).map(Arc::new);
            self.output = self.input.as_ref().zip(transform).and_then(|(input, transform)| after(transform, input));
        }
        let input = self.input.get_or_insert_with(|| Arc::new(Fields::uniform(sample.tensors(), dataset.len())));
        // Where rows may be absent that is no fault, and to explain one costs more than the sample.
        if self.missing == Missing::Allow && matches!(input.compare(sample.tensors()), Compared::Lacks(_)) {
            return Ok(Verdict::Kept);
        }
        match input.check(dataset, sample) {
            Ok(()) => Ok(Verdict::Kept),
            Err(error) => match &error.fault {
                DatasetFault::MissingField { field, .. } => {
                    let field = field.to_string();
                    self.judge(error.into(), field)
                }
                _ => Err(error.into()),
            },
        }
    }

    /// Compares what the transform makes of a sample with what it makes of others.
    pub(super) fn check_output(
        &mut self,
        made: &[TensorSpec],
        refused: impl FnOnce(&str) -> LoaderFault,
    ) -> Result<Verdict, LoaderFault> {
        let output = self.output.get_or_insert_with(|| Arc::new(Fields::uniform(made, 1)));
        match output.compare(made) {
            Compared::Same => Ok(Verdict::Kept),
            Compared::Lacks(field) => {
                let name = output.example(field).map_or("", |spec| &spec.name);
                let fault = refused(&brief(format!("it makes no tensor {name} of this sample, but of others")));
                let field = brief(name.to_string());
                self.judge(fault, field)
            }
            Compared::Unknown(_) if self.missing == Missing::Allow => {
                Arc::make_mut(output).add(made);
                Ok(Verdict::Kept)
            }
            Compared::Unknown(tensor) => {
                let name = &made[tensor].name;
                Err(refused(&brief(format!("it makes a tensor {name} of this sample, but not of others"))))
            }
        }
    }

    fn judge(&self, fault: LoaderFault, field: String) -> Result<Verdict, LoaderFault> {
        match self.missing {
            Missing::Error => Err(fault),
            Missing::Skip => Ok(Verdict::LeftOut(fault, field)),
            Missing::Allow => Ok(Verdict::Kept),
        }
    }
}

/// What a transform makes of samples that have all fields between them; `None` where it refuses all. One that it refuses is
/// told of when it comes.
fn after(transform: &dyn Transform, input: &Fields) -> Option<Arc<Fields>> {
    let (mut output, mut refused) = (Fields::new(), true);
    for example in input.examples() {
        let mut made = Vec::new();
        if specs_caught(transform, example, &mut made).is_ok() {
            output.add(&made);
            refused = false;
        }
    }
    (!refused).then(|| Arc::new(output))
}
