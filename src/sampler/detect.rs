//! Which rank this process is, by what launchers leave in its environment.

use std::ffi::OsString;

use super::error::SamplerError;
use super::launcher::WorldSource;
use super::world::World;

/// What these launchers set of `torchrun`'s variables beside the rank.
const TORCHRUN_MARK: &str = "TORCHELASTIC_RUN_ID";

/// Ranks that come without a number of ranks.
const RANKS_ALONE: [&str; 2] = ["PMIX_RANK", "PALS_RANKID"];

/// Set for each process that a launcher starts, without telling its rank among all of them.
const MARKS: [&str; 10] = [
    "LOCAL_RANK",
    TORCHRUN_MARK,
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "PALS_LOCAL_RANKID",
    "PMI_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "FLUX_TASK_LOCAL_ID",
    "JSM_NAMESPACE_LOCAL_RANK",
    "PMIX_NAMESPACE",
];

/// One launcher's word.
struct Claim {
    source: WorldSource,
    world: World,
}

pub(super) fn detect(variable: impl Fn(&str) -> Option<OsString>) -> Result<(World, WorldSource), SamplerError> {
    let environment = Environment(|name: &str| variable(name).map(|value| value.to_string_lossy().into_owned()));
    let mut claims = Vec::new();
    for source in WorldSource::PRECEDENCE {
        claims.extend(environment.claim(source)?);
    }
    for pair in claims.windows(2) {
        if !pair[0].may_be_inside(&pair[1]) {
            return Err(conflict(pair[0].shown(), pair[1].shown()));
        }
    }
    environment.check_ranks_alone(&claims)?;
    match claims.first() {
        Some(claim) => Ok((claim.world, claim.source)),
        None => environment.nothing_launched().map(|()| (World::single(), WorldSource::Alone)),
    }
}

impl Claim {
    /// Whether both can be right: they say the same, or this launcher was started by the other one's processes.
    fn may_be_inside(&self, outer: &Self) -> bool {
        let (inner_world, outer_world) = (self.world, outer.world);
        inner_world == outer_world
            || match self.source {
                // It may have been started in any way, and by its mark it is the last.
                WorldSource::Torchrun => true,
                // A Flux instance is started once and runs jobs of any size.
                WorldSource::Flux => true,
                // Each process of the outer one started as many.
                WorldSource::RankAndWorldSize => {
                    let each = inner_world.size() / outer_world.size();
                    each > 1
                        && inner_world.size() == each * outer_world.size()
                        && inner_world.rank() / each == outer_world.rank()
                }
                // `mpirun` has the scheduler start one daemon for each node.
                source if source.is_mpi() && !outer.source.is_mpi() => inner_world.size() > outer_world.size(),
                _ => false,
            }
    }

    fn shown(&self) -> String {
        let [rank, size] = self.source.variables().unwrap_or_default();
        format!("{rank}={} and {size}={}", self.world.rank(), self.world.size())
    }
}

struct Environment<F>(F);

impl<F: Fn(&str) -> Option<String>> Environment<F> {
    fn value(&self, name: &str) -> Option<String> {
        (self.0)(name)
    }

    fn claim(&self, source: WorldSource) -> Result<Option<Claim>, SamplerError> {
        let Some(pair) = source.variables() else { return Ok(None) };
        let is_there = match source {
            WorldSource::Torchrun => self.value(TORCHRUN_MARK).is_some(),
            WorldSource::RankAndWorldSize => self.value(TORCHRUN_MARK).is_none(),
            // A batch script has a rank, too, which is 0: that of a process in a step counts.
            WorldSource::Slurm => self.is_in_step(),
            WorldSource::SlurmTask => !self.is_in_step() && self.value(pair[0]).is_some_and(|rank| rank.trim() != "0"),
            WorldSource::Pals => pair.iter().all(|name| self.value(name).is_some()),
            WorldSource::Pmi => self.value("PALS_RANKID").is_none() || self.value("PMI_RANK").is_some(),
            _ => true,
        };
        if !is_there {
            return Ok(None);
        }
        let world = match pair.map(|name| self.value(name)) {
            [None, None] => return Ok(None),
            [Some(rank), Some(size)] => of_pair(pair, &rank, &size)?,
            [Some(rank), None] => return Err(wrong(pair, pair[0], &rank, format!("stands without {}", pair[1]))),
            [None, Some(size)] => return Err(wrong(pair, pair[1], &size, format!("stands without {}", pair[0]))),
        };
        Ok(Some(Claim { source, world }))
    }

