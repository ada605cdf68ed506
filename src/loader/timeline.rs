use std::time::{Duration, Instant};

use super::stage::Stage;

/// When a window came to each stage.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    /// In the order of time. The last one lasts still.
    steps: Vec<(Stage, Instant)>,
}

impl Timeline {
    pub(super) fn begin(at: Instant) -> Self {
        let mut steps = Vec::with_capacity(6);
        steps.push((Stage::Plan, at));
        Self { steps }
    }

    /// From now on it is in `stage`.
    pub(super) fn enter(&mut self, stage: Stage) {
        if self.stage() != stage {
            tracing::trace!("{stage}");
            self.steps.push((stage, Instant::now()));
        }
    }

    /// It has been in `stage` since then, or since it came to the stage before, where that was later.
    pub(super) fn enter_at(&mut self, stage: Stage, at: Instant) {
        let at = self.since().map_or(at, |since| since.max(at));
        self.steps.push((stage, at));
    }

    pub(super) fn stage(&self) -> Stage {
        self.steps.last().map_or(Stage::Plan, |(stage, _)| *stage)
    }

    /// Since when it is there.
    pub(super) fn since(&self) -> Option<Instant> {
        self.steps.last().map(|(_, since)| *since)
    }

    /// How long it was in each stage between two times.
    pub(super) fn between(&self, from: Instant, to: Instant) -> impl Iterator<Item = (Stage, Duration)> {
        self.steps.iter().enumerate().map(move |(i, &(stage, began))| {
            let ended = self.steps.get(i + 1).map_or(to, |(_, next)| *next);
            (stage, ended.min(to).saturating_duration_since(began.max(from)))
        })
    }

    /// How long it was in each stage that is over.
    pub(super) fn durations(&self) -> impl Iterator<Item = (Stage, Duration)> {
        self.steps.windows(2).map(|pair| (pair[0].0, pair[1].1.saturating_duration_since(pair[0].1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_shared_out_among_the_stages_it_was_spent_in() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let steps =
            vec![(Stage::Plan, at(0)), (Stage::Read, at(10)), (Stage::Transform, at(30)), (Stage::Ready, at(35))];
        let timeline = Timeline { steps };
        let shares: Vec<u128> = timeline.between(at(5), at(36)).map(|(_, share)| share.as_millis()).collect();
        assert_eq!(shares, [5, 20, 5, 1]);
        // Waited for before it was begun at all: that time is nobody's here.
        let shares: Vec<u128> = timeline.between(at(31), at(32)).map(|(_, share)| share.as_millis()).collect();
        assert_eq!(shares, [0, 0, 1, 0]);
        assert_eq!(timeline.durations().map(|(_, time)| time.as_millis()).sum::<u128>(), 35);
    }
}
