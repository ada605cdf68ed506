use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::error::{DatasetError, DatasetFault, FieldHints, is_rare};
use super::interface::Dataset;
use super::spec::{SampleSpec, TensorSpec};
use super::text::{brief, shown};

/// The fields of a dataset: every tensor that any of its samples has, by name, and how many samples have it.
///
/// A loader makes a column of every batch from each of these, so a sample that lacks one is found, also where all samples of
/// a batch lack it. Of several tensors that share a name, each is a field.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    fields: Vec<Field>,
    /// Which fields have a name, in the order that a sample has them in.
    by_name: HashMap<Arc<str>, SmallVec<[usize; 1]>>,
    samples: u64,
    /// The tensors of a few samples that have every field between them.
    examples: Vec<Vec<TensorSpec>>,
}

#[derive(Clone, Debug)]
struct Field {
    /// Of the first sample that has it.
    spec: TensorSpec,
    samples: u64,
    /// The first sample that has it, in words, once a message has named it.
    first: OnceLock<Option<String>>,
}

impl Fields {
    /// Of no samples so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Of `samples` samples that all have the tensors of this one, by name.
    pub fn uniform(sample: &[TensorSpec], samples: u64) -> Self {
        let mut fields = Self::new();
        fields.add(sample);
        fields.samples = samples;
        fields.fields.iter_mut().for_each(|field| field.samples = samples);
        fields
    }

    /// Of all samples of a dataset, each of which is located: for datasets whose samples differ.
    ///
    /// # Errors
    /// As [`Dataset::locate`].
    pub fn of_all(dataset: &(impl Dataset + ?Sized)) -> Result<Self, DatasetError> {
        let (mut fields, mut sample) = (Self::new(), SampleSpec::new());
        for index in 0..dataset.len() {
            sample.clear();
            dataset.locate(index, &mut sample)?;
            fields.add(sample.tensors());
        }
        Ok(fields)
    }

    /// Adds a sample of these tensors.
    pub fn add(&mut self, sample: &[TensorSpec]) {
        let counts: SmallVec<[(&TensorSpec, u64); 8]> = sample.iter().map(|spec| (spec, 1)).collect();
        self.add_all(counts.into_iter(), 1, || vec![sample.to_vec()]);
    }

    /// Adds the fields of another dataset.
    pub fn merge(&mut self, other: &Fields) {
        let counts = other.fields.iter().map(|field| (&field.spec, field.samples));
        self.add_all(counts, other.samples, || other.examples.clone());
    }

    /// Adds `samples` samples, with the number of those that have each tensor; `examples` are some that have those tensors
    /// between them which were not known.
    pub(super) fn add_counted(
        &mut self,
        counts: &[(TensorSpec, u64)],
        samples: u64,
        examples: impl Iterator<Item = Vec<TensorSpec>>,
    ) {
        self.add_all(counts.iter().map(|(spec, with)| (spec, *with)), samples, || examples.collect());
    }

    fn add_all<'a>(
        &mut self,
        counts: impl Iterator<Item = (&'a TensorSpec, u64)>,
        samples: u64,
        examples: impl FnOnce() -> Vec<Vec<TensorSpec>>,
    ) {
        let known = self.fields.len();
        let mut times: HashMap<&Arc<str>, usize> = HashMap::new();
        for (spec, with) in counts {
            let nth = times.entry(&spec.name).and_modify(|nth| *nth += 1).or_default();
            let of_name = self.by_name.entry(Arc::clone(&spec.name)).or_default();
            match of_name.get(*nth) {
                Some(&field) => self.fields[field].samples += with,
                None => {
                    of_name.push(self.fields.len());
                    self.fields.push(Field { spec: spec.clone(), samples: with, first: OnceLock::new() });
                }
            }
        }
        self.samples = self.samples.saturating_add(samples);
        if self.fields.len() > known {
            self.examples.extend(examples());
        }
    }

    /// Their names, in the order in which they are first found.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.fields.iter().map(|field| &field.spec.name)
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Whether any sample has a field of that name.
    pub(super) fn has(&self, name: &Arc<str>) -> bool {
        self.by_name.contains_key(name)
    }

    /// Whether every sample has every field.
    pub fn is_uniform(&self) -> bool {
        self.fields.iter().all(|field| field.samples == self.samples)
    }

    /// Sees that a sample of `dataset` has every field, and no other.
    ///
    /// # Errors
    /// [`DatasetFault::MissingField`] with path and offset where it lacks one, [`DatasetFault::Setting`] where it has one that
    /// the dataset does not tell of.
    pub fn check(&self, dataset: &dyn Dataset, sample: &SampleSpec) -> Result<(), DatasetError> {
        let fault = match self.compare(sample.tensors()) {
            Compared::Same => return Ok(()),
            Compared::Lacks(field) => {
                let Field { spec, samples: present, first } = &self.fields[field];
                let is_rare = is_rare(*present, self.samples);
                let first = is_rare.then(|| first.get_or_init(|| first_caught(dataset, &spec.name)).clone()).flatten();
                let differs_in_case =
                    |name: &str| *name != *spec.name && name.to_lowercase() == spec.name.to_lowercase();
                let alike = sample.tensors().iter().find(|other| differs_in_case(&other.name));
                let alike = alike.map(|other| brief(other.name.to_string()));
                let field = brief(spec.name.to_string()).into();
                DatasetFault::MissingField {
                    field,
                    present: *present,
                    samples: self.samples,
                    hints: Box::new(FieldHints { first, alike }),
                }
            }
            Compared::Unknown(tensor) => {
                let name = &sample.tensors()[tensor].name;
                let what = format!("the sample has a field {name} that the dataset does not list");
                let fix = "have Dataset::fields tell those of all samples, not of the first alone";
                DatasetFault::Setting { what: brief(what), fix }
            }
        };
        let first = sample.ranges().first();
        let file = first.and_then(|range| dataset.files().get(range.file as usize));
        let path = file.map(|file| file.path().to_owned()).unwrap_or_default();
        Err(DatasetError::new(path, first.map(|range| range.offset), fault))
    }

