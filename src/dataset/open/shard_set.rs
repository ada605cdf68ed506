//! Names that say of how many files they are one, such as `model-00001-of-00003.safetensors`: all of them must be there.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::format::Format;
use crate::dataset::text::{in_message, shown};
use crate::dataset::{DatasetError, DatasetFault};

/// Sees that the sets that these files are of are whole. Files whose names say nothing of a set do not count.
///
/// Files of one name in several directories are a set in each of them, as of splits that share the names of their shards.
/// Where one of those is not whole they are one set together, since its files may lie on several drives; but of a directory
/// that `is_given` as such, what is missing is in no other.
pub(super) fn check(files: &[PathBuf], format: Format, is_given: impl Fn(&Path) -> bool) -> Result<(), DatasetError> {
    let mut seen = HashSet::with_capacity(files.len());
    let mut names: BTreeMap<_, BTreeMap<&Path, Vec<Shard<'_>>>> = BTreeMap::new();
    for path in files.iter().filter(|path| seen.insert(path.as_path())) {
        let Some(name) = path.file_name().map(OsStrExt::as_bytes).and_then(Numbered::of) else { continue };
        let by_directory = names.entry((name.before.to_vec(), name.ending(format))).or_default();
        by_directory.entry(path.parent().unwrap_or(path)).or_default().push(Shard { path, name });
    }
    for by_directory in names.into_values() {
        let (given, others): (Vec<_>, Vec<_>) =
            by_directory.into_iter().partition(|(directory, _)| is_given(directory));
        given.iter().try_for_each(|(_, shards)| check_set(shards))?;
        if others.iter().any(|(_, shards)| check_set(shards).is_err()) {
            check_set(&others.into_iter().flat_map(|(_, shards)| shards).collect::<Vec<_>>())?;
        }
    }
    Ok(())
}

/// The names of the files in this directory that are of the sets which these safetensors files in it are of, but are none
/// of them; in byte order. None where the directory cannot be listed.
pub(crate) fn others_of_sets(directory: &Path, names: &HashSet<&OsStr>) -> Vec<String> {
    let set_of = |name: &OsStr| {
        let numbered = Numbered::of(name.as_bytes())?;
        Some((numbered.before.to_vec(), numbered.total, numbered.ending(Format::Safetensors)))
    };
    let sets: HashSet<_> = names.iter().filter_map(|name| set_of(name)).collect();
    if sets.is_empty() {
        return Vec::new();
    }
    let there = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_other =
        |name: &OsString| !names.contains(name.as_os_str()) && set_of(name).is_some_and(|set| sets.contains(&set));
    let mut others: Vec<String> = there.filter(is_other).map(|name| in_message(name.as_bytes())).collect();
    others.sort_unstable();
    others
}

/// Sees that shards of one name are one set and all of it.
fn check_set(shards: &[Shard<'_>]) -> Result<(), DatasetError> {
    let mut by_total: BTreeMap<u64, Set<'_>> = BTreeMap::new();
    for &Shard { path, name } in shards {
        let set = by_total.entry(name.total).or_insert_with(|| Set { first: path, name, counts: BTreeMap::new() });
        *set.counts.entry(name.number).or_default() += 1;
    }
    if let [one, other, ..] = by_total.values().collect::<Vec<_>>()[..] {
        let names = [one, other].map(|set| shown(set.first));
        let what = format!("the names of {} and {} disagree on how many files there are", names[0], names[1]);
        return Err(incomplete(one.first, what));
    }
    by_total.values().try_for_each(Set::check)
}

/// A file whose name says which of how many it is.
#[derive(Clone, Copy)]
struct Shard<'a> {
    path: &'a Path,
    name: Numbered<'a>,
}

/// The files of one set that there are.
struct Set<'a> {
    first: &'a Path,
    name: Numbered<'a>,
    /// How often each number is there.
    counts: BTreeMap<u64, u64>,
}

impl Set<'_> {
    fn check(&self) -> Result<(), DatasetError> {
        let total = self.name.total;
        let is_there = |number| self.counts.contains_key(&number);
        // Either 0 to the total less one, or 1 to the total; where neither end is there, nobody knows which.
        let (from, to) = match (is_there(0), is_there(total)) {
            (true, _) => (0, total.saturating_sub(1)),
            (false, true) => (1, total),
            (false, false) => (1, total.saturating_sub(1)),
        };
        if let Some((beyond, _)) = self.counts.iter().find(|(number, _)| **number > to || total == 0) {
            let what =
                format!("{} would be one of {total} files, and its number is none of theirs", self.named(*beyond));
            return Err(incomplete(self.first, what));
        }
        let each = self.counts.values().copied().max().unwrap_or(1);
        let lacks = |number: &u64| self.counts.get(number).is_none_or(|count| *count < each);
        let known: u128 = self.counts.values().map(|count| u128::from(*count)).sum();
        let missing = (u128::from(total) * u128::from(each)).saturating_sub(known);
        if missing == 0 {
            return Ok(());
        }
        const SHOWN: usize = 8;
        let either = (!is_there(0) && !is_there(total)).then(|| format!("{} or {}", self.named(0), self.named(total)));
        let named = (from..=to).filter(lacks).take(SHOWN).map(|number| self.named(number));
        let names: Vec<String> = either.into_iter().chain(named).take(SHOWN).collect();
        let more = missing.saturating_sub(names.len() as u128);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let of = if missing == 1 { "1 file is" } else { &*format!("{missing} files are") };
        Err(incomplete(self.first, format!("{of} missing of the set of {total}: {}{more}", names.join(", "))))
    }

    fn named(&self, number: u64) -> String {
        in_message(&self.name.with(number))
    }
}

