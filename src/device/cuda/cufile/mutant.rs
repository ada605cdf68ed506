//! Mistakes that tests plant, to show that they would be caught.

use std::sync::OnceLock;

/// The environment variable that names one.
pub(super) const VARIABLE: &str = "FOREBAY_MUTANT";
pub(super) const SHORT_IS_WHOLE: &str = "short cuFile read taken as whole";
pub(super) const FAILED_IS_IGNORED: &str = "a failed batch entry ignored";

/// Whether the mistake is planted in this process.
pub(super) fn is_planted(mistake: &str) -> bool {
    static PLANTED: OnceLock<Option<String>> = OnceLock::new();
    PLANTED.get_or_init(|| std::env::var(VARIABLE).ok()).as_deref() == Some(mistake)
}
