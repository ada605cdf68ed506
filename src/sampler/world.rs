use std::ffi::OsString;

use super::error::SamplerError;

/// The processes that train together, and which of them this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    rank: u32,
    size: u32,
}

/// Of torchrun and most launchers, of Slurm's srun, and of Open MPI's mpirun.
const VARIABLES: [(&str, &str); 3] =
    [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")];

impl World {
    /// One process alone.
    pub fn single() -> Self {
        Self { rank: 0, size: 1 }
    }

    /// Rank `rank` of `size`, counted from 0.
    ///
    /// # Errors
    /// [`SamplerError::Rank`] where `rank` is not below `size`.
    pub fn new(rank: u32, size: u32) -> Result<Self, SamplerError> {
        match rank < size {
            true => Ok(Self { rank, size }),
            false => Err(SamplerError::Rank { rank, size }),
        }
    }

    /// What the launcher says in the environment: `RANK` and `WORLD_SIZE`, else `SLURM_PROCID` and `SLURM_NTASKS`, else
    /// `OMPI_COMM_WORLD_RANK` and `OMPI_COMM_WORLD_SIZE`; the first pair of which either is set counts. One process alone
    /// where none is.
    ///
    /// # Errors
    /// [`SamplerError::Variable`] where one of a pair is missing or no number, or the rank is not below the size.
    pub fn from_env() -> Result<Self, SamplerError> {
        Self::told(|name| std::env::var_os(name))
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The same world as its first rank sees it.
    pub(super) fn first(self) -> Self {
        Self { rank: 0, ..self }
    }

    fn told(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, SamplerError> {
        for pair in VARIABLES {
            let values = [pair.0, pair.1].map(|name| variable(name).map(|value| value.to_string_lossy().into_owned()));
            match values {
                [None, None] => {}
                [Some(rank), Some(size)] => return of_pair(pair, &rank, &size),
                [Some(rank), None] => return Err(wrong(pair, pair.0, &rank, format!("stands without {}", pair.1))),
                [None, Some(size)] => return Err(wrong(pair, pair.1, &size, format!("stands without {}", pair.0))),
            }
        }
        Ok(Self::single())
    }
}

fn of_pair(pair: (&'static str, &'static str), rank: &str, size: &str) -> Result<World, SamplerError> {
    let number = |name, value: &str| {
        value.trim().parse::<u32>().map_err(|_| wrong(pair, name, value, "is no whole number from 0".to_owned()))
    };
    let world = (number(pair.0, rank)?, number(pair.1, size)?);
    World::new(world.0, world.1).map_err(|_| {
        let what = match world.1 {
            0 => return wrong(pair, pair.1, size, "is a world of no process".to_owned()),
            _ => format!("is not below {}={size}, and ranks count from 0", pair.1),
        };
        wrong(pair, pair.0, rank, what)
    })
}

fn wrong(pair: (&str, &str), name: &'static str, value: &str, what: String) -> SamplerError {
    let pair = format!("{} and {}", pair.0, pair.1);
    SamplerError::Variable { name, value: value.escape_debug().to_string(), what, pair }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn told(environment: &[(&str, &str)]) -> Result<World, SamplerError> {
        World::told(|name| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value)))
    }

    #[test]
    fn the_first_launcher_whose_variables_are_set_counts() {
        let all = [
            ("OMPI_COMM_WORLD_RANK", "5"),
            ("OMPI_COMM_WORLD_SIZE", "6"),
            ("SLURM_PROCID", "3"),
            ("SLURM_NTASKS", "4"),
            ("RANK", "1"),
            ("WORLD_SIZE", "2"),
        ];
        assert_eq!(told(&all), World::new(1, 2));
        assert_eq!(told(&all[..4]), World::new(3, 4));
        assert_eq!(told(&all[..2]), World::new(5, 6));
        assert_eq!(told(&[]), Ok(World::single()));
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_is_an_error_that_names_the_variable_and_its_value() {
        let cases: [(&[_], _, &[_]); 9] = [
            (&[("RANK", "3")], "RANK", &["RANK=3", "without WORLD_SIZE"]),
            (&[("WORLD_SIZE", "3")], "WORLD_SIZE", &["WORLD_SIZE=3", "without RANK"]),
            (&[("SLURM_PROCID", "0"), ("RANK", "0"), ("SLURM_NTASKS", "1")], "RANK", &["without WORLD_SIZE"]),
            (&[("SLURM_NTASKS", "4")], "SLURM_NTASKS", &["SLURM_NTASKS=4", "without SLURM_PROCID"]),
            (&[("RANK", "one"), ("WORLD_SIZE", "2")], "RANK", &["RANK=one"]),
            (&[("RANK", "0"), ("WORLD_SIZE", "")], "WORLD_SIZE", &["WORLD_SIZE= "]),
            (&[("RANK", "-1"), ("WORLD_SIZE", "2")], "RANK", &["RANK=-1"]),
            (&[("RANK", "2"), ("WORLD_SIZE", "2")], "RANK", &["RANK=2", "WORLD_SIZE=2"]),
            (&[("RANK", "0"), ("WORLD_SIZE", "0")], "WORLD_SIZE", &["WORLD_SIZE=0"]),
        ];
        for (environment, name, words) in cases {
            let error = told(environment).unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, SamplerError::Variable { name: told, .. } if told == name), "{said}");
            assert!(words.iter().all(|word| said.contains(word)) && said.contains("; set "), "{said}");
        }
    }

    #[test]
    fn a_value_that_is_no_text_is_an_error_on_one_line() {
        let bytes = |_: &str| Some(OsString::from_vec(b"1\xff\n".to_vec()));
        let said = World::told(bytes).unwrap_err().to_string();
        assert!(said.starts_with("RANK=1\u{fffd}\\n ") && !said.contains('\n'), "{said}");
    }

    #[test]
    fn a_rank_is_below_the_size() {
        assert_eq!(World::new(0, 1), Ok(World::single()));
        for (rank, size) in [(0, 0), (1, 1), (5, 4)] {
            assert_eq!(World::new(rank, size), Err(SamplerError::Rank { rank, size }));
        }
    }
}
