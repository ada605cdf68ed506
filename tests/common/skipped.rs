//! What was not tested here. A test that skips counts as passed and its output is hidden, so each skip is also written to the
//! file that `FOREBAY_SKIPPED` names.
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Says that a test, or a part of it, cannot run here.
pub fn skipped(why: impl Display) {
    let why = why.to_string().replace('\n', " ");
    eprintln!("skipped: {why}");
    let Some(path) = std::env::var_os("FOREBAY_SKIPPED") else { return };
    let thread = std::thread::current();
    let line = format!("{}: {}\n", thread.name().unwrap_or("a test"), why.trim());
    // One write each: tests of several processes append at once.
    let written =
        OpenOptions::new().create(true).append(true).open(&path).and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
