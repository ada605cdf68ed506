//! What is to be said beside the rows: each once, with what it holds for.

use super::sentence::{self, Sentence};

#[derive(Default)]
pub struct Warnings(Vec<(Of, Sentence)>);

/// What a warning holds for.
#[derive(Clone, PartialEq)]
enum Of {
    All,
    /// An entry of the contest, by its place.
    Entry(usize),
    Named(String),
}

impl Warnings {
    pub fn say(&mut self, what: impl Into<Sentence>) {
        self.0.push((Of::All, what.into()));
    }

    /// Of an entry of the contest.
    pub fn say_of(&mut self, entry: usize, what: impl Into<Sentence>) {
        self.0.push((Of::Entry(entry), what.into()));
    }

    /// Of what is no row.
    pub fn say_of_named(&mut self, name: impl Into<String>, what: impl Into<Sentence>) {
        self.0.push((Of::Named(name.into()), what.into()));
    }

    /// As people read them. `number` is that of an entry's row; entries without one are not named.
    pub fn told(&self, number: impl Fn(usize) -> Option<usize>) -> Vec<String> {
        let groups = sentence::grouped(self.0.iter().map(|(of, what)| (of, what)));
        let told = groups.into_iter().map(|(all, what)| {
            let mut names: Vec<&str> = Vec::new();
            let mut numbers: Vec<usize> = Vec::new();
            for of in all {
                match of {
                    Of::All => {}
                    Of::Entry(entry) => numbers.extend(number(*entry)),
                    Of::Named(name) if names.contains(&name.as_str()) => {}
                    Of::Named(name) => names.push(name),
                }
            }
            numbers.sort_unstable();
            numbers.dedup();
            let rows = (!numbers.is_empty()).then(|| sentence::rows(&numbers));
            let of: Vec<&str> = rows.as_deref().into_iter().chain(names).collect();
            if of.is_empty() { what } else { format!("{}: {what}", of.join("; ")) }
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sentence::Figure;

    #[test]
    fn a_warning_is_told_once_however_often_it_came_with_the_rows_it_holds_for() {
        let mut warnings = Warnings::default();
        let kept = |share| Sentence::new("").with(Figure::Percent(share)).and(" stayed in the page cache");
        warnings.say_of(4, kept(0.5));
        warnings.say("the drive is hot");
        warnings.say_of(2, kept(1.0));
        warnings.say("the drive is hot");
        warnings.say_of(2, kept(1.0));
        warnings.say_of(9, kept(1.0));
        warnings.say_of_named("64 KiB", "larger than the file");
        warnings.say_of_named("1 MiB", "larger than the file");
        // The tenth entry has no row.
        let number = |entry: usize| (entry < 9).then_some(entry + 1);
        let wanted = [
            "rows 3, 5: 50 % to 100 % stayed in the page cache",
            "the drive is hot",
            "64 KiB; 1 MiB: larger than the file",
        ];
        assert_eq!(warnings.told(number), wanted);
    }
}
