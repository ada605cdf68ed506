//! `--world env` under the real launchers: four ranks together have each sample once, stop half way, and three go on.
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Skip, folder};
use crate::or_skip;
use crate::run::{clean, pattern, write};

mod slurm;

const SAMPLES: usize = 103;

/// Starts so many processes of a program, and waits for them.
type Launch<'a> = &'a dyn Fn(&Path, usize, &Path) -> Command;

/// The folder with a dataset, and a program that runs `order` as one rank: it keeps what that says under its rank's name.
struct Job {
    folder: TempDir,
}

impl Job {
    fn new() -> Self {
        let folder = folder();
        write(folder.path(), "data.rec", &pattern(SAMPLES * 16));
        Self { folder }
    }

    /// What each rank printed, by rank and with the line on its stderr; `flags` are the same for all.
    fn run(&self, launch: Launch, ranks: usize, flags: &str) -> BTreeMap<u32, (Vec<Value>, String)> {
        let path = self.folder.path();
        let out = tempfile::tempdir_in(path).unwrap();
        let (forebay, out_path) = (env!("CARGO_BIN_EXE_forebay"), out.path().display());
        let script = format!(
            "#!/bin/sh\ncd {}\n{forebay} order data.rec --record-bytes 16 --shuffle full --remainder uneven --json --world env \
             --save-state {out_path}/$$.state {flags} > {out_path}/$$.out 2> {out_path}/$$.err\n",
            path.display()
        );
        let program = write(path, "rank.sh", script.as_bytes());
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let output = launch(path, ranks, &program).stdin(Stdio::null()).output().unwrap();
        let all = |ending: &str| -> Vec<String> {
            let entries = fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().path());
            let mut found: Vec<_> = entries.filter(|path| path.extension().is_some_and(|is| is == ending)).collect();
            found.sort();
            found.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
        };
        let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(output.status.success(), "{said:?} {:?}", all("err"));
        let states = all("state");
        assert!(states.len() == ranks && states.iter().all(|state| *state == states[0]), "{states:?}");
        fs::write(path.join("state"), &states[0]).unwrap();
        let ranks = all("out").into_iter().zip(all("err")).map(|(out, err)| {
            let rank =
                err.strip_prefix("rank ").and_then(|rest| rest.split(' ').next()).and_then(|rank| rank.parse().ok());
            let lines = out.lines().map(|line| serde_json::from_str(line).unwrap());
            (rank.unwrap_or_else(|| panic!("{err}")), (lines.collect(), err))
        });
        ranks.collect()
    }

    /// Four ranks for a while, then three from there to the end of the epoch. Each says that it is of `source`.
    fn stopped_and_resumed(&self, launch: Launch, source: &str) {
        let flags = "--batch-size 5 --max-batches 3";
        let mut seen = self.check(self.run(launch, 4, flags), 4, source);
        assert_eq!(seen.len(), 4 * 5 * 3);
        seen.extend(self.check(self.run(launch, 3, "--batch-size 7 --resume state"), 3, source));
        seen.sort_unstable();
        assert_eq!(seen, (0..SAMPLES as u64).collect::<Vec<_>>(), "each sample once");
    }

    /// The samples of all ranks.
    fn check(&self, found: BTreeMap<u32, (Vec<Value>, String)>, ranks: u32, source: &str) -> Vec<u64> {
        assert!(found.keys().copied().eq(0..ranks), "{found:?}");
        let mut samples = Vec::new();
        for (rank, (lines, stderr)) in found {
            assert!(
                stderr.starts_with(&format!("rank {rank} of {ranks}: from ")) && stderr.contains(source),
                "{stderr}"
            );
            let ids = lines.iter().filter_map(|line| line["ids"].as_array()).flatten();
            samples.extend(ids.map(|id| id.as_str().unwrap().parse::<u64>().unwrap()));
        }
        samples
    }
}

/// A launcher by its name on PATH, without the variables of another.
fn launcher(name: &str) -> Result<Command, Skip> {
    let all = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&all).map(|folder| folder.join(name));
    let path = found.find(|path| path.is_file());
    path.map(|path| clean(Command::new(path))).ok_or_else(|| Skip::because(format!("{name} is not installed")))
}

/// Open MPI's refuses root, and more processes than there are cores.
fn openmpi(mut command: Command, ranks: usize, program: &Path) -> Command {
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string()]).arg(program);
    command
}

fn torchrun(mut command: Command, folder: &Path, ranks: usize, program: &Path) -> Command {
    // Redirections of 0 and 3 end some versions with an error.
    command.args(["--redirects", "1", "--tee", "1", "--log_dir"]).arg(folder.join("log"));
    command.args(["--standalone", "--no_python", "--nproc_per_node", &ranks.to_string()]).arg(program);
    command
}

#[test]
fn ranks_of_open_mpi_share_an_epoch() {
    or_skip!(launcher("mpirun.openmpi"));
    let launch = |_: &Path, ranks, program: &Path| openmpi(launcher("mpirun.openmpi").unwrap(), ranks, program);
    Job::new().stopped_and_resumed(&launch, "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE (Open MPI)");
}

#[test]
fn ranks_of_mpich_share_an_epoch() {
    or_skip!(launcher("mpirun.mpich"));
    let launch = |_: &Path, ranks: usize, program: &Path| {
        let mut command = launcher("mpirun.mpich").unwrap();
        command.args(["-n", &ranks.to_string()]).arg(program);
        command
    };
    Job::new().stopped_and_resumed(&launch, "PMI_RANK and PMI_SIZE");
}

#[test]
fn ranks_of_torchrun_share_an_epoch() {
    or_skip!(launcher("torchrun"));
    let launch = |folder: &Path, ranks, program: &Path| torchrun(launcher("torchrun").unwrap(), folder, ranks, program);
    Job::new().stopped_and_resumed(&launch, "RANK and WORLD_SIZE (torchrun)");
}
