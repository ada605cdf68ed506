//! Datasets made of others give the samples of those others, from the right files, under names of their own.
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use forebay::dataset::{
    Concat, DType, DataFile, Dataset, DatasetError, DatasetFault, FileRange, Fingerprint, Mixture, SampleSpec, Subset,
    TensorSpec,
};
use proptest::prelude::*;

use crate::bytes;

/// Each byte of its files is a sample.
#[derive(Debug)]
struct Letters {
    files: Vec<DataFile>,
}

impl Letters {
    fn write(folder: &Path, name: &str, files: &[&str]) -> Arc<dyn Dataset> {
        let file = |(i, text): (usize, &&str)| {
            let path = folder.join(format!("{name}-{i}"));
            fs::write(&path, text).unwrap();
            DataFile::new(path).unwrap()
        };
        Arc::new(Self { files: files.iter().enumerate().map(file).collect() })
    }
}

impl Dataset for Letters {
    fn len(&self) -> u64 {
        self.files.iter().map(DataFile::len).sum()
    }

    fn files(&self) -> &[DataFile] {
        &self.files
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let mut offset = index;
        for (file, len) in (0..).zip(self.files.iter().map(DataFile::len)) {
            if offset < len {
                sample.push(TensorSpec::new("letter", DType::U8, []), [FileRange { file, offset, len: 1 }]);
                return Ok(());
            }
            offset -= len;
        }
        Err(DatasetError::no_sample(index, self.len()))
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("letters", "", self.len(), &self.files)
    }
}

/// A dataset that only counts.
#[derive(Debug)]
struct Numbers(u64);

impl Dataset for Numbers {
    fn len(&self) -> u64 {
        self.0
    }

    fn files(&self) -> &[DataFile] {
        &[]
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        if index >= self.0 {
            return Err(DatasetError::no_sample(index, self.0));
        }
        sample.push(TensorSpec::new("none", DType::U8, [0]), []);
        Ok(())
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("numbers", "", self.0, &[])
    }
}

fn numbers(len: u64) -> Arc<dyn Dataset> {
    Arc::new(Numbers(len))
}

fn text(dataset: &dyn Dataset) -> String {
    let letter = |index| bytes::of(dataset, index)[0].1[0];
    String::from_utf8((0..dataset.len()).map(letter).collect()).unwrap()
}

fn ids(dataset: &dyn Dataset) -> Vec<String> {
    (0..dataset.len()).map(|index| dataset.id(index).into_owned()).collect()
}

/// Which child each sample comes from, and its number there, as its name tells.
fn origins(dataset: &dyn Dataset) -> Vec<(usize, u64)> {
    let origin = |index| {
        let id = dataset.id(index);
        let (child, id) = id.split_once('/').unwrap();
        (child.parse().unwrap(), id.parse().unwrap())
    };
    (0..dataset.len()).map(origin).collect()
}

fn refused<D: std::fmt::Debug>(result: Result<D, DatasetError>, with: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error.fault, DatasetFault::Setting { .. }), "{error}");
    assert!(error.to_string().contains(with), "{error}");
}

fn ends_where_it_ends(dataset: &dyn Dataset) {
    for index in [dataset.len(), dataset.len() + 1, u64::MAX] {
        let error = dataset.sample(index).unwrap_err();
        assert!(
            matches!(error.fault, DatasetFault::NoSample { index: i, len } if (i, len) == (index, dataset.len())),
            "{error}"
        );
        assert_eq!(dataset.id(index), index.to_string());
    }
}

#[test]
fn a_concatenation_is_its_children_one_after_the_other() {
    let folder = crate::common::folder();
    let first = Letters::write(folder.path(), "first", &["ab", "", "c"]);
    let empty = Letters::write(folder.path(), "empty", &[""]);
    let second = Letters::write(folder.path(), "second", &["de", "f"]);
    let all = Concat::new(vec![Arc::clone(&first), empty, second, Arc::clone(&first)]).unwrap();
    assert_eq!(text(&all), "abcdefabc");
    assert_eq!(all.files().len(), 9);
    assert_eq!(ids(&all)[..4], ["0/0", "0/1", "0/2", "2/0"]);
    assert_eq!(ids(&all).iter().collect::<HashSet<_>>().len(), 9);
    ends_where_it_ends(&all);

    // Compounds are datasets: they nest.
    let nested = Concat::new(vec![Arc::new(all), first]).unwrap();
    assert_eq!(text(&nested), "abcdefabcabc");
    assert_eq!((nested.id(8), nested.id(9)), ("0/3/2".into(), "1/0".into()));

    // What is stored is told with the same files and names.
    let stored: Vec<_> = nested.stored().map(Result::unwrap).collect();
    assert_eq!(stored.len(), 12);
    assert_eq!(&*stored[8].spec.name, "0/3/2.letter");
    assert_eq!(stored[8].range, nested.sample(8).unwrap().ranges()[0]);
}

