//! The command line of the benchmark.

use std::path::PathBuf;

pub const USAGE: &str = "\
usage: cargo bench --bench checkpoint -- [options]

  --disk            only on disk (default: disk and RAM device)
  --ram             only the RAM block device (needs root and zram)
  --dir DIR         where files on disk lie (default: the target directory's tmp)
  --case NAME       model or shards (default: both); may be repeated
  --rounds N        rounds in which every contender has one turn (default 5)
  --size BYTES      bytes of the model (default 4 GiB); the shards have half of that
  --peers PYTHON    a Python that has benches/peers/requirements.txt (default: $FOREBAY_PEERS); without, no peers
  --only NAME       only contenders whose name holds this; may be repeated
  --json FILE       append one JSON object per contender and case to FILE";

/// What was asked for.
#[derive(Debug)]
pub struct Args {
    pub disk: bool,
    pub ram: bool,
    pub dir: PathBuf,
    pub cases: Vec<String>,
    pub rounds: usize,
    pub size: u64,
    pub peers: Option<PathBuf>,
    pub only: Vec<String>,
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
            size: 4 << 30,
            peers: std::env::var_os("FOREBAY_PEERS").map(PathBuf::from),
            only: Vec::new(),
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
                "--rounds" => parsed.rounds = positive(&arg, &value()?)? as usize,
                "--size" => parsed.size = positive(&arg, &value()?)?.next_multiple_of(1 << 26),
                "--peers" => parsed.peers = Some(PathBuf::from(value()?)),
                "--only" => parsed.only.push(value()?),
                "--json" => parsed.json = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown argument {arg}")),
            }
        }
        if let Some(unknown) = parsed.cases.iter().find(|case| !["model", "shards"].contains(&case.as_str())) {
            return Err(format!("no case is called {unknown}"));
        }
        if !parsed.disk && !parsed.ram {
            (parsed.disk, parsed.ram) = (true, true);
        }
        if parsed.cases.is_empty() {
            parsed.cases = vec!["model".into(), "shards".into()];
        }
        Ok(parsed)
    }
}

fn positive(arg: &str, text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{arg} needs a whole number above 0, not {text}")),
    }
}
