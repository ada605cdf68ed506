//! Says what a stalled pipeline is waiting for, and ends it when the deadline has passed: by a thread of its own, since
//! the pipeline's may be what is stuck.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::error::{LoaderFault, Place};
use super::shared::{Shared, State};
use super::stage::Stage;

#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// After this long without a batch a warning says why, and after twice that the next.
    pub(super) warns_after: Duration,
    /// After this long the consumer gets an error.
    pub(super) deadline: Option<Duration>,
}

/// What is waited for.
struct Stall {
    stage: Stage,
    path: Option<PathBuf>,
    offset: Option<u64>,
    /// How long it has been there.
    age: Duration,
}

pub(super) fn watch(shared: &Arc<Shared>, patience: Patience) {
    let first_look = patience.deadline.map_or(patience.warns_after, |deadline| deadline.min(patience.warns_after));
    let tick = (first_look / 8).clamp(Duration::from_millis(5), Duration::from_secs(1));
    let (mut stalled, mut next_warning) = (None, patience.warns_after);
    let mut state = shared.state();
    while !shared.is_closed() {
        if let Some(since) = state.waiting_since.filter(|_| state.is_open()) {
            if stalled != Some(since) {
                (stalled, next_warning) = (Some(since), patience.warns_after);
            }
            let waited = since.elapsed();
            if let Some(deadline) = patience.deadline.filter(|deadline| waited >= *deadline) {
                let Stall { stage, path, offset, .. } = stall(&state);
                let error = state.error_here(LoaderFault::Stalled { stage, path, offset, age: deadline.max(waited) });
                drop(state);
                shared.end(Some(error));
                return;
            }
            if waited >= next_warning {
                next_warning *= 2;
                let stall = stall(&state);
                // A subscriber may take its time, or use this loader.
                drop(state);
                tracing::warn!("the loader has given nothing for {:.1} s: {stall}", waited.as_secs_f64());
                state = shared.state();
                continue;
            }
        }
        state = shared.watch.wait_timeout(state, tick).unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn stall(state: &State) -> Stall {
    let now = Instant::now();
    // The pipeline's thread opens files itself: while it does, nothing else it could be told is of use.
    if let Some((path, since)) = &state.opening {
        let age = now.saturating_duration_since(*since);
        return Stall { stage: Stage::Plan, path: Some(path.clone()), offset: None, age };
    }
    let doing = &state.doing;
    let oldest = doing.watches.iter().find_map(|watch| watch.oldest()).or_else(|| doing.first.clone());
    let (path, offset) = oldest.map_or((None, None), |(path, offset)| (Some(path), Some(offset)));
    Stall { stage: doing.stage, path, offset, age: now.saturating_duration_since(doing.since) }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = self.age.as_secs_f64();
        match self.stage {
            Stage::Memory => write!(
                f,
                "it waits for memory that batches hold which were handed out, for {age:.1} s; drop some, or raise the budget"
            ),
            stage => write!(f, "{}in stage {stage} for {age:.1} s", Place(&self.path, self.offset)),
        }
    }
}
