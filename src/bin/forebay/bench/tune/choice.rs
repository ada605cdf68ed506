//! Which of some candidates is chosen.

use forebay::ReaderSettings;

use super::median;
use crate::bench::compare::SIGNIFICANT;

/// Candidates so near to the best one are as good: of them the one that takes least is chosen.
const AS_GOOD: f64 = 0.98;

/// Of rates that have nothing to do with each other: their geometric mean, in which a tenth more of one weighs as a tenth more of
/// another, however fast they are.
pub fn score(rates: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = rates.len().max(1) as f64;
    (rates.map(|rate| rate.max(1.0).ln()).sum::<f64>() / count).exp()
}

/// By `scores`, those of each candidate in each round. They are held against `incumbent`'s round by round, since what the machine
/// does changes between rounds; it must be one of them.
pub fn choose(field: &[ReaderSettings], scores: &[Vec<f64>], incumbent: ReaderSettings) -> ReaderSettings {
    let Some(place) = field.iter().position(|settings| *settings == incumbent) else { return incumbent };
    let gain = |of: &Vec<f64>| {
        let ratios: Vec<f64> = of.iter().zip(&scores[place]).map(|(ours, its)| ours / its).collect();
        median(&ratios)
    };
    let gains: Vec<f64> = scores.iter().map(gain).collect();
    let most = gains.iter().copied().fold(0.0, f64::max);
    let good = field.iter().zip(&gains).filter(|(_, gain)| **gain >= most * AS_GOOD);
    good.map(|(settings, _)| *settings).min_by_key(taken).unwrap_or(incumbent)
}

/// Whether the best stands its trial against the defaults: better by more than chance; or as good, and it takes less. `p` is how
/// likely the difference is by chance, `None` with too few rounds to tell.
pub fn stands(best: ReaderSettings, defaults: ReaderSettings, ratio: f64, p: Option<f64>) -> bool {
    match taken(&best) < taken(&defaults) {
        true => ratio >= AS_GOOD,
        false => ratio > 1.0 && p.is_some_and(|p| p < SIGNIFICANT),
    }
}

/// What settings take: processors first, then what is under way at once.
fn taken(settings: &ReaderSettings) -> (bool, u32, u64) {
    (settings.iopoll, settings.rings, u64::from(settings.depth) * settings.chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(depth: u32) -> ReaderSettings {
        let mut settings = ReaderSettings::DEFAULT;
        settings.depth = depth;
        settings
    }

    #[test]
    fn the_fastest_is_chosen_and_of_equals_the_one_that_takes_least() {
        let field = [depth(8), depth(32), depth(64)];
        let choose = |scores: [&[f64]; 3]| choose(&field, &scores.map(<[f64]>::to_vec), depth(32)).depth;
        assert_eq!(choose([&[1.0, 1.0, 1.0], &[2.0, 2.0, 2.0], &[4.0, 4.0, 4.0]]), 64);
        assert_eq!(choose([&[1.0, 1.0, 1.0], &[2.0, 2.0, 2.0], &[2.02, 2.02, 2.02]]), 32);
        assert_eq!(choose([&[1.99, 1.99, 1.99], &[2.0, 2.0, 2.0], &[2.0, 2.0, 2.0]]), 8);
    }

    #[test]
    fn a_round_in_which_the_machine_is_slow_counts_for_all_alike() {
        let field = [depth(8), depth(32), depth(64)];
        let scores = [vec![10.0, 1.0, 1.0], vec![20.0, 2.0, 2.0], vec![30.0, 3.0, 3.0]];
        assert_eq!(choose(&field, &scores, depth(32)).depth, 64);
    }

    #[test]
    fn what_takes_more_than_the_defaults_must_be_better_by_more_than_chance() {
        let stands = |best: u32, ratio, p| stands(depth(best), depth(32), ratio, p);
        assert!(stands(64, 1.2, Some(0.01)));
        assert!(!stands(64, 1.2, None), "too few rounds tell nothing");
        assert!(!stands(64, 1.2, Some(0.2)) && !stands(64, 0.99, Some(0.01)));
        assert!(stands(8, 0.99, Some(0.9)) && stands(8, 1.2, Some(0.01)));
        assert!(!stands(8, 0.9, Some(0.9)));
    }

    #[test]
    fn a_score_weighs_slow_and_fast_work_alike() {
        let score = |rates: &[f64]| score(rates.iter().copied());
        assert!((score(&[100.0, 1e9]) - score(&[200.0, 5e8])).abs() < 1e-3);
        assert!((score(&[7.0]) - 7.0).abs() < 1e-9);
    }
}