#[test]
fn samples_that_are_added_leave_those_before_them_as_they_are() {
    let folder = crate::common::folder();
    let first = Letters::write(folder.path(), "first", &["ab"]);
    let second = Letters::write(folder.path(), "second", &["cd"]);
    let all = Concat::new(vec![first, second]).unwrap();
    let mut batch = SampleSpec::new();
    let alone: Vec<_> = [3, 0, 2, 1].map(|index| all.sample(index).unwrap().ranges()[0]).to_vec();
    [3, 0, 2, 1].iter().for_each(|&index| all.locate(index, &mut batch).unwrap());
    assert_eq!(batch.ranges(), alone);
}

#[test]
fn one_dataset_alone_keeps_its_names() {
    assert_eq!(ids(&Concat::new(vec![numbers(2)]).unwrap()), ["0", "1"]);
    assert_eq!(ids(&Mixture::new(vec![(numbers(2), 0.5)], 3).unwrap()), ["0", "1", "0"]);
}

#[test]
fn what_cannot_be_counted_is_no_concatenation() {
    refused(Concat::new(Vec::new()), "at least one");
    refused(Concat::new(vec![numbers(u64::MAX), numbers(1)]), "2^64 - 1 samples");
    let most = Concat::new(vec![numbers(u64::MAX), numbers(0)]).unwrap();
    assert!(most.sample(u64::MAX - 1).is_ok());
    assert!(most.sample(u64::MAX).is_err());
}

#[test]
fn a_subset_is_what_was_picked_in_that_order() {
    let folder = crate::common::folder();
    let letters = Letters::write(folder.path(), "letters", &["abcd", "efgh"]);
    let picked = Subset::new(Arc::clone(&letters), vec![7, 0, 0, 3]).unwrap();
    assert_eq!(text(&picked), "haad");
    assert_eq!(ids(&picked), ["7", "0", "0", "3"]);
    ends_where_it_ends(&picked);

    let slice = |range, step| Subset::slice(Arc::clone(&letters), range, step).unwrap();
    assert_eq!(text(&slice(0..8, 1)), "abcdefgh");
    assert_eq!(text(&slice(1..8, 3)), "beh");
    assert_eq!(text(&slice(1..7, 3)), "be");
    assert_eq!(text(&slice(2..3, u64::MAX)), "c");
    assert_eq!(text(&slice(8..8, 1)), "");
    ends_where_it_ends(&slice(1..8, 3));

    refused(Subset::new(Arc::clone(&letters), vec![1, 8]), "sample 8 at position 1");
    refused(Subset::slice(Arc::clone(&letters), 0..9, 1), "0..9");
    refused(Subset::slice(Arc::clone(&letters), 0..8, 0), "step");
    #[expect(clippy::reversed_empty_ranges)]
    let backwards = 5..2;
    refused(Subset::slice(letters, backwards, 1), "5..2");
    let far = Subset::slice(numbers(u64::MAX), 0..u64::MAX, 2).unwrap();
    assert_eq!(far.id(far.len() - 1), (u64::MAX - 1).to_string());
}

#[test]
fn a_mixture_comes_in_proportion_and_each_child_in_its_order() {
    let folder = crate::common::folder();
    let first = Letters::write(folder.path(), "first", &["ab", "c"]);
    let second = Letters::write(folder.path(), "second", &["XY"]);
    let mixed = Mixture::new(vec![(first, 2.0), (second, 1.0)], 9).unwrap();
    let text = text(&mixed);
    let of = |upper: bool| text.chars().filter(|letter| letter.is_uppercase() == upper).collect::<String>();
    assert_eq!((of(false).as_str(), of(true).as_str()), ("abcabc", "XYX"), "{text}");
    assert_eq!(mixed.files().len(), 3);
    assert_eq!(mixed.counts(), [2, 1]);
    ends_where_it_ends(&mixed);
    assert_eq!(mixed.stored().count(), 5, "every tensor once");
}

#[test]
fn a_mixture_of_nothing_is_refused() {
    refused(Mixture::new(Vec::new(), 5), "no dataset");
    refused(Mixture::new(vec![(numbers(5), 0.0)], 5), "no dataset");
    refused(Mixture::new(vec![(numbers(5), 1.0), (numbers(5), -1.0)], 5), "dataset 1 of a mixture has the weight -1");
    refused(Mixture::new(vec![(numbers(5), f64::NAN)], 5), "NaN");
    refused(Mixture::new(vec![(numbers(5), 1.0), (numbers(0), 1.0)], 5), "dataset 1 of a mixture has a weight, but no");
    refused(Mixture::once(vec![(numbers(5), 1.0), (numbers(5), 1e-12)]), "dataset 1 of a mixture would not come once");
    // One that never comes may be empty.
    let mixed = Mixture::new(vec![(numbers(0), 0.0), (numbers(2), 3.0)], 3).unwrap();
    assert_eq!(ids(&mixed), ["1/0", "1/1", "1/0"]);
}