    fn is_in_step(&self) -> bool {
        ["SLURM_STEP_ID", "SLURM_STEPID"].iter().any(|name| self.value(name).is_some())
    }

    /// A rank without a number of ranks must be one that a launcher with both tells.
    fn check_ranks_alone(&self, claims: &[Claim]) -> Result<(), SamplerError> {
        for name in RANKS_ALONE {
            let Some(rank) = self.value(name) else { continue };
            let shown = || format!("{name}={}", rank.escape_debug());
            let known = |claim: &Claim| rank.trim().parse() == Ok(claim.world.rank());
            match claims {
                [] => {
                    let what = "is a rank, and no variable tells how many ranks there are";
                    return Err(SamplerError::Unranked { found: shown(), what: what.to_owned() });
                }
                // It is that of the process that started torchrun.
                [Claim { source: WorldSource::Torchrun, .. }, ..] => {}
                claims if claims.iter().any(known) => {}
                claims => return Err(conflict(claims[0].shown(), shown())),
            }
        }
        Ok(())
    }

    /// Sees that a launcher which tells no rank has not started this process either.
    fn nothing_launched(&self) -> Result<(), SamplerError> {
        let shown = |names: &[&str]| {
            let values = names.iter().filter_map(|name| Some((name, self.value(name)?)));
            values.map(|(name, value)| format!("{name}={}", value.escape_debug())).collect::<Vec<_>>().join(" and ")
        };
        let slurm = ["SLURM_PROCID", "SLURM_NTASKS"];
        if self.value(slurm[1]).is_some_and(|tasks| tasks.trim() != "1") {
            let what = "tell of an allocation and not of a step (SLURM_STEP_ID is not set): a batch script has them, too, so \
                        it is doubtful that this is one of that many processes; start it by srun";
            return Err(SamplerError::Unranked { found: shown(&slurm), what: what.to_owned() });
        }
        match shown(&MARKS) {
            found if found.is_empty() => Ok(()),
            found => {
                let what =
                    "says that a launcher started this process, and no variable tells its rank among all of them";
                Err(SamplerError::Unranked { found, what: what.to_owned() })
            }
        }
    }
}

