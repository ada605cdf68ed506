//! How much of a long suite is run. Each runs a little of itself by default; all of it with `FOREBAY_LONG_TESTS=1`, as
//! `.ci/run` does.

/// Rounds, seeds or cases: `short` by default.
pub fn of(short: u32, long: u32) -> u32 {
    match std::env::var("FOREBAY_LONG_TESTS") {
        Ok(value) if value == "1" => long,
        _ => short,
    }
}

/// The rows of a table that are tried: every `nth` by default, from the first on, and all in the long suites.
pub fn rows<T>(rows: impl IntoIterator<Item = T>, nth: u32) -> impl Iterator<Item = T> {
    rows.into_iter().step_by(of(nth, 1) as usize)
}
