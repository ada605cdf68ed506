//! The launchers that are known by the variables they set.

use std::fmt;

/// What told a process its rank: see [`World::detect`](super::World::detect).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorldSource {
    /// `torchrun`, or another that starts processes as it does.
    Torchrun,
    /// `RANK` and `WORLD_SIZE`, and nothing tells who set them.
    RankAndWorldSize,
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpirun_rsh` of MVAPICH.
    Mvapich,
    /// Cray's PALS.
    Pals,
    /// `mpiexec` of MPICH or of Intel MPI, or another that speaks PMI.
    Pmi,
    /// `flux run`.
    Flux,
    /// `jsrun` of IBM's Job Step Manager.
    Jsm,
    /// `srun`.
    Slurm,
    /// `srun`, whose step's variables were not passed on: a rank above 0, which a batch script never has.
    SlurmTask,
    /// No launcher: one process alone.
    Alone,
}

impl WorldSource {
    /// From the one that starts processes last to the one that may have started it.
    pub(super) const PRECEDENCE: [Self; 10] = [
        Self::Torchrun,
        Self::RankAndWorldSize,
        Self::OpenMpi,
        Self::Mvapich,
        Self::Pals,
        Self::Pmi,
        Self::Flux,
        Self::Jsm,
        Self::Slurm,
        Self::SlurmTask,
    ];

    /// The variables with the rank and the number of ranks; `None` of [`WorldSource::Alone`].
    pub fn variables(self) -> Option<[&'static str; 2]> {
        Some(match self {
            Self::Torchrun | Self::RankAndWorldSize => ["RANK", "WORLD_SIZE"],
            Self::OpenMpi => ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
            Self::Mvapich => ["MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"],
            Self::Pals => ["PALS_RANKID", "PMI_SIZE"],
            Self::Pmi => ["PMI_RANK", "PMI_SIZE"],
            Self::Flux => ["FLUX_TASK_RANK", "FLUX_JOB_SIZE"],
            Self::Jsm => ["JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"],
            Self::Slurm => ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS"],
            Self::SlurmTask => ["SLURM_PROCID", "SLURM_NTASKS"],
            Self::Alone => return None,
        })
    }

    /// Whether it is a library of MPI's that starts processes, which a scheduler may have started.
    pub(super) fn is_mpi(self) -> bool {
        matches!(self, Self::OpenMpi | Self::Mvapich | Self::Pals | Self::Pmi)
    }
}

impl fmt::Display for WorldSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Torchrun => "torchrun",
            Self::RankAndWorldSize => "no launcher's mark",
            Self::OpenMpi => "Open MPI",
            Self::Mvapich => "MVAPICH",
            Self::Pals => "Cray PALS",
            Self::Pmi => "PMI: MPICH, Intel MPI or another",
            Self::Flux => "Flux",
            Self::Jsm => "JSM",
            Self::Slurm | Self::SlurmTask => "Slurm",
            Self::Alone => "no launcher",
        })
    }
}
