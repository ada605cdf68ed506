//! The command line of the benchmark.

use std::path::PathBuf;

use crate::rounds::Count;

pub const USAGE: &str = "\
usage: cargo bench --bench routes -- [options]

  --case NAME       routes (default): pinned copies, storage and every route, side by side
                    overlap: whether reads and copies take no longer than the slower of them, on a modelled link
                    floor: whether a carrier to the host is as fast as the reader under it
  --device DEVICE   host or cuda:N (default cuda:0, of the case routes)
  --path FILE       reads this file (default: one of its own)
  --dir DIR         where its own file lies (default: the target directory's tmp)
  --ram             its own file on a RAM block device (needs root and zram)
  --size BYTES      of its own file in --dir, as 4GiB (default 4GiB)
  --chunk BYTES     read before they are copied at once (default 4MiB)
  --depth N         reads in flight (default 32)
  --piece BYTES     reads pieces of that size in random order (default: one after the other)
  --shape TEXT      only shapes whose name holds that (overlap)
  --storage GBPS    holds storage to so many GB/s (overlap; needs root and a blkio control group)
  --link GBPS       the modelled link, may be repeated (overlap; default: half, once and twice what storage gives)
  --rounds N        rounds of all contenders (default 5)
  --seconds S       aimed length of one run (default 2)
  --within S        no round begins that would end later, from the first on (default: as many as asked for)
  --json FILE       append one JSON object per row to FILE";

/// What was asked for.
#[derive(Debug)]
pub struct Args {
    pub case: String,
    pub device: String,
    pub path: Option<PathBuf>,
    pub dir: PathBuf,
    pub ram: bool,
    pub size: u64,
    pub chunk: u64,
    pub depth: u32,
    pub piece: u64,
    pub shape: String,
    pub storage: Option<f64>,
    pub links: Vec<f64>,
    pub rounds: usize,
    pub seconds: f64,
    pub within: Option<f64>,
    pub json: Option<PathBuf>,
}

impl Args {
    pub fn count(&self) -> Count {
        Count { rounds: self.rounds, within: self.within }
    }

    /// Reads the arguments after the program's name.
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self {
            case: "routes".into(),
            device: "cuda:0".into(),
            path: None,
            dir: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            ram: false,
            size: 4 << 30,
            chunk: 4 << 20,
            depth: 32,
            piece: 0,
            shape: String::new(),
            storage: None,
            links: Vec::new(),
            rounds: 5,
            seconds: 2.0,
            within: None,
            json: None,
        };
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                // Cargo adds this one.
                "--bench" => {}
                "--case" => parsed.case = value()?,
                "--device" => parsed.device = value()?,
                "--path" => parsed.path = Some(PathBuf::from(value()?)),
                "--dir" => parsed.dir = PathBuf::from(value()?),
                "--ram" => parsed.ram = true,
                "--size" => parsed.size = bytes(&arg, &value()?)?,
                "--chunk" => parsed.chunk = bytes(&arg, &value()?)?,
                "--depth" => parsed.depth = positive(&arg, &value()?)?,
                "--piece" => parsed.piece = bytes(&arg, &value()?)?,
                "--shape" => parsed.shape = value()?,
                "--storage" => parsed.storage = Some(positive(&arg, &value()?)?),
                "--link" => parsed.links.push(positive(&arg, &value()?)?),
                "--rounds" => parsed.rounds = positive(&arg, &value()?)?,
                "--seconds" => parsed.seconds = positive(&arg, &value()?)?,
                "--within" => parsed.within = Some(positive(&arg, &value()?)?),
                "--json" => parsed.json = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown argument {arg}")),
            }
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

fn bytes(arg: &str, text: &str) -> Result<u64, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    let count: u64 = positive(arg, number)?;
    count.checked_mul(1 << shift).ok_or(format!("{arg}: {text} is too much"))
}
