//! What the doctor finds: one verdict on one subject.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Yes,
    No,
    /// Neither good nor bad, or not to be told from here.
    Note,
}

/// One line of the report. These five fields are the contract of `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub kind: &'static str,
    pub subject: String,
    pub verdict: Verdict,
    pub reason: Option<String>,
    pub fix: Option<String>,
}

impl Finding {
    pub fn yes(kind: &'static str, subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(kind, subject, Verdict::Yes, reason)
    }

    pub fn note(kind: &'static str, subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(kind, subject, Verdict::Note, reason)
    }

    /// A "no" never comes without its fix.
    pub fn no(
        kind: &'static str,
        subject: impl Into<String>,
        reason: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(kind, subject, Verdict::No, reason).fix(fix)
    }

    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    fn new(kind: &'static str, subject: impl Into<String>, verdict: Verdict, reason: impl Into<String>) -> Self {
        Self { kind, subject: subject.into(), verdict, reason: Some(reason.into()), fix: None }
    }
}