fn incomplete(path: &Path, what: String) -> DatasetError {
    DatasetError::new(path, None, DatasetFault::Incomplete { what: crate::dataset::brief(what) })
}

/// A name that says which file of how many it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbered<'a> {
    before: &'a [u8],
    number: u64,
    /// Digits of the number, with zeros in front.
    width: usize,
    total: u64,
    /// From behind the number on.
    rest: &'a [u8],
    /// Behind the total.
    behind: &'a [u8],
}

impl<'a> Numbered<'a> {
    /// `…-NNNNN-of-NNNNN…`, with dots or underscores as well, of any number of digits.
    fn of(name: &'a [u8]) -> Option<Self> {
        let is_of = |at: &usize| matches!(name.get(*at..at + 4), Some(b"-of-" | b"_of_"));
        (0..name.len()).rev().filter(is_of).find_map(|at| Self::around(name, at))
    }

    fn around(name: &'a [u8], of: usize) -> Option<Self> {
        let (head, rest) = name.split_at(of);
        let width = head.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (before, number) = head.split_at(head.len() - width);
        let digits = rest[4..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (total, behind) = rest[4..].split_at(digits);
        let is_apart = |byte: Option<&u8>| byte.is_none_or(|byte| matches!(byte, b'-' | b'_' | b'.'));
        if !is_apart(before.last()) || !is_apart(behind.first()) {
            return None;
        }
        let value = |digits: &[u8]| str::from_utf8(digits).ok()?.parse().ok();
        Some(Self { before, number: value(number)?, width, total: value(total)?, rest, behind })
    }

    /// What stands behind the numbers, and behind a file's own hash. The two files of a Megatron pair are one.
    fn ending(&self, format: Format) -> Vec<u8> {
        let behind = &self.behind[self.hash()..];
        match (format, behind.strip_suffix(b".bin")) {
            (Format::Megatron, Some(stem)) => [stem, b".idx"].concat(),
            _ => behind.to_vec(),
        }
    }

    /// Bytes of `-0123456789abcdef` behind the total: the hash of one file, which no other file of the set has.
    fn hash(&self) -> usize {
        const LEAST: usize = 8;
        let Some(digits) = self.behind.strip_prefix(b"-") else { return 0 };
        let len = digits.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let is_hash = len >= LEAST && matches!(digits.get(len), None | Some(b'.'));
        if is_hash { len + 1 } else { 0 }
    }

    /// The name of another file of the set, whose hash nobody knows.
    fn with(&self, number: u64) -> Vec<u8> {
        let number = format!("{number:0width$}", width = self.width);
        let (total, hash) = (&self.rest[..self.rest.len() - self.behind.len()], self.hash());
        let any: &[u8] = if hash > 0 { b"-*" } else { b"" };
        [self.before, number.as_bytes(), total, any, &self.behind[hash..]].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_file_of_how_many_they_are() {
        for (name, number, total, before, behind) in [
            ("model-00001-of-00003.safetensors", 1, 3, "model-", ".safetensors"),
            ("train.tfrecord-00000-of-00010", 0, 10, "train.tfrecord-", ""),
            ("c4-train.00511-of-01024.tfrecord", 511, 1024, "c4-train.", ".tfrecord"),
            ("00001-of-00002.npy", 1, 2, "", ".npy"),
            ("x_3_of_4.npy", 3, 4, "x_", ".npy"),
            ("a-1-of-2-b-3-of-4.npy", 3, 4, "a-1-of-2-b-", ".npy"),
            ("part-of-3-1-of-2", 1, 2, "part-of-3-", ""),
        ] {
            let numbered = Numbered::of(name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((numbered.number, numbered.total), (number, total), "{name}");
            assert_eq!((numbered.before, numbered.behind), (before.as_bytes(), behind.as_bytes()), "{name}");
            assert_eq!(numbered.with(number), name.as_bytes());
        }
        for (name, ending, other) in [
            ("x-0-of-2-0123abcd.npy", ".npy", "x-1-of-2-*.npy"),
            ("x-0-of-2-0123ABCDEF", "", "x-1-of-2-*"),
            ("x-0-of-2-0123abc.npy", "-0123abc.npy", "x-1-of-2-0123abc.npy"),
            ("x-0-of-2-0123abcdx.npy", "-0123abcdx.npy", "x-1-of-2-0123abcdx.npy"),
        ] {
            let numbered = Numbered::of(name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(numbered.ending(Format::Npy), ending.as_bytes(), "{name}");
            assert_eq!(numbered.with(1), other.as_bytes(), "{name}");
        }
        for name in [
            "model.safetensors",
            "a-of-3.npy",
            "a-1-of-.npy",
            "a1-of-3.npy",
            "a-1-of-3rd.npy",
            "lord-of-the-rings-1.npy",
            "x-1-of-99999999999999999999999.npy",
            "-of-",
            "",
        ] {
            assert_eq!(Numbered::of(name.as_bytes()), None, "{name}");
        }
    }
}
