//! The order of a period: proportions that hold at every prefix.
//!
//! This is the chairman assignment problem, solved as by R. Tijdeman (1980): of the children whose share has run ahead
//! of them far enough, the one comes that would be the first to fall behind too far. After any number of steps each of
//! `k` children is then within 1 - 1/(2k - 2) of its share, which for some proportions is the least that can be had.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// One step of a period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Whose turn it is.
    pub(super) child: u32,
    /// How many it has had before in this period.
    pub(super) before: u32,
}

/// The turns of a period in which each child comes as often as its count says. The counts' sum is at most 2^20.
pub(super) fn turns(counts: &[u32]) -> Vec<Turn> {
    let steps = counts.iter().map(|&count| u64::from(count)).sum();
    let present = counts.iter().filter(|count| **count > 0).count().max(2) as u64;
    let rule = Rule { steps, spread: 2 * present - 2 };
    // Turns that may not be taken yet, by the step from which on they may; and those that may, the most urgent first.
    let mut early = BinaryHeap::new();
    let mut ready = BinaryHeap::new();
    for (child, &count) in (0_u32..).zip(counts) {
        if count > 0 {
            early.push(Reverse((rule.release(0, count), child, 0_u32)));
        }
    }
    let mut turns = Vec::with_capacity(steps as usize);
    for step in 1..=steps {
        // By the theorem there is one that is ready at each step.
        while early.peek().is_some_and(|Reverse((release, ..))| *release <= step || ready.is_empty()) {
            if let Some(Reverse((_, child, before))) = early.pop() {
                ready.push(Reverse(rule.deadline(child, before, counts[child as usize])));
            }
        }
        let Some(Reverse(Deadline { child, before, count, .. })) = ready.pop() else { break };
        turns.push(Turn { child, before });
        if before + 1 < count {
            early.push(Reverse((rule.release(before + 1, count), child, before + 1)));
        }
    }
    turns
}

/// Tijdeman's rule in whole numbers: below 2^62 with no more than 2^20 steps and as many children.
struct Rule {
    steps: u64,
    /// 2k - 2.
    spread: u64,
}

impl Rule {
    /// The first step at which a child's share is 1/(2k - 2) ahead of what it has had before.
    fn release(&self, before: u32, count: u32) -> u64 {
        (self.steps * (1 + u64::from(before) * self.spread)).div_ceil(u64::from(count) * self.spread)
    }

    /// When its share would be 1 - 1/(2k - 2) ahead.
    fn deadline(&self, child: u32, before: u32, count: u32) -> Deadline {
        Deadline { when: u64::from(before) * self.spread + self.spread - 1, count, child, before }
    }
}

/// `when / count` on a scale that all children of a period share.
struct Deadline {
    when: u64,
    count: u32,
    child: u32,
    before: u32,
}

impl Ord for Deadline {
    fn cmp(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (self.when * u64::from(other.count), other.when * u64::from(self.count));
        ours.cmp(&theirs).then(self.child.cmp(&other.child))
    }
}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Deadline {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Deadline {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// In whole numbers: after each step, of each child, |had - step * count / steps| <= 1 - 1/(2k - 2).
    fn check(counts: &[u32]) {
        let turns = turns(counts);
        let steps: i128 = counts.iter().map(|&count| i128::from(count)).sum();
        assert_eq!(turns.len() as i128, steps);
        let present = counts.iter().filter(|count| **count > 0).count().max(2) as i128;
        let spread = 2 * present - 2;
        let mut had = vec![0_i128; counts.len()];
        for (step, turn) in (1..).zip(&turns) {
            assert_eq!(i128::from(turn.before), had[turn.child as usize]);
            had[turn.child as usize] += 1;
            for (had, &count) in had.iter().zip(counts) {
                let off = (had * steps - step * i128::from(count)).abs();
                assert!(off * spread <= steps * (spread - 1), "{counts:?}: after {step} steps {off}/{steps}");
            }
        }
        // The next period begins as this one did.
        assert!(had.iter().zip(counts).all(|(had, count)| *had == i128::from(*count)));
    }

    #[test]
    fn odd_proportions_hold_at_every_prefix() {
        let cases: [&[u32]; 9] = [
            &[1],
            &[7],
            &[0, 3, 0],
            &[1, 1],
            &[7, 2, 1],
            &[1, 1, 1, 997],
            &[1000, 1],
            &[1, 2, 4, 8, 16, 32, 64, 128, 256],
            &[5; 40],
        ];
        cases.into_iter().for_each(check);
    }

    #[test]
    fn the_longest_period_overflows_nothing() {
        // The more children, the fewer turns each may have: the product is largest in the middle.
        for children in [2_u64, 1 << 10, 1 << 19, 1 << 20] {
            let rule = Rule { steps: 1 << 20, spread: 2 * children - 2 };
            let count = ((1 << 20) - children + 1) as u32;
            let last = rule.deadline(0, count - 1, count);
            assert!(rule.release(count - 1, count) <= rule.steps);
            assert!(last.when.checked_mul(u64::from(count)).is_some());
        }
        let mut counts = vec![1_u32; 1 << 10];
        counts[7] = (1 << 20) - (1 << 10) + 1;
        assert_eq!(turns(&counts).len(), 1 << 20);
    }

    proptest! {
        #[test]
        fn proportions_hold_at_every_prefix(counts in prop::collection::vec(0_u32..200, 1..12)) {
            prop_assume!(counts.iter().any(|count| *count > 0));
            check(&counts);
        }
    }
}
