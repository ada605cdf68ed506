//! The command line of the benchmark.

use std::path::PathBuf;

pub const USAGE: &str = "\
usage: cargo bench --bench storage -- [options]

  --disk            only the file on disk (default: disk and RAM device)
  --ram             only the RAM block device (needs root and zram)
  --dir DIR         where the file on disk lies (default: the target directory's tmp)
  --case NAME       a case or a group: targets (default), chunks, pread, all; may be repeated
  --rounds N        pairs of runs per case (default 5)
  --seconds S       aimed length of one run (default 3)
  --mode MODE       our reads: auto (default), direct or buffered
  --fio-tuned       fio at its best instead of by default: batched submission, no clock readings, and buffers in
                    huge pages where enough are reserved (sysctl vm.nr_hugepages=40)
  --json FILE       append one JSON object per row to FILE
  --list            name the cases and stop";

/// What was asked for.
#[derive(Debug)]
pub struct Args {
    pub disk: bool,
    pub ram: bool,
    pub dir: PathBuf,
    pub cases: Vec<String>,
    pub rounds: usize,
    pub seconds: f64,
    pub mode: String,
    pub fio_tuned: bool,
    pub json: Option<PathBuf>,
    pub list: bool,
}

impl Args {
    /// Reads the arguments after the program's name.
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self {
            disk: false,
            ram: false,
            dir: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            cases: Vec::new(),
            rounds: 5,
            seconds: 3.0,
            mode: "auto".into(),
            fio_tuned: false,
            json: None,
            list: false,
        };
        let mut args = args;
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
                "--mode" => parsed.mode = value()?,
                "--fio-tuned" => parsed.fio_tuned = true,
                "--json" => parsed.json = Some(PathBuf::from(value()?)),
                "--list" => parsed.list = true,
                _ => return Err(format!("unknown argument {arg}")),
            }
        }
        if !parsed.disk && !parsed.ram {
            parsed.disk = true;
            parsed.ram = true;
        }
        if parsed.cases.is_empty() {
            parsed.cases.push("targets".into());
        }
        Ok(parsed)
    }
}

fn positive<T: std::str::FromStr + PartialOrd + Default>(arg: &str, text: &str) -> Result<T, String> {
    match text.parse::<T>() {
        Ok(number) if number > T::default() => Ok(number),
        _ => Err(format!("{arg} needs a number above 0, not {text}")),
    }
}