fn of_pair(pair: [&'static str; 2], rank: &str, size: &str) -> Result<World, SamplerError> {
    let number = |name, value: &str| {
        value.trim().parse::<u32>().map_err(|_| wrong(pair, name, value, "is no whole number from 0".to_owned()))
    };
    let world = (number(pair[0], rank)?, number(pair[1], size)?);
    World::new(world.0, world.1).map_err(|_| {
        let what = match world.1 {
            0 => return wrong(pair, pair[1], size, "is a world of no process".to_owned()),
            _ => format!("is not below {}={size}, and ranks count from 0", pair[1]),
        };
        wrong(pair, pair[0], rank, what)
    })
}

fn wrong(pair: [&str; 2], name: &'static str, value: &str, what: String) -> SamplerError {
    let pair = format!("{} and {}", pair[0], pair[1]);
    SamplerError::Variable { name, value: value.escape_debug().to_string(), what, pair }
}

fn conflict(taken: String, other: String) -> SamplerError {
    SamplerError::Conflict { taken, other }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    /// Words of the form `NAME=value`.
    fn told(environment: &str) -> Result<(World, WorldSource), SamplerError> {
        let pairs: Vec<_> = environment.split_whitespace().map(|word| word.split_once('=').unwrap()).collect();
        detect(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value)))
    }

    fn is(environment: &str, rank: u32, size: u32, source: WorldSource) {
        assert_eq!(told(environment), Ok((World::new(rank, size).unwrap(), source)), "{environment}");
    }

    const STEP: &str = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3";
    /// A batch script of four tasks.
    const BATCH: &str = "SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0";

    #[test]
    fn each_launcher_is_known_by_its_own_variables() {
        use WorldSource::*;
        is("", 0, 1, Alone);
        is("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 TORCHELASTIC_RUN_ID=none", 1, 2, Torchrun);
        is("RANK=1 WORLD_SIZE=2", 1, 2, RankAndWorldSize);
        is("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 PMIX_RANK=1", 1, 2, OpenMpi);
        is("MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=2", 1, 2, Mvapich);
        is("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1", 1, 2, Pmi);
        is("PALS_RANKID=1 PMI_SIZE=2", 1, 2, Pals);
        is("PALS_RANKID=1 PMI_RANK=1 PMI_SIZE=2", 1, 2, Pals);
        is("FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2", 1, 2, Flux);
        is("FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 PALS_RANKID=1 FLUX_TASK_LOCAL_ID=0", 1, 2, Flux);
        is("JSM_NAMESPACE_RANK=1 JSM_NAMESPACE_SIZE=2 PMIX_RANK=1", 1, 2, Jsm);
        is(STEP, 3, 4, Slurm);
        is(&format!("{STEP} PMIX_RANK=3 LOCAL_RANK=1"), 3, 4, Slurm);
        let names: Vec<String> = WorldSource::PRECEDENCE.iter().map(WorldSource::to_string).collect();
        assert!(names.contains(&"Slurm".to_owned()) && names.iter().all(|name| !name.is_empty()), "{names:?}");
    }

    #[test]
    fn of_slurm_the_step_counts_and_not_the_allocation() {
        is("SLURM_JOB_ID=7 SLURM_PROCID=0", 0, 1, WorldSource::Alone);
        is("SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=1", 0, 1, WorldSource::Alone);
        is(&format!("{BATCH} SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2"), 0, 2, WorldSource::Slurm);
        // No batch script is this.
        is("SLURM_PROCID=3 SLURM_NTASKS=4", 3, 4, WorldSource::SlurmTask);
        for doubtful in [BATCH, "SLURM_NTASKS=4"] {
            let said = told(doubtful).unwrap_err().to_string();
            assert!(said.contains("srun") && said.contains("SLURM_STEP_ID"), "{said}");
        }
    }

    #[test]
    fn of_launchers_inside_each_other_the_inner_one_counts() {
        use WorldSource::*;
        // srun --ntasks-per-node=1 torchrun, standalone and over nodes whose order is another than Slurm's.
        let torchrun = "TORCHELASTIC_RUN_ID=a LOCAL_RANK=0";
        is(&format!("{STEP} PMIX_RANK=3 {torchrun} RANK=8 WORLD_SIZE=32"), 8, 32, Torchrun);
        is(&format!("{STEP} {torchrun} RANK=0 WORLD_SIZE=4"), 0, 4, Torchrun);
        is(&format!("{BATCH} {torchrun} RANK=1 WORLD_SIZE=8"), 1, 8, Torchrun);
        // mpirun in a batch script, and where it has srun start a daemon for each node.
        is(&format!("{BATCH} OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 PMIX_RANK=2"), 2, 3, OpenMpi);
        let daemon = "SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=1";
        is(&format!("{BATCH} {daemon} PMI_RANK=5 PMI_SIZE=8"), 5, 8, Pmi);
        // Processes that each task of a step started by itself.
        is(&format!("{STEP} RANK=7 WORLD_SIZE=8"), 7, 8, RankAndWorldSize);
        // One that is told by hand in a batch script.
        is(&format!("{BATCH} RANK=0 WORLD_SIZE=1"), 0, 1, RankAndWorldSize);
        // Flux in a step of Slurm's, with a job smaller than that.
        is(&format!("{STEP} FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 PMI_RANK=1 PMI_SIZE=2"), 1, 2, Pmi);
    }

    #[test]
    fn launchers_that_cannot_both_be_right_are_an_error_that_names_both() {
        for (environment, words) in [
            // Exported by a batch script before srun: every task would be rank 0.
            (format!("{STEP} RANK=0 WORLD_SIZE=4"), ["RANK=0", "SLURM_PROCID=3"]),
            (format!("{STEP} RANK=0 WORLD_SIZE=8"), ["RANK=0", "SLURM_PROCID=3"]),
            // Of the process that submitted the job.
            (
                format!("{STEP} OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1"),
                ["OMPI_COMM_WORLD_SIZE=1", "SLURM_PROCID=3"],
            ),
            (format!("{STEP} PMI_RANK=0 PMI_SIZE=4"), ["PMI_RANK=0", "SLURM_STEP_NUM_TASKS=4"]),
            (format!("{STEP} PMIX_RANK=2"), ["PMIX_RANK=2", "SLURM_PROCID=3"]),
            (
                "RANK=0 WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2".into(),
                ["RANK=0", "OMPI_COMM_WORLD_RANK=1"],
            ),
            (
                "PMI_RANK=0 PMI_SIZE=2 MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2".into(),
                ["PMI_RANK=0", "MV2_COMM_WORLD_RANK=1"],
            ),
            // More ranks than there are tasks, and not of a library of MPI's in a scheduler's step.
            (
                "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=8 MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2".into(),
                ["OMPI_COMM_WORLD_RANK=0", "MV2_COMM_WORLD_RANK=1"],
            ),
            (format!("{STEP} JSM_NAMESPACE_RANK=1 JSM_NAMESPACE_SIZE=8"), ["JSM_NAMESPACE_RANK=1", "SLURM_PROCID=3"]),
        ] {
            let error = told(&environment).unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, SamplerError::Conflict { .. }), "{environment}: {said}");
            assert!(words.iter().all(|word| said.contains(word)), "{environment}: {said}");
        }
    }

    #[test]
    fn a_launcher_that_tells_no_rank_is_an_error_that_names_its_variable() {
        for mark in MARKS.into_iter().chain(RANKS_ALONE) {
            let error = told(&format!("{mark}=2")).unwrap_err();
            assert!(matches!(error, SamplerError::Unranked { .. }), "{error}");
            assert!(error.to_string().starts_with(&format!("{mark}=2 ")), "{error}");
        }
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_is_an_error_that_names_the_variable_and_its_value() {
        for (environment, name, words) in [
            ("RANK=3", "RANK", &["RANK=3", "without WORLD_SIZE"][..]),
            ("WORLD_SIZE=3", "WORLD_SIZE", &["WORLD_SIZE=3", "without RANK"]),
            ("SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 RANK=0", "RANK", &["without WORLD_SIZE"]),
            ("SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_NUM_TASKS", &["without SLURM_PROCID"]),
            ("SLURM_PROCID=1", "SLURM_PROCID", &["without SLURM_NTASKS"]),
            ("PMI_RANK=1", "PMI_RANK", &["without PMI_SIZE"]),
            ("PMI_SIZE=2", "PMI_SIZE", &["without PMI_RANK"]),
            ("FLUX_TASK_RANK=1", "FLUX_TASK_RANK", &["without FLUX_JOB_SIZE"]),
            ("RANK=one WORLD_SIZE=2", "RANK", &["RANK=one"]),
            ("RANK=0 WORLD_SIZE=", "WORLD_SIZE", &["WORLD_SIZE= "]),
            ("RANK=-1 WORLD_SIZE=2", "RANK", &["RANK=-1"]),
            ("RANK=2 WORLD_SIZE=2", "RANK", &["RANK=2", "WORLD_SIZE=2"]),
            ("RANK=0 WORLD_SIZE=0", "WORLD_SIZE", &["WORLD_SIZE=0"]),
        ] {
            let error = told(environment).unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, SamplerError::Variable { name: told, .. } if told == name), "{said}");
            assert!(words.iter().all(|word| said.contains(word)) && said.contains("; set "), "{said}");
        }
    }

    #[test]
    fn a_value_that_is_no_text_is_an_error_on_one_line() {
        let bytes = |_: &str| Some(OsString::from_vec(b"1\xff\n".to_vec()));
        let said = detect(bytes).unwrap_err().to_string();
        assert!(said.starts_with("RANK=1\u{fffd}\\n ") && !said.contains('\n'), "{said}");
    }
}
