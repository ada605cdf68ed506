//! The command line of the benchmark.

use std::path::PathBuf;

use crate::data::UNIT;

pub const USAGE: &str = "\
usage: cargo bench --bench loader -- [options]

  --disk            only on disk (default: disk and RAM device)
  --ram             only the RAM block device (needs root and zram)
  --dir DIR         where files on disk lie (default: the target directory's tmp)
  --case NAME       records, tokens, whole-tokens, tar, stall, first, billion or cycles (default: all); may be repeated
  --rounds N        rounds in which every contender has one turn (default 5)
  --seconds S       aimed length of a run of fio, and of ours, which read as much (default 3)
  --size BYTES      bytes of the records, and as many of the archives (default 2 GiB; made a multiple of 75 MiB)
  --depth N         reads in flight, of fio and of ours (default 32)
  --budget BYTES    host memory of our loaders, in place of their default
  --prefetch N      the most batches ahead of our loaders, in place of as many as their memory allows
  --batch N         samples a batch, in place of the case's own number
  --python PATH     a Python that has benches/peers/requirements.txt (default: $FOREBAY_PEERS); without, no peers
  --only NAME       only contenders whose name holds this; may be repeated
  --fio-tuned       fio at its best instead of by default: batched submission, no clock readings, huge pages
  --json FILE       append one JSON object per contender and case to FILE";

pub const CASES: [&str; 8] = ["records", "tokens", "whole-tokens", "tar", "stall", "first", "billion", "cycles"];

/// What was asked for.
#[derive(Debug)]
pub struct Args {
    pub disk: bool,
    pub ram: bool,
    pub dir: PathBuf,
    pub cases: Vec<String>,
    pub rounds: usize,
    pub seconds: f64,
    pub size: u64,
    pub depth: u32,
    pub budget: Option<u64>,
    pub prefetch: Option<u64>,
    pub batch: Option<u64>,
    pub python: Option<PathBuf>,
    pub only: Vec<String>,
    pub fio_tuned: bool,
    pub json: Option<PathBuf>,
}

impl Args {
    /// Reads the arguments after the program's name.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self {
            disk: false,
            ram: false,
            dir: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            cases: Vec::new(),
            rounds: 5,
            seconds: 3.0,
            size: 2 << 30,
            depth: 32,
            budget: None,
            prefetch: None,
            batch: None,
            python: std::env::var_os("FOREBAY_PEERS").map(PathBuf::from),
            only: Vec::new(),
            fio_tuned: false,
            json: None,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                // Cargo adds this one.
                "--bench" => {}
                "--disk" => parsed.disk = true,
                "--ram" => parsed.ram = true,
                "--dir" => parsed.dir = PathBuf::from(value()?),
                "--case" => parsed.cases.push(value()?),
                "--rounds" => parsed.rounds = positive(&arg, &value()?)?,
                "--seconds" => parsed.seconds = positive(&arg, &value()?)?,
                "--size" => parsed.size = positive(&arg, &value()?)?,
                "--depth" => parsed.depth = positive(&arg, &value()?)?,
                "--budget" => parsed.budget = Some(positive(&arg, &value()?)?),
                "--prefetch" => parsed.prefetch = Some(positive(&arg, &value()?)?),
                "--batch" => parsed.batch = Some(positive(&arg, &value()?)?),
                "--python" => parsed.python = Some(PathBuf::from(value()?)),
                "--only" => parsed.only.push(value()?),
                "--fio-tuned" => parsed.fio_tuned = true,
                "--json" => parsed.json = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown argument {arg}")),
            }
        }
        if let Some(unknown) = parsed.cases.iter().find(|case| !CASES.contains(&case.as_str())) {
            return Err(format!("no case is called {unknown}"));
        }
        if !parsed.disk && !parsed.ram {
            (parsed.disk, parsed.ram) = (true, true);
        }
        if parsed.cases.is_empty() {
            parsed.cases = CASES.map(str::to_owned).into();
        }
        parsed.size = (parsed.size / UNIT).max(1) * UNIT;
        Ok(parsed)
    }

    pub fn wants(&self, case: &str) -> bool {
        self.cases.iter().any(|wanted| wanted == case)
    }
}

fn positive<T: std::str::FromStr + PartialOrd + Default>(arg: &str, text: &str) -> Result<T, String> {
    match text.parse::<T>() {
        Ok(number) if number > T::default() => Ok(number),
        _ => Err(format!("{arg} needs a number above 0, not {text}")),
    }
}
