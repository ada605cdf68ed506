use std::env;
use std::path::PathBuf;

pub const USAGE: &str = "\
usage: cargo bench --bench indexing -- [--members N] [--rounds N] [--dir FOLDER]

  --members N    members of the archive of small ones, and ten times those of the other (1000000)
  --rounds N     pairs of runs (3)
  --dir FOLDER   where the archives are written: 1.5 GB for a million (the folder for temporary files)

FOREBAY_PYTHON names the Python to compare with (python3).";

pub struct Args {
    pub members: u64,
    pub rounds: u32,
    pub dir: PathBuf,
    pub python: PathBuf,
}

impl Args {
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let python = env::var_os("FOREBAY_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
        let mut args = Self { members: 1_000_000, rounds: 3, dir: env::temp_dir(), python };
        while let Some(flag) = arguments.next() {
            // What cargo bench adds.
            if flag == "--bench" {
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{flag} has no value"))?;
            let number = || value.parse().map_err(|_| format!("{flag} {value}: not a number"));
            match flag.as_str() {
                "--members" => args.members = number()?,
                "--rounds" => args.rounds = u32::try_from(number()?).map_err(|_| "too many rounds")?,
                "--dir" => args.dir = value.into(),
                _ => return Err(format!("{flag} is no option")),
            }
        }
        Ok(args)
    }
}