#[test]
fn any_of_a_million_million_samples_is_found_at_once() {
    let mixed = Mixture::new(vec![(numbers(u64::MAX), 0.75), (numbers(1000), 0.25)], u64::MAX).unwrap();
    let last: Vec<_> = (0..4).map(|back| mixed.id(u64::MAX - 4 - back).into_owned()).collect();
    assert_eq!(last.iter().filter(|id| id.starts_with("0/")).count(), 3, "{last:?}");
    assert!(mixed.sample(u64::MAX - 1).is_ok());
}

#[test]
fn fingerprints_tell_compounds_apart() {
    let (a, b) = (numbers(4), numbers(6));
    let of = |dataset: &dyn Dataset| dataset.fingerprint();
    let pair = || vec![Arc::clone(&a), Arc::clone(&b)];
    let weighted = |x: f64, y: f64| vec![(Arc::clone(&a), x), (Arc::clone(&b), y)];
    let different = [
        of(&a),
        of(&Concat::new(pair()).unwrap()),
        of(&Concat::new(pair().into_iter().rev().collect()).unwrap()),
        of(&Subset::new(Arc::clone(&a), vec![0, 1]).unwrap()),
        of(&Subset::new(Arc::clone(&a), vec![1, 0]).unwrap()),
        of(&Subset::slice(Arc::clone(&a), 0..2, 1).unwrap()),
        of(&Subset::slice(Arc::clone(&a), 1..3, 1).unwrap()),
        of(&Subset::slice(Arc::clone(&a), 0..4, 2).unwrap()),
        of(&Mixture::new(weighted(1.0, 2.0), 9).unwrap()),
        of(&Mixture::new(weighted(1.0, 1.0), 9).unwrap()),
        of(&Mixture::new(weighted(1.0, 1.0), 8).unwrap()),
    ];
    assert_eq!(different.iter().map(Fingerprint::digest).collect::<HashSet<_>>().len(), different.len());
    assert_eq!(of(&Mixture::new(weighted(1.0, 2.0), 9).unwrap()), different[8]);
    assert_eq!(of(&Mixture::new(weighted(0.5, 1.0), 9).unwrap()), different[8]);
    let said = different[8].difference(&different[9]).unwrap();
    assert!(said.contains("1 2") && said.contains("1 1"), "{said}");
}

#[test]
fn a_changed_file_of_a_child_changes_the_fingerprint() {
    let folder = crate::common::folder();
    let first = Letters::write(folder.path(), "first", &["ab"]);
    let before = Concat::new(vec![Letters::write(folder.path(), "second", &["cd"]), Arc::clone(&first)]).unwrap();
    let after = Concat::new(vec![Letters::write(folder.path(), "second", &["cde"]), first]).unwrap();
    let said = before.fingerprint().difference(&after.fingerprint()).unwrap();
    assert!(said.contains("the bytes were 4, now 5"), "{said}");
}

proptest! {
    #[test]
    fn every_sample_of_every_child_is_in_a_concatenation_once(lens in prop::collection::vec(0_u64..20, 1..10)) {
        let all = Concat::new(lens.iter().map(|&len| numbers(len)).collect()).unwrap();
        let expected: Vec<_> = (0..).zip(&lens).flat_map(|(child, &len)| (0..len).map(move |i| (child, i))).collect();
        if lens.len() > 1 {
            prop_assert_eq!(origins(&all), expected);
        }
    }

    /// Against the weights as they were written: thousandths, in whole numbers.
    #[test]
    fn proportions_hold_at_every_prefix(
        thousandths in prop::collection::vec(0_u32..400, 2..9), lens in prop::collection::vec(1_u64..50, 9),
    ) {
        let sum = i64::from(thousandths.iter().sum::<u32>());
        prop_assume!(sum > 0);
        let children = || thousandths.iter().zip(&lens).map(|(&w, &len)| (numbers(len), f64::from(w) / 1000.0)).collect();
        let mixed = Mixture::new(children(), 2500).unwrap();
        let mut had = vec![0_i64; thousandths.len()];
        for (n, (child, index)) in (1..).zip(origins(&mixed)) {
            prop_assert_eq!(index, had[child] as u64 % lens[child]);
            had[child] += 1;
            for (had, &weight) in had.iter().zip(&thousandths) {
                prop_assert!((had * sum - n * i64::from(weight)).abs() < sum, "after {n}: {had} of {weight}/{sum}");
            }
        }

        // Stopping at the first that is used up gives a prefix of that in which none comes again, and the longest.
        let once = Mixture::once(children()).unwrap();
        let longest = 1 + (0..).zip(origins(&mixed)).scan(vec![0_u64; lens.len()], |had, (n, (child, _))| {
            had[child] += 1;
            (had[child] <= lens[child]).then_some(n)
        }).last().unwrap();
        prop_assert_eq!(once.len(), longest);
        prop_assert_eq!(&origins(&once)[..], &origins(&mixed)[..longest as usize]);
    }
}
