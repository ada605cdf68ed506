//! Rounds of runs: every contender once a round, and each round begins with another one.

use std::time::Instant;

use crate::child::{self, Vars};
use crate::machine::Neighbours;
use crate::place::Place;
use crate::stop;
use crate::work::{Order, Outcome};

/// A round is measured again when others took more than this share of the CPUs.
pub const NOISE: f64 = 0.10;

/// At most this many times as many rounds are run as are shown.
const TRIES: usize = 2;

/// One outcome for each order; none for one that failed.
#[derive(Debug)]
pub struct Round {
    pub outcomes: Vec<Option<Outcome>>,
    /// The largest share of the CPUs that others took during one of its runs.
    pub noise: f64,
}

/// What came of all rounds.
#[derive(Debug)]
pub struct Rounds {
    pub rounds: Vec<Round>,
    /// For each order why it could not be run, where it could not.
    pub failures: Vec<Option<String>>,
}

impl Rounds {
    /// A number for each round in which all of these orders were run.
    pub fn each<const N: usize>(&self, orders: [usize; N], number: impl Fn([&Outcome; N]) -> f64) -> Vec<f64> {
        let all = |round: &Round| {
            let outcomes = orders.map(|order| round.outcomes[order].clone());
            outcomes.iter().all(Option::is_some).then(|| outcomes.map(Option::unwrap_or_default))
        };
        self.rounds.iter().filter_map(all).map(|outcomes| number(outcomes.each_ref())).collect()
    }

    pub fn outcomes(&self, order: usize) -> impl Iterator<Item = &Outcome> {
        self.rounds.iter().filter_map(move |round| round.outcomes[order].as_ref())
    }

    pub fn noise(&self) -> f64 {
        self.rounds.iter().map(|round| round.noise).fold(0.0, f64::max)
    }
}

/// How many rounds there are to be.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    pub rounds: usize,
    /// Seconds after which no round is to end, if the first leaves a choice.
    pub within: Option<f64>,
}

/// Runs rounds of all orders. One that fails is not run again.
pub fn measure(orders: &[Order], wanted: Count, vars: &Vars, place: &Place) -> Result<Rounds, String> {
    let (mut count, start, mut longest) = (wanted.rounds, Instant::now(), 0.0_f64);
    let mut failures: Vec<Option<String>> = vec![None; orders.len()];
    let (mut quiet, mut noisy) = (Vec::new(), Vec::new());
    while quiet.len() < count && quiet.len() + noisy.len() < TRIES * count {
        let number = quiet.len() + noisy.len();
        let round_start = Instant::now();
        if wanted.within.is_some_and(|within| number > 0 && start.elapsed().as_secs_f64() + longest > within) {
            count = number.min(count);
            break;
        }
        let mut round = Round { outcomes: vec![None; orders.len()], noise: 0.0 };
        for turn in 0..orders.len() {
            stop::check()?;
            let index = (number + turn) % orders.len();
            if failures[index].is_some() {
                continue;
            }
            let order = Order { seed: number as u64 + 1, ..orders[index].clone() };
            // What does not hold now may hold in the next round.
            if let Err(why) = place.prepare(order.contender) {
                println!("lost: {} in round {}: {why}", order.contender.name(), number + 1);
                continue;
            }
            let neighbours = Neighbours::watch();
            match child::start(&order, vars) {
                Ok(outcome) => round.outcomes[index] = Some(outcome),
                Err(error) => failures[index] = Some(error),
            }
            round.noise = round.noise.max(neighbours.share());
        }
        longest = longest.max(round_start.elapsed().as_secs_f64());
        if round.noise > NOISE { noisy.push(round) } else { quiet.push(round) }
    }
    // Too few quiet ones: the least noisy fill up, and the table shows how noisy they were.
    noisy.sort_by(|a: &Round, b: &Round| a.noise.total_cmp(&b.noise));
    let missing = count - quiet.len();
    quiet.extend(noisy.into_iter().take(missing));
    Ok(Rounds { rounds: quiet, failures })
}
