//! What the script says: settings, scripted failures and stalls, and how often each call was made.

/// What the script wants of this call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Go,
    /// Return this code and do nothing.
    Fail(i32),
    /// Move at most so many bytes.
    Short(u64),
}

/// Counts the call, sleeps out a scripted stall and says whether it may go on. Every exported function begins with it.
pub fn begin(_name: &'static str) -> Verdict {
    Verdict::Go
}

/// The value of a key of the script.
pub fn setting(_name: &str) -> Option<String> {
    None
}
