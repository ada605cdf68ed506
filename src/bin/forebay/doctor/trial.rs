//! A reader with the budget asked for, built and dropped again: what a limit, a capability or a setting says of its memory
//! is not always what the kernel does.

use std::path::Path;

use forebay::{EngineChoice, PageKind, Reader, facts};

use crate::warnings;

/// What became of it.
#[derive(Debug, Default)]
pub struct Trial {
    /// Why nothing was tried, or failed before there was any memory.
    pub failed: Option<String>,
    /// Whether its memory was registered with a ring, or the error number; `None` where there was no ring.
    pub registered: Option<Result<(), Option<i32>>>,
    pub pages: Option<PageKind>,
    /// Bytes of huge pages that the process had by it, where the kernel tells.
    pub huge_bytes: Option<u64>,
}

impl Trial {
    /// With io_uring where `uring` and the machine allow it.
    pub fn new(uring: bool, budget: u64) -> Self {
        // Memory that is not there would be taken from others first.
        let left = [facts::memory_available(facts::proc()), limit()].into_iter().flatten().min();
        if left.is_some_and(|left| left < budget) {
            return Self { failed: Some("not tried: the budget does not fit".into()), ..Self::default() };
        }
        let before = huge_bytes(facts::proc());
        let build = |engine| Reader::builder().engine(engine).budget(budget.max(LEAST)).prefault(true).build();
        let built = warnings::muted(|| match uring {
            true => build(EngineChoice::Uring).or_else(|_| build(EngineChoice::Pread)),
            false => build(EngineChoice::Pread),
        });
        let reader = match built {
            Ok(reader) => reader,
            Err(error) => return Self { failed: Some(error.to_string()), ..Self::default() },
        };
        let registered = reader.ring_features().map(|features| match features.fixed_buffers {
            true => Ok(()),
            false => Err(features.fixed_buffers_error),
        });
        let now = huge_bytes(facts::proc());
        let huge_bytes = now.zip(before).map(|(now, before)| now.saturating_sub(before));
        Self { failed: None, registered, pages: Some(reader.arena().page_kind()), huge_bytes }
    }
}

/// A reader has a page at least.
const LEAST: u64 = 64 << 10;

fn limit() -> Option<u64> {
    facts::memory_limit(facts::proc(), facts::sys()).map(|limit| limit.bytes)
}

/// Transparent huge pages of this process.
fn huge_bytes(proc: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(proc.join("self/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
