use super::detect::detect;
use super::error::SamplerError;
use super::launcher::WorldSource;

/// The processes that train together, and which of them this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    rank: u32,
    size: u32,
}

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

    /// [`World::detect`], without the source.
    ///
    /// # Errors
    /// As there.
    pub fn from_env() -> Result<Self, SamplerError> {
        Self::detect().map(|(world, _)| world)
    }

    /// The rank and the number of ranks that launchers set in the environment, and which launcher it was.
    ///
    /// | source, in order of precedence | rank | number of ranks |
    /// |---|---|---|
    /// | `torchrun`, known by `TORCHELASTIC_RUN_ID` | `RANK` | `WORLD_SIZE` |
    /// | any other that sets them | `RANK` | `WORLD_SIZE` |
    /// | Open MPI | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_SIZE` |
    /// | MVAPICH | `MV2_COMM_WORLD_RANK` | `MV2_COMM_WORLD_SIZE` |
    /// | Cray PALS | `PALS_RANKID` | `PMI_SIZE` |
    /// | MPICH, Intel MPI and others, by PMI | `PMI_RANK` | `PMI_SIZE` |
    /// | Flux | `FLUX_TASK_RANK` | `FLUX_JOB_SIZE` |
    /// | JSM (`jsrun`) | `JSM_NAMESPACE_RANK` | `JSM_NAMESPACE_SIZE` |
    /// | Slurm, in a step (`SLURM_STEP_ID`) | `SLURM_PROCID` | `SLURM_STEP_NUM_TASKS` |
    /// | Slurm, without the step's variables and not `SLURM_PROCID=0` | `SLURM_PROCID` | `SLURM_NTASKS` |
    ///
    /// Launchers start each other, and the variables of all of them are there: the one that started this process last comes
    /// first. `srun --ntasks-per-node=1 torchrun` is torchrun's world, whatever Slurm's is; `mpirun` in a batch script is
    /// MPI's. Those that cannot both be right are an error: `RANK` and `WORLD_SIZE` without torchrun's mark must say what the
    /// next one does, or divide each of its processes into equally many; an MPI launcher must start more processes than the
    /// scheduler's step has, or the same ones. `PMIX_RANK`, which comes without a number of ranks, must be the rank that one
    /// of the others says.
    ///
    /// With none of these it is rank 0 of 1, which is logged at info level, unless there are marks of a launcher, such as
    /// `LOCAL_RANK` or an allocation of Slurm's for several tasks without a step: nobody can tell the rank from them.
    ///
    /// # Errors
    /// [`SamplerError::Variable`] where one of a pair is missing or no number, or the rank is not below the size;
    /// [`SamplerError::Conflict`] where two sources cannot both be right; [`SamplerError::Unranked`] where a launcher has
    /// started this process, and its rank is not told.
    pub fn detect() -> Result<(Self, WorldSource), SamplerError> {
        let (world, source) = detect(|name| std::env::var_os(name))?;
        tracing::info!("rank {} of {}, from the environment: {source}", world.rank, world.size);
        Ok((world, source))
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_below_the_size() {
        assert_eq!(World::new(0, 1), Ok(World::single()));
        for (rank, size) in [(0, 0), (1, 1), (5, 4)] {
            assert_eq!(World::new(rank, size), Err(SamplerError::Rank { rank, size }));
        }
    }
}
