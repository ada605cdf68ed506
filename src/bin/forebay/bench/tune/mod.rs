//! `forebay bench --tune`: which settings of a reader are best for a profile's reads, found by trying.
//!
//! One setting after the other is varied, with the others as they are best so far (coordinate descent), until none of them
//! makes it better or the time is over. Candidates run in turns, so that what the machine does meanwhile falls on all of
//! them, and the best is held against the defaults once more at the end: who wins by luck loses there.

mod candidates;
mod choice;
mod tuned;

use std::path::Path;
use std::time::{Duration, Instant};

use forebay::ReaderSettings;
use forebay::tuning::{Key, Profile};

use self::candidates::{Dimension, Plan};
use self::tuned::Settings;
pub use self::tuned::Tuned;
use super::compare;
use super::contest::{Contest, SHORTEST, Turn};
use super::measure::Run;
use super::row::median;
use crate::args::{self, Common};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::stderr::Progress;

/// Rounds in which candidates run before one is chosen, and of the best against the defaults at the end.
const ROUNDS: usize = 3;
const LAST_ROUNDS: usize = 7;

/// The search, with what it measures in `contest`; `None` where it was interrupted.
pub fn tune(
    common: &Common,
    bench: &args::Bench,
    contest: &mut Contest,
    time: Duration,
    interrupt: &Interrupt,
) -> Result<Option<Tuned>, Failure> {
    let place = bench.path.as_deref().unwrap_or(Path::new("."));
    let key = Key::of(place, &contest.ends[0].device).map_err(Failure::of)?;
    let named = |failure| match failure {
        Failure::Error(why) => Failure::Error(format!("{}: cannot be tuned for: {why}", contest.target.name)),
        failure => failure,
    };
    let plan = Plan::new(common, bench, contest).map_err(named)?;
    contest.measure_ceilings();
    let mut search = Search::new(plan, bench, time);
    contest.rounds = search.rounds;
    let Some(best) = search.best(contest, interrupt)? else { return Ok(None) };
    let Some(against) = search.against_defaults(contest, best, interrupt)? else { return Ok(None) };
    let defaults = search.plan.defaults;
    let stands = choice::stands(best, defaults, against.ratio, against.p);
    let (settings, against) = if stands { (best, against) } else { (defaults, Against::EQUAL) };
    let profile = Profile::new(key, settings, bench.profile.to_string());
    Ok(Some(Tuned::new(profile, defaults, against)))
}

/// The best against the defaults, in turns.
struct Against {
    /// The median of the ratios, round by round, and the least and the most.
    ratio: f64,
    least: f64,
    most: f64,
    /// How likely so great a difference is by chance; `None` with too few rounds to tell.
    p: Option<f64>,
}

impl Against {
    const EQUAL: Self = Self { ratio: 1.0, least: 1.0, most: 1.0, p: None };
}

struct Search {
    plan: Plan,
    rounds: usize,
    last_rounds: usize,
    each: Duration,
    /// When no more is begun: the rest is for the last rounds.
    until: Instant,
    bar: Progress,
}

impl Search {
    fn new(plan: Plan, bench: &args::Bench, time: Duration) -> Self {
        let start = plan.defaults;
        let fields = Dimension::ALL.iter().map(|&dimension| plan.field(dimension, start).len());
        let once: usize = fields.filter(|&len| len > 1).sum();
        let works = plan.works.len();
        // Once over all, half of that again, and the last rounds.
        let runs = |rounds: usize, last_rounds: usize| (once * rounds * 3 / 2 + 2 * last_rounds) * works;
        let mut rounds = [bench.rounds.unwrap_or(ROUNDS), bench.rounds.unwrap_or(LAST_ROUNDS)];
        // Where time is short: one round tells something, too.
        while bench.rounds.is_none() && rounds != [1, 1] && SHORTEST * runs(rounds[0], rounds[1]) as u32 > time {
            rounds = rounds.map(|rounds| (rounds - 1).max(1));
        }
        let runs = runs(rounds[0], rounds[1]);
        let each = (time / runs.max(1) as u32).max(SHORTEST);
        let last = each * (2 * rounds[1] * works) as u32;
        let until = Instant::now() + time.saturating_sub(last);
        Self { plan, rounds: rounds[0], last_rounds: rounds[1], each, until, bar: Progress::of_steps(runs as u64) }
    }

