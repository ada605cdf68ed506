//! The command line.

use std::path::PathBuf;
use std::time::Duration;

pub const USAGE: &str = "\
usage: cargo run --release --example train -- [--seconds S] [TEXT]

  --seconds S   how long to train (40)
  TEXT          a file of text, a sample a line (datasets/kjv.txt)";

pub struct Args {
    pub text: PathBuf,
    pub time: Duration,
}

impl Args {
    /// Reads the arguments after the program's name; `None` where only the usage was asked for.
    pub fn parse(args: impl Iterator<Item = std::ffi::OsString>) -> Result<Option<Self>, String> {
        let text = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/datasets/kjv.txt"));
        let mut parsed = Self { text, time: Duration::from_secs(40) };
        let mut args = args;
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("--help" | "-h") => return Ok(None),
                Some("--seconds") => {
                    let seconds = args.next().and_then(|value| value.to_str()?.parse().ok());
                    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                    parsed.time = time.ok_or("--seconds needs a number of seconds")?;
                }
                Some(flag) if flag.starts_with('-') => return Err(format!("there is no {flag}\n{USAGE}")),
                _ => parsed.text = PathBuf::from(arg),
            }
        }
        Ok(Some(parsed))
    }
}