    pub(crate) fn compare(&self, sample: &[TensorSpec]) -> Compared {
        if self.has_order_of(sample) {
            return Compared::Same;
        }
        let mut found = vec![false; self.fields.len()];
        match self.assign(sample, &mut found, |_, _| {}) {
            Err(unknown) => Compared::Unknown(unknown),
            Ok(()) => found.iter().position(|found| !found).map_or(Compared::Same, Compared::Lacks),
        }
    }

    /// Tells `put` the number of each tensor of a sample and of the field that it is; of several of one name the first is the
    /// first. `found` says which fields have one, at first none.
    ///
    /// # Errors
    /// The number of a tensor that is no field.
    pub(crate) fn assign(
        &self,
        sample: &[TensorSpec],
        found: &mut [bool],
        mut put: impl FnMut(usize, usize),
    ) -> Result<(), usize> {
        for (i, spec) in sample.iter().enumerate() {
            let mut of_name = self.by_name.get(&spec.name).into_iter().flatten().copied();
            let field = of_name.find(|&field| !found[field]).ok_or(i)?;
            found[field] = true;
            put(i, field);
        }
        Ok(())
    }

    /// Whether a sample has just these fields, in this order.
    pub(crate) fn has_order_of(&self, sample: &[TensorSpec]) -> bool {
        let is_it = |(field, spec): (&Field, &TensorSpec)| is_same(&field.spec.name, &spec.name);
        sample.len() == self.fields.len() && self.fields.iter().zip(sample).all(is_it)
    }

    /// What it is in the first sample that has it.
    pub(crate) fn example(&self, field: usize) -> Option<&TensorSpec> {
        self.fields.get(field).map(|field| &field.spec)
    }

    /// The tensors of a few samples that have every field between them.
    pub(crate) fn examples(&self) -> &[Vec<TensorSpec>] {
        &self.examples
    }
}

/// What a sample is beside the fields of its dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// It has every one, in whatever order.
    Same,
    /// It lacks this field.
    Lacks(usize),
    /// Its tensor of this number is none of them.
    Unknown(usize),
}

/// [`first_with`], where the dataset does not panic: to explain a fault must not cause another.
fn first_caught(dataset: &dyn Dataset, name: &Arc<str>) -> Option<String> {
    catch_unwind(AssertUnwindSafe(|| first_with(dataset, name))).ok().flatten()
}

/// The first sample of a dataset that has a field of that name, and where it has it.
fn first_with(dataset: &dyn Dataset, name: &Arc<str>) -> Option<String> {
    /// To look at so many takes seconds.
    const MOST: u64 = 1 << 24;
    let mut sample = SampleSpec::new();
    for index in 0..dataset.len().min(MOST) {
        sample.clear();
        dataset.locate(index, &mut sample).ok()?;
        let Some((_, ranges)) = sample.fields().find(|(spec, _)| is_same(&spec.name, name)) else { continue };
        let place = ranges.first().and_then(|range| Some((dataset.files().get(range.file as usize)?, range.offset)));
        let place = place.map(|(file, offset)| format!(" ({} at {offset})", shown(file.path()))).unwrap_or_default();
        return Some(brief(format!("{}{place}", dataset.id(index))));
    }
    None
}

fn is_same(a: &Arc<str>, b: &Arc<str>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::DType;

    fn sample(names: &[&str]) -> Vec<TensorSpec> {
        names.iter().map(|name| TensorSpec::new(*name, DType::U8, [1])).collect()
    }

    #[test]
    fn a_sample_is_compared_by_name_whatever_its_order() {
        let mut fields = Fields::uniform(&sample(&["jpg", "cls"]), 3);
        assert!(fields.is_uniform());
        fields.add(&sample(&["jpg"]));
        fields.add(&sample(&["jpg", "jpg"]));
        assert!(!fields.is_uniform());
        assert_eq!(fields.names().map(|name| &**name).collect::<Vec<_>>(), ["jpg", "cls", "jpg"]);
        for (names, compared) in [
            (&["jpg", "cls", "jpg"][..], Compared::Same),
            (&["cls", "jpg", "jpg"], Compared::Same),
            (&["jpg", "cls"], Compared::Lacks(2)),
            (&["jpg", "jpg"], Compared::Lacks(1)),
            (&[], Compared::Lacks(0)),
            (&["cls", "jpg", "txt"], Compared::Unknown(2)),
        ] {
            assert_eq!(fields.compare(&sample(names)), compared, "{names:?}");
        }
    }

    #[test]
    fn fields_of_two_datasets_are_those_of_either() {
        let mut fields = Fields::uniform(&sample(&["jpg", "cls"]), 3);
        fields.merge(&Fields::uniform(&sample(&["jpg", "txt"]), 5));
        assert_eq!(fields.names().map(|name| &**name).collect::<Vec<_>>(), ["jpg", "cls", "txt"]);
        assert_eq!(fields.fields.iter().map(|field| field.samples).collect::<Vec<_>>(), [8, 3, 5]);
        assert_eq!((fields.samples, fields.examples().len()), (8, 2));
    }
}
