//! Slurm, on this machine alone: its daemons are started for the test, and end with it.
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::{Job, launcher, openmpi, torchrun};
use crate::common::skipped::skipped;
use crate::common::{Skip, effort, is_root};
use crate::or_skip;

struct Slurm {
    folder: TempDir,
    daemons: Vec<Child>,
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

impl Slurm {
    fn start() -> Result<Self, Skip> {
        if !is_root() {
            return Err(Skip::because("slurmd is run by root"));
        }
        let [munged, slurmctld, slurmd, sinfo] = ["munged", "slurmctld", "slurmd", "sinfo"].map(daemon);
        let (munged, slurmctld, slurmd, sinfo) = (munged?, slurmctld?, slurmd?, sinfo?);
        // The paths of sockets must be short.
        let folder = tempfile::Builder::new().prefix("slurm").tempdir_in("/tmp").unwrap();
        let mut slurm = Self { folder, daemons: Vec::new() };
        slurm.configure()?;
        let path = slurm.folder.path().to_owned();
        slurm.spawn(
            munged,
            &[
                "--foreground",
                "--force",
                &format!("--key-file={}", path.join("munge.key").display()),
                &format!("--socket={}", path.join("munge/socket").display()),
                &format!("--pid-file={}", path.join("munge/pid").display()),
                &format!("--log-file={}", path.join("munge/log").display()),
                &format!("--seed-file={}", path.join("munge/seed").display()),
            ],
        );
        slurm.spawn(slurmctld, &["-D", "-c"]);
        slurm.spawn(slurmd, &["-D"]);
        let mut state = String::new();
        for _ in 0..300 {
            let mut sinfo = Command::new(sinfo.get_program());
            let output = slurm.inside(&mut sinfo).args(["-h", "-o", "%T"]).output().unwrap();
            state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if state == "idle" {
                return Ok(slurm);
            }
            thread::sleep(Duration::from_millis(100));
        }
        Err(Skip::because(format!("Slurm's node does not become idle here: {state}; {}", slurm.log())))
    }

    fn configure(&self) -> Result<(), Skip> {
        let path = self.folder.path();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap();
        // Free now; others of this machine's tests take theirs as well.
        let ports = [0, 0].map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
        let [control, node] = ports.map(|port| port.local_addr().unwrap().port());
        for name in ["munge", "state", "spool"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        for name in ["", "munge"] {
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut key = vec![0; 128];
        std::io::Read::read_exact(&mut fs::File::open("/dev/urandom").unwrap(), &mut key).unwrap();
        fs::write(path.join("munge.key"), key).unwrap();
        fs::set_permissions(path.join("munge.key"), fs::Permissions::from_mode(0o400)).unwrap();
        let at = path.display();
        let configuration = format!(
            "ClusterName=forebay\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmctldPort={control}\nSlurmdPort={node}\n\
             AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={at}/munge/socket\nStateSaveLocation={at}/state\n\
             SlurmdSpoolDir={at}/spool\nSlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.pid\n\
             SlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd.log\nProctrackType=proctrack/pgid\n\
             TaskPlugin=task/none\nMpiDefault=none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
             ReturnToService=2\nJobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             SwitchType=switch/none\nMailProg=/bin/true\nSlurmdParameters=config_overrides\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=8 Boards=1 SocketsPerBoard=8 CoresPerSocket=1 ThreadsPerCore=1\n\
             PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP\n"
        );
        fs::write(path.join("slurm.conf"), configuration).unwrap();
        Ok(())
    }

    fn spawn(&mut self, mut command: Command, arguments: &[&str]) {
        self.inside(&mut command).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(command.spawn().unwrap());
    }

    fn inside<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("SLURM_CONF", self.folder.path().join("slurm.conf"))
    }

    fn log(&self) -> String {
        let logs = ["slurmctld.log", "slurmd.log", "munge/log"].map(|name| self.folder.path().join(name));
        let last = |log: String| log.lines().rev().take(3).map(str::to_owned).collect::<Vec<_>>().join(" | ");
        logs.map(|log| fs::read_to_string(log).map(last).unwrap_or_default()).join("; ")
    }

    /// `srun` of so many tasks.
    fn srun(&self, ranks: usize, program: &Path) -> Command {
        let mut srun = launcher("srun").unwrap();
        self.inside(&mut srun).args(["-n", &ranks.to_string()]).arg(program);
        srun
    }

    /// A batch script of four tasks with this line, waited for. What it says comes to stdout.
    fn sbatch(&self, folder: &Path, line: &str) -> Command {
        let (script, out) = (folder.join("batch.sh"), folder.join("batch.out"));
        fs::write(&script, format!("#!/bin/sh\n{line}\n")).unwrap();
        let mut shell = launcher("sh").unwrap();
        let (script, out) = (script.display(), out.display());
        let submit = format!("sbatch -n 4 --wait -o {out} {script} >&2; code=$?; cat {out}; exit $code");
        self.inside(&mut shell).args(["-c", &submit]);
        shell
    }
}

/// A daemon on PATH, or where Debian has it.
fn daemon(name: &str) -> Result<Command, Skip> {
    let system = Path::new("/usr/sbin").join(name);
    if system.is_file() { Ok(super::clean(Command::new(system))) } else { launcher(name) }
}

/// One after the other, since there is one Slurm: the tasks of `srun`, alone and in a batch script; other launchers that a
/// batch script starts, and torchrun that a task starts.
#[test]
fn ranks_of_slurm_share_an_epoch() {
    let slurm = or_skip!(Slurm::start());
    let source = "SLURM_PROCID and SLURM_STEP_NUM_TASKS (Slurm)";
    Job::new().stopped_and_resumed(&|_, ranks, program| slurm.srun(ranks, program), source);
    let batch = |folder: &Path, ranks: usize, program: &Path| {
        slurm.sbatch(folder, &format!("srun -n {ranks} {}", program.display()))
    };
    Job::new().stopped_and_resumed(&batch, source);

    // The script itself has SLURM_PROCID=0 and SLURM_NTASKS=4.
    let job = Job::new();
    let forebay = env!("CARGO_BIN_EXE_forebay");
    let alone = format!("{forebay} order {}/data.rec --record-bytes 16 --world env 2>&1", job.folder.path().display());
    let output = slurm.sbatch(job.folder.path(), &alone).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() && said.starts_with("error: SLURM_PROCID=0 and SLURM_NTASKS=4 "), "{said}");

    // A minute of waiting for jobs to be scheduled.
    if effort::of(0, 1) == 0 {
        return;
    }
    for (name, source) in [("mpirun.openmpi", "(Open MPI)"), ("mpirun.mpich", "(PMI"), ("torchrun", "(torchrun)")] {
        if let Err(Skip(why)) = launcher(name) {
            skipped(why);
            continue;
        }
        let launch = |folder: &Path, ranks: usize, program: &Path| {
            let command = launcher(name).unwrap();
            let command = match name {
                "mpirun.openmpi" => openmpi(command, ranks, program),
                "torchrun" => torchrun(command, folder, ranks, program),
                _ => {
                    let mut command = command;
                    command.args(["-n", &ranks.to_string()]).arg(program);
                    command
                }
            };
            let words: Vec<_> = [command.get_program()].into_iter().chain(command.get_args()).collect();
            let line = words.join(std::ffi::OsStr::new(" ")).into_string().unwrap();
            // torchrun is started as one task of a step, which is how clusters start it.
            slurm.sbatch(folder, &if name == "torchrun" { format!("srun -n 1 {line}") } else { line })
        };
        Job::new().stopped_and_resumed(&launch, source);
    }
}
