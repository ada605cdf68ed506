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
