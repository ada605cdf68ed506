//! Rows whose preconditions did not hold: each is reported in its place, and the others are measured.

use serde_json::{Value, json};

use crate::stop;

/// How many rows were measured, and how many were lost.
#[derive(Debug, Default)]
pub struct Tally {
    measured: usize,
    lost: usize,
}

impl Tally {
    pub fn measured(&mut self) {
        self.measured += 1;
    }

    /// Prints that a row is lost; its JSON. An error where a signal was what ended it.
    pub fn lost(&mut self, place: &str, case: &str, why: &str) -> Result<Value, String> {
        stop::check()?;
        self.lost += 1;
        println!("lost: {case} on {place}: {why}");
        Ok(json!({"place": place, "case": case, "lost": why}))
    }

    /// An error where nothing was measured of what was tried.
    pub fn end(&self) -> Result<(), String> {
        match (self.measured, self.lost) {
            (0, lost) if lost > 0 => Err("no row could be measured".into()),
            _ => Ok(()),
        }
    }
}
