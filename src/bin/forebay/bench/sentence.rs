//! A sentence whose figures differ from row to row, so that rows for which the same holds share one sentence.

use std::fmt;
use std::mem::discriminant;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::byte_count::{rate, shown};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sentence(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Figure(Figure),
}

/// What may differ between rows without changing what is said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// A share, from 0 to 1.
    Percent(f64),
    /// Bytes per second.
    Rate(f64),
    Bytes(u64),
    Count(u64),
}

impl Sentence {
    pub fn new(text: impl Into<String>) -> Self {
        Self(vec![Part::Text(text.into())])
    }

    pub fn and(mut self, text: impl Into<String>) -> Self {
        self.0.push(Part::Text(text.into()));
        self
    }

    pub fn with(mut self, figure: Figure) -> Self {
        self.0.push(Part::Figure(figure));
        self
    }

    /// Whether both say the same, perhaps of other figures.
    pub fn says_as(&self, other: &Self) -> bool {
        let alike = |(a, b): (&Part, &Part)| match (a, b) {
            (Part::Text(a), Part::Text(b)) => a == b,
            (Part::Figure(a), Part::Figure(b)) => discriminant(a) == discriminant(b),
            _ => false,
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(alike)
    }

    /// What all of them say, with the least and the greatest of each figure. They say the same, and there is one at least.
    pub fn together(all: &[&Self]) -> String {
        let Some(first) = all.first() else { return String::new() };
        let part = |(place, part): (usize, &Part)| match part {
            Part::Text(text) => text.clone(),
            Part::Figure(figure) => {
                let others = all.iter().filter_map(|other| match other.0.get(place) {
                    Some(Part::Figure(figure)) => Some(*figure),
                    _ => None,
                });
                let (least, most) = others.fold((*figure, *figure), |(least, most), other| {
                    (if other.size() < least.size() { other } else { least }, {
                        if other.size() > most.size() { other } else { most }
                    })
                });
                match (least.to_string(), most.to_string()) {
                    (least, most) if least == most => least,
                    (least, most) => format!("{least} to {most}"),
                }
            }
        };
        first.0.iter().enumerate().map(part).collect()
    }
}

impl Figure {
    fn size(self) -> f64 {
        match self {
            Self::Percent(number) | Self::Rate(number) => number,
            Self::Bytes(number) | Self::Count(number) => number as f64,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Percent(share) if share < 0.1 => write!(f, "{:.1} %", share * 100.0),
            Self::Percent(share) => write!(f, "{:.0} %", share * 100.0),
            Self::Rate(bytes) => f.write_str(&rate(bytes)),
            Self::Bytes(bytes) => f.write_str(&shown(bytes)),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Figure(figure) => figure.fmt(f),
        })
    }
}

impl<T: Into<String>> From<T> for Sentence {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

impl Serialize for Sentence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sentence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// What was said, each once, in the order in which it came first; beside each what it was said of.
pub fn grouped<'a, T>(said: impl IntoIterator<Item = (T, &'a Sentence)>) -> Vec<(Vec<T>, String)> {
    let mut groups: Vec<(Vec<T>, Vec<&Sentence>)> = Vec::new();
    for (of, sentence) in said {
        match groups.iter_mut().find(|(_, alike)| alike[0].says_as(sentence)) {
            Some((all, alike)) => {
                all.push(of);
                alike.push(sentence);
            }
            None => groups.push((vec![of], vec![sentence])),
        }
    }
    groups.into_iter().map(|(all, alike)| (all, Sentence::together(&alike))).collect()
}

/// `row 4`, `rows 1-3, 7`: numbers as the table has them. Sorted, each once.
pub fn rows(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |&(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let ranges: Vec<String> = ranges.iter().map(range).collect();
    format!("row{} {}", if numbers.len() == 1 { "" } else { "s" }, ranges.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(share: f64) -> Sentence {
        Sentence::new("other programs had ").with(Figure::Percent(share)).and(" of the processors")
    }

    #[test]
    fn what_differs_in_figures_is_said_once_with_the_least_and_the_greatest() {
        let said = [others(0.48), others(0.021), Sentence::new("the drive"), others(0.3)];
        let groups = grouped((1..).zip(&said));
        let told = "other programs had 2.1 % to 48 % of the processors".to_owned();
        assert_eq!(groups, [(vec![1, 2, 4], told), (vec![3], "the drive".into())]);
    }

    #[test]
    fn figures_that_look_alike_are_no_range() {
        assert_eq!(Sentence::together(&[&others(0.231), &others(0.229)]), "other programs had 23 % of the processors");
    }

    #[test]
    fn neighbouring_rows_are_a_range() {
        assert_eq!(rows(&[3]), "row 3");
        assert_eq!(rows(&[1, 2, 3, 7, 9, 10]), "rows 1-3, 7, 9-10");
    }

    #[test]
    fn json_holds_it_as_text() {
        let text = serde_json::to_string(&others(0.5)).unwrap();
        assert_eq!(text, "\"other programs had 50 % of the processors\"");
        assert_eq!(serde_json::from_str::<Sentence>(&text).unwrap().to_string(), others(0.5).to_string());
    }
}
