//! Several measurements of one thing.

use serde_json::{Value, json};

/// The least, the middle and the greatest of some numbers.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(numbers: impl Iterator<Item = f64>) -> Self {
        let mut numbers: Vec<f64> = numbers.collect();
        numbers.sort_by(f64::total_cmp);
        let middle = numbers.len() / 2;
        let median = match numbers.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => numbers[middle],
            _ => (numbers[middle - 1] + numbers[middle]) / 2.0,
        };
        Self { min: *numbers.first().unwrap_or(&f64::NAN), median, max: *numbers.last().unwrap_or(&f64::NAN) }
    }

    pub fn json(self) -> Value {
        json!({"min": self.min, "median": self.median, "max": self.max})
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$} [{:.digits$}..{:.digits$}]", self.median, self.min, self.max)
    }
}
