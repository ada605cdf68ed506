//! Prints what was measured, for people and as JSON.

use serde_json::{Value, json};

use crate::cases::{Case, MEMORY_ALLOWANCE, Rival};
use crate::round::{NOISE, Place, Round};
use crate::spread::Spread;
use crate::workload::Outcome;

pub const HEAD: &str = "\
case             device  ours           rival          who    ratio              CPU s/GB       ratio              peak MiB   targets";

/// One line of the table.
#[derive(Debug)]
pub struct Row<'a> {
    case: &'a Case,
    place: &'a Place,
    rounds: &'a [Round],
    /// The index of the rival that was fastest most often.
    best: usize,
    throughput: Spread,
    cpu: Spread,
    peak: Option<u64>,
}

impl<'a> Row<'a> {
    pub fn new(case: &'a Case, place: &'a Place, rounds: &'a [Round]) -> Self {
        let wins = |rival: &usize| rounds.iter().filter(|round| round.best().0 == *rival).count();
        Self {
            case,
            place,
            rounds,
            best: (0..case.rivals.len()).max_by_key(wins).unwrap_or(0),
            throughput: Spread::of(rounds.iter().map(Round::throughput_ratio)),
            cpu: Spread::of(rounds.iter().map(Round::cpu_ratio)),
            peak: rounds.iter().filter_map(|round| round.ours.peak_rss).max(),
        }
    }

    /// The line, and a second one where something must be said about it.
    pub fn text(&self) -> String {
        let peak = self.peak.map_or("?".into(), |bytes| format!("{}/{}", bytes >> 20, self.peak_limit() >> 20));
        let targets: Vec<String> = self
            .verdicts()
            .iter()
            .map(|(name, bound, met)| format!("{name} {bound}: {}", if *met { "met" } else { "MISSED" }))
            .collect();
        let mut text = format!(
            "{:<16} {:<7} {:<14} {:<14} {:<6} {:<18} {:<14} {:<18} {:<10} {}",
            self.case.name,
            self.place.device,
            self.rate(self.ours(Outcome::bytes_per_second)),
            self.rate(self.rival(Outcome::bytes_per_second)),
            who(self.case.rivals[self.best]),
            self.throughput.to_string(),
            format!("{:.3}/{:.3}", self.ours(Outcome::cpu_seconds_per_gb), self.rival(Outcome::cpu_seconds_per_gb)),
            self.cpu.to_string(),
            peak,
            targets.join(", "),
        );
        for note in self.notes() {
            text.push_str(&format!("\n                 note: {note}"));
        }
        text
    }

    pub fn json(&self) -> Value {
        let verdicts: Vec<Value> = self
            .verdicts()
            .iter()
            .map(|(name, bound, met)| json!({"target": name, "bound": bound, "met": met}))
            .collect();
        let rounds: Vec<Value> = self
            .rounds
            .iter()
            .map(|round| {
                let rivals: Vec<Value> = round.rivals.iter().map(Outcome::to_json).collect();
                json!({"ours": round.ours.to_json(), "rivals": rivals, "noise": round.noise})
            })
            .collect();
        let rivals: Vec<&str> = self.case.rivals.iter().map(|rival| who(*rival)).collect();
        json!({
            "case": self.case.name,
            "device": self.place.device,
            "block": self.case.block,
            "depth": self.case.depth,
            "jobs": self.case.jobs,
            "warm": self.case.warm,
            "rivals": rivals,
            "ours_bytes_per_second": self.ours(Outcome::bytes_per_second),
            "rival_bytes_per_second": self.rival(Outcome::bytes_per_second),
            "ratio": self.throughput.json(),
            "ours_cpu_seconds_per_gb": self.ours(Outcome::cpu_seconds_per_gb),
            "rival_cpu_seconds_per_gb": self.rival(Outcome::cpu_seconds_per_gb),
            "cpu_ratio": self.cpu.json(),
            "peak_rss": self.peak,
            "peak_limit": self.peak_limit(),
            "verdicts": verdicts,
            "notes": self.notes(),
            "rounds": rounds,
        })
    }

    fn verdicts(&self) -> Vec<(&'static str, String, bool)> {
        let mut verdicts = Vec::new();
        if let Some(bound) = self.case.throughput {
            verdicts.push(("rate", format!("≥ {bound:.2}"), self.throughput.median >= bound));
        }
        if let Some(bound) = self.case.cpu {
            verdicts.push(("cpu", format!("≤ {bound:.2}"), self.cpu.median <= bound));
        }
        if let Some(peak) = self.peak {
            let bound = format!("≤ {}", self.peak_limit() >> 20);
            verdicts.push(("peak", bound, peak <= self.peak_limit()));
        }
        verdicts
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let noise = self.rounds.iter().map(|round| round.noise).fold(0.0, f64::max);
        if noise > NOISE {
            notes.push(format!("other processes or guests took up to {:.0} % of the CPUs", noise * 100.0));
        }
        // A row with several rivals also shows those that were not the fastest.
        if self.case.rivals.len() > 1 {
            for (index, rival) in self.case.rivals.iter().enumerate() {
                let of = |f: fn(&Outcome) -> f64| Spread::of(self.rounds.iter().map(|r| f(&r.rivals[index]))).median;
                let rate = self.rate(of(Outcome::bytes_per_second));
                notes.push(format!("{}: {rate}, {:.3} CPU s/GB", who(*rival), of(Outcome::cpu_seconds_per_gb)));
            }
        }
        for round in self.rounds {
            if let Some(note) = round.ours.note.as_ref().filter(|note| !notes.contains(note)) {
                notes.push(note.clone());
            }
        }
        notes
    }

    fn ours(&self, figure: fn(&Outcome) -> f64) -> f64 {
        Spread::of(self.rounds.iter().map(|round| figure(&round.ours))).median
    }

    fn rival(&self, figure: fn(&Outcome) -> f64) -> f64 {
        Spread::of(self.rounds.iter().map(|round| figure(round.best().1))).median
    }

    /// Small blocks are counted, large ones weighed.
    fn rate(&self, bytes_per_second: f64) -> String {
        match self.case.block <= 16 << 10 {
            true => format!("{:.1} kIOPS", bytes_per_second / self.case.block as f64 / 1e3),
            false => format!("{:.3} GB/s", bytes_per_second / 1e9),
        }
    }

    fn peak_limit(&self) -> u64 {
        self.case.ours.budget + MEMORY_ALLOWANCE
    }
}

fn who(rival: Rival) -> &'static str {
    match rival {
        Rival::FioUring => "fio",
        Rival::FioPsync => "psync",
        Rival::PreadLoop => "pread",
    }
}
