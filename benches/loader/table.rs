//! Prints a race, for people and as JSON: each contender's rate, and the ratios round by round.

use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::race::{Contender, Measure, Race, Rounds};
use crate::spread::Spread;

/// A race that was run in a place.
#[derive(Debug)]
pub struct Table<'a> {
    pub place: &'a str,
    pub race: &'a Race,
    pub who: &'a [Contender],
    pub rounds: &'a Rounds,
}

impl Table<'_> {
    pub fn text(&self) -> String {
        let mut text = format!("\n{}, {}: {}\n", self.place, self.race.case, self.race.title);
        let (unit, scale) = match self.race.measure {
            Measure::Samples => ("1000 samples/s", 1e3),
            Measure::Bytes => ("GB/s", 1e9),
        };
        text.push_str(&format!("{:<24} {unit:>26} {:>8} {:>10} {:>10}\n", "who", "GB/s", "CPU s/GB", "peak MiB"));
        for (who, outcomes) in self.who.iter().zip(&self.rounds.outcomes) {
            let rate = Spread::of(outcomes.iter().map(|it| self.race.measure.rate(it) / scale));
            let bytes = Spread::of(outcomes.iter().map(|it| Measure::Bytes.rate(it) / 1e9)).median;
            let cpu = Spread::of(outcomes.iter().filter_map(cpu_of)).median;
            let peak = outcomes.iter().filter_map(|outcome| outcome.peak).max();
            let [cpu, peak] = [(!cpu.is_nan()).then(|| format!("{cpu:.3}")), peak.map(|peak| (peak >> 20).to_string())]
                .map(|figure| figure.unwrap_or("-".into()));
            let (name, rate) = (who.name(), format!("{rate:.3}"));
            text.push_str(&format!("{name:<24} {rate:>26} {bytes:>8.3} {cpu:>10} {peak:>10}\n"));
            match threads(outcomes) {
                threads if threads.is_empty() && !cpu_is_unknown(outcomes) => {
                    let each = outcomes.iter().filter_map(|it| Some(it.cpu_seconds? / it.samples as f64 * 1e6));
                    text.push_str(&format!("    CPU µs each: {:.2}\n", Spread::of(each).median));
                }
                threads => text.push_str(&threads),
            }
            for note in notes(outcomes) {
                text.push_str(&format!("    note: {note}\n"));
            }
        }
        for ratio in self.ratios() {
            text.push_str(&ratio.text());
        }
        let noise = self.rounds.noises.iter().copied().fold(0.0, f64::max);
        if noise > 0.10 {
            text.push_str(&format!("note: other processes or guests took up to {:.0} % of the CPUs\n", noise * 100.0));
        }
        text
    }

    /// A line for each contender.
    pub fn json(&self) -> Vec<Value> {
        let ratios: Vec<Value> = self.ratios().iter().map(Ratio::json).collect();
        let of = |(who, outcomes): (&Contender, &Vec<Outcome>)| {
            json!({
                "place": self.place, "case": self.race.case, "who": who.name(), "batch": self.race.batch,
                "rate": Spread::of(outcomes.iter().map(|it| self.race.measure.rate(it))).json(),
                "rounds": outcomes.iter().map(Outcome::to_json).collect::<Vec<_>>(),
                "noise": self.rounds.noises, "ratios": ratios,
            })
        };
        self.who.iter().zip(&self.rounds.outcomes).map(of).collect()
    }

    /// Ours to fio, and to the best of the peers.
    fn ratios(&self) -> Vec<Ratio> {
        let (fio, peers) = self.race.targets;
        let mut ratios = Vec::new();
        for ours in [Contender::Forebay, Contender::ForebayDefault] {
            let promised = ours == Contender::Forebay;
            let against_fio: Vec<usize> = self.numbers(|who| *who == Contender::Fio);
            ratios.extend(self.ratio(&ours, "fio", &against_fio, Some(fio).filter(|_| promised)));
            let against_peers: Vec<usize> = self.numbers(Contender::is_peer);
            ratios.extend(self.ratio(&ours, "the best peer", &against_peers, peers.filter(|_| promised)));
        }
        ratios
    }

    fn numbers(&self, is_one: impl Fn(&Contender) -> bool) -> Vec<usize> {
        (0..self.who.len()).filter(|&i| is_one(&self.who[i])).collect()
    }

    fn ratio(&self, ours: &Contender, name: &str, rivals: &[usize], bound: Option<f64>) -> Option<Ratio> {
        let ours_number = self.who.iter().position(|who| who == ours)?;
        let rate = |i: usize, round: usize| {
            self.rounds.outcomes[i].get(round).map_or(f64::NAN, |outcome| self.race.measure.rate(outcome))
        };
        let rounds = self.rounds.noises.len();
        let best = |round| rivals.iter().map(|&i| rate(i, round)).fold(f64::NAN, f64::max);
        let median = |i: usize| Spread::of((0..rounds).map(|round| rate(i, round))).median;
        let best_median = rivals.iter().map(|&i| median(i)).fold(f64::NAN, f64::max);
        (!rivals.is_empty()).then(|| Ratio {
            what: format!("{} / {name}", ours.name()),
            rounds: (0..rounds).map(|round| rate(ours_number, round) / best(round)).collect(),
            of_medians: median(ours_number) / best_median,
            bound,
        })
    }
}

#[derive(Debug)]
struct Ratio {
    what: String,
    rounds: Vec<f64>,
    of_medians: f64,
    /// What was promised.
    bound: Option<f64>,
}

impl Ratio {
    fn text(&self) -> String {
        let median = Spread::of(self.rounds.iter().copied()).median;
        let rounds: Vec<String> = self.rounds.iter().map(|ratio| format!("{ratio:.2}")).collect();
        let verdict = match self.bound {
            Some(bound) if median >= bound => format!(" (at least {bound:.2}: met)"),
            Some(bound) => format!(" (at least {bound:.2}: MISSED)"),
            None => String::new(),
        };
        let (what, rounds) = (&self.what, rounds.join(" "));
        format!("{what}: {median:.2}{verdict}; by round {rounds}; of the medians {:.2}\n", self.of_medians)
    }

    fn json(&self) -> Value {
        json!({"what": self.what, "rounds": self.rounds, "of_medians": self.of_medians, "bound": self.bound})
    }
}

fn cpu_is_unknown(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| outcome.cpu_seconds.is_none())
}

fn cpu_of(outcome: &Outcome) -> Option<f64> {
    outcome.cpu_seconds.map(|seconds| seconds / (outcome.bytes as f64 / 1e9))
}

/// What each thread spends on a sample: the busiest one says how fast the rest could be with a processor for each.
fn threads(outcomes: &[Outcome]) -> String {
    let names: Vec<&String> = outcomes.first().into_iter().flat_map(|first| &first.threads).map(|(it, _)| it).collect();
    let of = |name: &String| {
        let each = outcomes.iter().filter_map(|it| {
            let (_, seconds) = it.threads.iter().find(|(of, _)| of == name)?;
            Some(seconds / it.samples as f64 * 1e6)
        });
        Spread::of(each).median
    };
    let mut all: Vec<(&String, f64)> = names.into_iter().map(|name| (name, of(name))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let all: Vec<String> =
        all.iter().filter(|it| it.1 >= 0.005).map(|(it, spent)| format!("{it} {spent:.2}")).collect();
    if all.is_empty() { String::new() } else { format!("    CPU µs each: {}\n", all.join(", ")) }
}

fn notes(outcomes: &[Outcome]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for note in outcomes.iter().flat_map(|outcome| &outcome.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes
}
