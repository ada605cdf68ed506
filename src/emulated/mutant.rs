//! Mistakes that tests plant in the code itself, to show that they would be caught.

use std::sync::OnceLock;

/// The environment variable that names one.
pub(super) const VARIABLE: &str = "FOREBAY_MUTANT";

/// A slot is lent again before the event behind its copy has passed.
pub(crate) const RECYCLED_EARLY: &str = "a slot recycled before its event";
/// Copies remember where they go, and do not keep that memory.
pub(crate) const FREED_IN_FLIGHT: &str = "device memory freed with a copy in flight";
/// The threads that read and copy make no context current.
pub(crate) const NO_CONTEXT: &str = "reads without a current context";
/// The stream is destroyed, and what its copies use let go of, before they are done.
pub(crate) const DROPPED_EARLY: &str = "the carrier's stream dropped early";
/// A batch's memory is lent again at once, whatever stream uses it.
pub(crate) const REUSED_EARLY: &str = "a batch's memory lent again before its consumer's stream has passed";
pub(crate) const SHORT_IS_WHOLE: &str = "short cuFile read taken as whole";
pub(crate) const FAILED_IS_IGNORED: &str = "a failed batch entry ignored";

/// Whether the mistake is planted in this process.
pub(crate) fn is_planted(mistake: &str) -> bool {
    static PLANTED: OnceLock<Option<String>> = OnceLock::new();
    PLANTED.get_or_init(|| std::env::var(VARIABLE).ok()).as_deref() == Some(mistake)
}
