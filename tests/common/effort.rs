//! How much of a long suite is run. Each runs a little of itself by default; all of it with `FOREBAY_LONG_TESTS=1`, as
//! `.ci/run` does.

/// Rounds, seeds or cases: `short` by default.
pub fn of(short: u32, long: u32) -> u32 {
    match std::env::var("FOREBAY_LONG_TESTS") {
        Ok(value) if value == "1" => long,
        _ => short,
    }
}