    fn best(&mut self, contest: &mut Contest, interrupt: &Interrupt) -> Result<Option<ReaderSettings>, Failure> {
        let mut best = self.plan.defaults;
        // How many dimensions in a row changed nothing: with all of them so, it is over.
        let mut settled = 0;
        for (tried, dimension) in Dimension::ALL.into_iter().cycle().enumerate() {
            if settled == Dimension::ALL.len() {
                break;
            }
            let field = self.possible(contest, dimension, best)?;
            if field.len() < 2 {
                settled += 1;
                continue;
            }
            // Each has its turn, however short the time.
            if tried >= Dimension::ALL.len() && Instant::now() >= self.until {
                contest.warnings.say(format!(
                    "the time was over before {dimension} was tried once more beside all that is best now; give more \
                     (--seconds), or less to try (--depth, --threads, --chunk)"
                ));
                break;
            }
            let Some(scores) = self.rounds_of(contest, &field, self.rounds, interrupt)? else { return Ok(None) };
            let winner = choice::choose(&field, &scores, best);
            settled = if winner == best { settled + 1 } else { 1 };
            best = winner;
        }
        Ok(Some(best))
    }

    /// Candidates that can be had on this machine; why others cannot is a warning.
    fn possible(
        &self,
        contest: &mut Contest,
        dimension: Dimension,
        best: ReaderSettings,
    ) -> Result<Vec<ReaderSettings>, Failure> {
        let mut possible = Vec::new();
        for settings in self.plan.field(dimension, best) {
            match self.plan.entries(contest, &settings) {
                Ok(_) => possible.push(settings),
                Err(Failure::Error(why)) if settings != best => {
                    contest.warnings.say_of_named(Settings::of(settings).in_words(), format!("not tried: {why}"));
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(possible)
    }

    fn against_defaults(
        &mut self,
        contest: &mut Contest,
        best: ReaderSettings,
        interrupt: &Interrupt,
    ) -> Result<Option<Against>, Failure> {
        let defaults = self.plan.defaults;
        if best == defaults {
            return Ok(Some(Against::EQUAL));
        }
        let Some(scores) = self.rounds_of(contest, &[best, defaults], self.last_rounds, interrupt)? else {
            return Ok(None);
        };
        let ratios: Vec<f64> = scores[0].iter().zip(&scores[1]).map(|(ours, usual)| ours / usual).collect();
        Ok(Some(Against {
            ratio: median(&ratios),
            least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            most: ratios.iter().copied().fold(0.0, f64::max),
            p: compare::likely(&scores[1], &scores[0]),
        }))
    }

    /// Runs all of a field in turns: of each candidate its score in each round. `None` where it was interrupted.
    fn rounds_of(
        &mut self,
        contest: &mut Contest,
        field: &[ReaderSettings],
        rounds: usize,
        interrupt: &Interrupt,
    ) -> Result<Option<Vec<Vec<f64>>>, Failure> {
        let mut entries: Vec<Vec<usize>> = Vec::new();
        for settings in field {
            entries.push(self.plan.entries(contest, settings)?);
        }
        let mut all: Vec<usize> = entries.iter().flatten().copied().collect();
        all.sort_unstable();
        // What two candidates have in common runs once.
        all.dedup();
        let (mut measured, mut lost) = (0, 0);
        while measured < rounds {
            match self.round_of(contest, &all, (measured + lost) as u64, interrupt)? {
                Turn::Taken if interrupt.has_come() => {
                    contest.interrupted = true;
                    return Ok(None);
                }
                Turn::Taken => measured += 1,
                // All run in turns, or none: what one lost the others give up.
                Turn::Lost(why) if lost == rounds => {
                    let name = &contest.target.name;
                    return Err(Failure::Error(format!("{name}: {} rounds were lost: {why}", lost + 1)));
                }
                Turn::Lost(_) => lost += 1,
            }
        }
        let rates = |number: usize| {
            let runs = &contest.entries[number].runs;
            runs[runs.len() - rounds..].iter().map(Run::rate).collect::<Vec<f64>>()
        };
        let scores = entries.iter().map(|numbers| {
            let rates: Vec<Vec<f64>> = numbers.iter().map(|&number| rates(number)).collect();
            (0..rounds).map(|round| choice::score(rates.iter().map(|rates| rates[round]))).collect()
        });
        Ok(Some(scores.collect()))
    }

    /// One run of each of `all`; where one is lost, those before it are taken back.
    fn round_of(
        &self,
        contest: &mut Contest,
        all: &[usize],
        round: u64,
        interrupt: &Interrupt,
    ) -> Result<Turn, Failure> {
        for (place, &number) in all.iter().enumerate() {
            if interrupt.has_come() {
                break;
            }
            if let Turn::Lost(why) = contest.turn(number, round, self.each, interrupt)? {
                all[..place].iter().for_each(|&number| drop(contest.entries[number].runs.pop()));
                return Ok(Turn::Lost(why));
            }
            self.bar.advance(1);
        }
        Ok(Turn::Taken)
    }
}
