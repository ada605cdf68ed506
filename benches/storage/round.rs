//! Measures one case in one place: pairs of runs in alternation, A B B A, and ratios pair by pair.

use std::path::PathBuf;

use crate::args::Args;
use crate::cache;
use crate::cases::{Case, Rival};
use crate::child;
use crate::fio::{self, Engine, Fio};
use crate::machine::Neighbours;
use crate::stop;
use crate::workload::{Outcome, Workload};

/// A round is measured again when others took more than this share of the CPUs.
pub const NOISE: f64 = 0.10;

/// At most this many times as many rounds are run as are shown.
const TRIES: usize = 3;

/// A file to read, on some device.
#[derive(Clone, Debug)]
pub struct Place {
    pub device: &'static str,
    pub file: PathBuf,
    pub file_len: u64,
}

/// One round: every rival once, and our side.
#[derive(Debug)]
pub struct Round {
    pub rivals: Vec<Outcome>,
    pub ours: Outcome,
    /// The largest share of the CPUs that other processes, or other guests of the host, took during one of its runs.
    pub noise: f64,
}

impl Round {
    /// The fastest rival.
    pub fn best(&self) -> (usize, &Outcome) {
        let by_rate =
            |a: &(usize, &Outcome), b: &(usize, &Outcome)| a.1.bytes_per_second().total_cmp(&b.1.bytes_per_second());
        self.rivals.iter().enumerate().max_by(by_rate).expect("a case has at least one rival")
    }

    pub fn throughput_ratio(&self) -> f64 {
        self.ours.bytes_per_second() / self.best().1.bytes_per_second()
    }

    pub fn cpu_ratio(&self) -> f64 {
        self.ours.cpu_seconds_per_gb() / self.best().1.cpu_seconds_per_gb()
    }
}

/// Runs the rounds that `args` ask for.
pub fn measure(case: &Case, place: &Place, fio: &Fio, args: &Args) -> Result<Vec<Round>, String> {
    let Args { rounds, seconds, .. } = *args;
    let mut work = Workload {
        file: place.file.clone(),
        file_len: place.file_len,
        pattern: case.pattern,
        block: case.block,
        depth: case.depth,
        jobs: case.jobs,
        warm: case.warm,
        bytes: 0,
        seed: 1,
    };
    let engine = match case.rivals.contains(&Rival::FioPsync) {
        true => Engine::Psync,
        false => Engine::IoUring,
    };
    if fio.tuned && fio::huge_pages_free() < fio::huge_pages_needed(&work) {
        let needed = fio::huge_pages_needed(&work);
        eprintln!("note: {}: fio's buffers are in pages of 4 KiB; {needed} huge pages would be needed", case.name);
    }
    prepare(&work)?;
    // Also the warm-up. All contenders then read the same number of bytes.
    let rate = fio.rate(engine, &work, (seconds / 2.0).min(2.0))?;
    let unit = case.block * u64::from(case.jobs);
    work.bytes = ((rate * seconds) as u64 / unit).max(1) * unit;
    let start_up = fio.start_up(engine, &work)?;

    let mut quiet: Vec<Round> = Vec::new();
    let mut noisy: Vec<Round> = Vec::new();
    while quiet.len() < rounds && quiet.len() + noisy.len() < TRIES * rounds {
        work.seed += 1;
        let round = run(case, &work, fio, start_up, &args.mode)?;
        match round.noise > NOISE {
            true => noisy.push(round),
            false => quiet.push(round),
        }
    }
    // Too few quiet ones: the least noisy fill up, and the table shows how noisy they were.
    noisy.sort_by(|a, b| a.noise.total_cmp(&b.noise));
    let missing = rounds - quiet.len();
    quiet.extend(noisy.into_iter().take(missing));
    Ok(quiet)
}

fn run(case: &Case, work: &Workload, fio: &Fio, start_up: f64, mode: &str) -> Result<Round, String> {
    let mut noise: f64 = 0.0;
    let mut watched = |contender: &mut dyn FnMut() -> Result<Outcome, String>| {
        stop::check()?;
        prepare(work)?;
        let neighbours = Neighbours::watch();
        let outcome = contender()?;
        noise = noise.max(neighbours.share());
        Ok::<Outcome, String>(outcome)
    };
    let mut ours = None;
    // Every other round the other way round: a disk that slows down as it goes then harms both alike.
    let first = work.seed.is_multiple_of(2);
    if first {
        ours = Some(watched(&mut || child::forebay(&case.ours, mode, work))?);
    }
    let mut rivals = Vec::new();
    for rival in &case.rivals {
        rivals.push(watched(&mut || match rival {
            Rival::FioUring => fio.run(Engine::IoUring, work, start_up),
            Rival::FioPsync => fio.run(Engine::Psync, work, start_up),
            Rival::PreadLoop => child::pread_loop(work),
        })?);
    }
    let ours = match ours {
        Some(ours) => ours,
        None => watched(&mut || child::forebay(&case.ours, mode, work))?,
    };
    Ok(Round { rivals, ours, noise })
}

fn prepare(work: &Workload) -> Result<(), String> {
    match work.warm {
        true => cache::warm_file(&work.file),
        false => cache::drop_file(&work.file),
    }
}
