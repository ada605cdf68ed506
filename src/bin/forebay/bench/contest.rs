//! All cases, measured in turns: every round runs each case once, and the peer once beside it, so that what the machine does
//! meanwhile falls on all of them.

use std::time::{Duration, Instant, SystemTime};

use forebay::{Device, DeviceKind, Route};

use super::cache::{self, Proven};
use super::case::{Cache, Case, Pattern};
use super::ceilings::{self, Ceilings};
use super::hardware::Hardware;
use super::measure::{Rig, Run};
use super::pcie;
use super::peer::{self, Peer};
use super::sentence::Figure::{Bytes, Count};
use super::sentence::Sentence;
use super::target::Target;
use super::warnings::Warnings;
use super::{sweep, verify};
use crate::args::{self, Common};
use crate::byte_count::{counted, shown};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::stderr::Progress;

/// Rounds, unless so many would leave each run too short: so few that chance is seen, and enough to compare reports by.
const ROUNDS: usize = 5;
/// A run shorter than this measures its beginning and its end.
pub const SHORTEST: Duration = Duration::from_millis(150);

/// All cases, with what was measured of each.
pub struct Contest {
    pub began: SystemTime,
    pub target: Target,
    /// The first is a GPU, where one is among them.
    pub ends: Vec<End>,
    pub file_system: String,
    pub entries: Vec<Entry>,
    pub rounds: usize,
    /// Where time is short; not where so many were asked for.
    pub may_have_fewer: bool,
    pub hardware: Hardware,
    pub ceilings: Ceilings,
    pub warnings: Warnings,
    /// The first failure that is no precondition's: of a read. The report is told, and the command fails.
    pub fault: Option<String>,
    pub interrupted: bool,
    budget: u64,
}

/// Where bytes end up, and who else brings them there.
pub struct End {
    pub device: Device,
    pub peer: Option<Peer>,
    /// Whether it was measured once: then one failure is not its end.
    peer_works: bool,
}

/// What became of a turn.
pub enum Turn {
    /// Measured, or cut short by an interrupt.
    Taken,
    /// The row has one run less, for this reason.
    Lost(String),
}

/// Why a case cannot be measured; `case` where that holds for it and not for what it does.
pub struct Refused {
    case: Option<String>,
    failure: Failure,
}

impl Refused {
    fn case(case: String, why: &str) -> Self {
        Self { case: Some(case), failure: Failure::Error(why.to_owned()) }
    }
}

impl From<Refused> for Failure {
    fn from(Refused { case, failure }: Refused) -> Self {
        match (case, failure) {
            (Some(case), Self::Error(why)) => Self::Error(format!("{case}: {why}")),
            (_, failure) => failure,
        }
    }
}

const NO_POLLING: &str = "polling (--iopoll true) is left out";

pub struct Entry {
    pub case: Case,
    pub runs: Vec<Run>,
    /// Why each run that is not among `runs` was lost.
    pub lost: Vec<String>,
    /// The number of our run, and what the peer's beside it came to.
    pub peer: Vec<(usize, peer::Outcome)>,
    pub before: Option<f64>,
    pub after: Option<f64>,
    pub proven: Proven,
    pub verified: Option<bool>,
}

impl Contest {
    /// Without anything to measure yet. There is one device at least.
    pub fn new(common: &Common, bench: &args::Bench, devices: &[Device], target: Target) -> Self {
        let has_peers = bench.peers.unwrap_or(true) && !bench.tune;
        let end = |device: &Device| End {
            peer: has_peers.then(|| Peer::of(device)).flatten(),
            peer_works: false,
            device: device.clone(),
        };
        Self {
            began: SystemTime::now(),
            hardware: Hardware::of(&target, &devices[0]),
            ends: devices.iter().map(end).collect(),
            file_system: String::new(),
            entries: Vec::new(),
            rounds: bench.rounds.unwrap_or(ROUNDS),
            may_have_fewer: bench.rounds.is_none(),
            ceilings: Ceilings::default(),
            warnings: Warnings::default(),
            fault: None,
            interrupted: false,
            budget: common.budget.map_or(1 << 30, |budget| budget.0),
            target,
        }
    }

    /// All cases that the flags ask for and that can be measured. Why others cannot.
    pub fn enter_all(&mut self, common: &Common, bench: &args::Bench) -> Result<Vec<String>, Failure> {
        let mut left_out = Warnings::default();
        let kinds: Vec<DeviceKind> = self.ends.iter().map(|end| end.device.kind()).collect();
        let cases = sweep::cases(common, bench, &kinds, self.hardware.can_poll().is_ok());
        if bench.iopoll.contains(&true) && !cases.iter().any(|case| case.iopoll) {
            left_out.say(format!(
                "{NO_POLLING}: only io_uring polls, and only for reads past the page cache; \
                 let it have them (--engine uring --route bounce)"
            ));
        }
        for case in cases {
            match self.entry(&case) {
                Ok(_) => {}
                Err(Refused { case: Some(case), failure: Failure::Error(why) }) => left_out.say_of_named(case, why),
                Err(Refused { case: None, failure: Failure::Error(why) }) => left_out.say(why),
                Err(refused) => return Err(refused.failure),
            }
        }
        Ok(left_out.told(|_| None))
    }

    /// The entry of a case, which is made where there is none.
    pub fn entry(&mut self, case: &Case) -> Result<usize, Refused> {
        if let Some(number) = self.entries.iter().position(|entry| entry.case == *case) {
            return Ok(number);
        }
        self.file_system = self.try_out(case)?;
        self.entries.push(Entry {
            case: case.clone(),
            runs: Vec::new(),
            lost: Vec::new(),
            peer: Vec::new(),
            before: None,
            after: None,
            proven: Proven::Unknown,
            verified: None,
        });
        Ok(self.entries.len() - 1)
    }

    /// Sees that a case can be measured. The file system that the file is on.
    pub fn try_out(&self, case: &Case) -> Result<String, Refused> {
        let chunk = shown(case.chunk);
        if case.memory() > self.budget {
            let case = format!("{chunk} at depth {} ({})", case.depth, shown(case.memory()));
            return Err(Refused::case(case, "takes more than the budget; raise it (--budget)"));
        }
        if case.chunk > self.target.len {
            return Err(Refused::case(chunk, "larger than the file; name a larger one"));
        }
        let polled = if case.iopoll { self.hardware.can_poll_for(case.chunk).map_err(Failure::Error) } else { Ok(()) };
        let tried = polled.and_then(|()| Rig::try_out(case, self.device_of(case), &self.target.path));
        tried.map_err(|failure| Refused {
            case: None,
            failure: match failure {
                Failure::Error(why) if case.iopoll => Failure::Error(format!("{NO_POLLING}: {why}")),
                Failure::Error(why) => Failure::Error(format!("route {} is left out: {why}", case.route)),
                failure => failure,
            },
        })
    }

    pub fn device_of(&self, case: &Case) -> &Device {
        &self.ends[case.device].device
    }

    /// As many rounds as `time` allows of runs that are long enough, in all.
    pub fn run(&mut self, time: Duration, interrupt: &Interrupt) -> Outcome {
        self.measure_ceilings();
        // A case, and who does the same.
        let sides = |ends: &[End], entry: &Entry| 1 + usize::from(ends[entry.case.device].peer.is_some());
        let turns: usize = self.entries.iter().map(|entry| sides(&self.ends, entry)).sum();
        let fitting = (time.as_secs_f64() / SHORTEST.as_secs_f64() / turns as f64) as usize;
        if fitting < self.rounds && self.may_have_fewer {
            self.warnings.say(format!(
                "{} in {} s leave time for {} in place of {}; give more (--seconds), or ask for fewer cases",
                counted(self.entries.len() as u64, "case"),
                time.as_secs_f64(),
                counted(fitting.max(1) as u64, "round"),
                self.rounds
            ));
            self.rounds = fitting.max(1);
        }
        let each = (time / (turns * self.rounds) as u32).max(SHORTEST);
        let bar = Progress::of_steps((turns * self.rounds) as u64);
        let start = Instant::now();
        for round in 0..self.rounds {
            // What lies between the runs, such as filling the page cache, takes its time, too.
            if self.may_have_fewer && round > 0 && start.elapsed() / round as u32 * (round as u32 + 1) > time * 5 / 4 {
                self.warnings.say(format!(
                    "{} took {:.0} s of {:.0}, and no more were begun; give more (--seconds), or ask for \
                     fewer cases",
                    counted(round as u64, "round"),
                    start.elapsed().as_secs_f64(),
                    time.as_secs_f64()
                ));
                self.rounds = round;
                break;
            }
            for number in 0..self.entries.len() {
                if interrupt.has_come() {
                    self.interrupted = true;
                    return Ok(());
                }
                // What was lost is in the report.
                let (Turn::Taken | Turn::Lost(_)) = self.turn(number, round as u64, each, interrupt)?;
                bar.advance(sides(&self.ends, &self.entries[number]) as u64);
            }
        }
        Ok(())
    }

    /// What the machine can do of itself.
    pub fn measure_ceilings(&mut self) {
        let (memory, all) = ceilings::memory(Duration::from_millis(200));
        (self.ceilings.memory_copy, self.ceilings.memory_copy_all) = (memory, all);
        for End { device, .. } in &self.ends {
            if let Err(error) = self.ceilings.measure_link(device, Duration::from_millis(50)) {
                self.warnings.say(format!("the link to {device} could not be measured: {error}"));
            }
        }
    }

    /// One run of an entry, and of the peer beside it. What fails loses that run.
    pub fn turn(&mut self, number: usize, round: u64, time: Duration, interrupt: &Interrupt) -> Result<Turn, Failure> {
        let turn = match self.measure(number, round, time, interrupt) {
            Ok(()) => Turn::Taken,
            // What was interrupted is not lost.
            Err(Failure::Error(_)) if interrupt.has_come() => return Ok(Turn::Taken),
            Err(Failure::Error(why)) => {
                self.entries[number].lost.push(why.clone());
                Turn::Lost(why)
            }
            Err(failure) => return Err(failure),
        };
        if matches!(turn, Turn::Taken) && !interrupt.has_come() {
            self.measure_peer(number, round, time, interrupt);
        }
        Ok(turn)
    }

    fn measure(&mut self, number: usize, round: u64, time: Duration, interrupt: &Interrupt) -> Outcome {
        let (target, entry) = (&self.target, &mut self.entries[number]);
        let rig = Rig::new(&entry.case, &self.ends[entry.case.device].device, &target.path)?;
        rig.get_ready(round)?;
        // Once warm, a file stays so: only where somebody else empties the cache does this read it again.
        let proven = cache::prepare(target, entry.case.cache).map_err(|error| no_cache(target, &error))?;
        entry.proven = worse(entry.proven, proven, entry.runs.is_empty());
        if entry.case.cache == Cache::Warm && self.ceilings.page_cache_copy.is_none() {
            self.ceilings.page_cache_copy = ceilings::page_cache(target, Duration::from_millis(200));
        }
        let before = cache::share(target);
        let run = rig.run(&entry.case, time, round, &|| !interrupt.has_come()).inspect_err(|failure| {
            if let (Failure::Error(why), false) = (failure, interrupt.has_come()) {
                self.fault.get_or_insert_with(|| why.clone());
            }
        })?;
        let after = cache::share(target);
        // Before it rests again.
        let links = Hardware::of(target, &self.ends[0].device).pcie();
        self.ceilings.pcie = pcie::fastest(std::mem::take(&mut self.ceilings.pcie), links);
        drop(rig);
        if !interrupt.has_come() {
            entry.before = most(entry.before, before);
            entry.after = most(entry.after, after);
            entry.runs.push(run);
        }
        Ok(())
    }

    /// Beside the last run of an entry. A failure of the peer's loses its own run alone, or all of them where it never worked.
    fn measure_peer(&mut self, number: usize, round: u64, time: Duration, interrupt: &Interrupt) {
        let (target, entry) = (&self.target, &mut self.entries[number]);
        let end = &mut self.ends[entry.case.device];
        let Some(peer) = &end.peer else { return };
        // It has memory for all that it may have under way, where a loader has its budget.
        let takes = entry.case.in_flight() * entry.case.block();
        if takes > self.budget {
            let what = Sentence::new(format!("{} is left out beside ", peer.name()))
                .with(Count(entry.case.in_flight()))
                .and(" reads at once, for which it takes ")
                .with(Bytes(takes))
                .and(", more than the budget; raise it (--budget)");
            return self.warnings.say_of(number, what);
        }
        let prepared = cache::prepare(target, entry.case.cache).map_err(|error| cache_fails(target, &error));
        match prepared.and_then(|_| peer.run(target, &entry.case, time, round + 1)) {
            Ok(outcome) => {
                end.peer_works |= outcome.is_some();
                entry.peer.extend(outcome.map(|outcome| (entry.runs.len() - 1, outcome)));
            }
            // It was interrupted with us.
            Err(_) if interrupt.has_come() => {}
            Err(why) if end.peer_works => {
                self.warnings.say_of(number, format!("{} lost a run: {why}", peer.name()));
            }
            Err(why) => {
                self.warnings.say(format!("the comparison is left out: {why}"));
                end.peer = None;
            }
        }
    }

    /// One case of each way of reading, of those that were measured. What cannot be checked is not called right.
    pub fn verify(&mut self) -> Outcome {
        let mut seen: Vec<(Way, Option<bool>)> = Vec::new();
        for number in 0..self.entries.len() {
            if self.entries[number].runs.is_empty() {
                continue;
            }
            let case = self.entries[number].case.clone();
            let way = (case.device, case.pattern == Pattern::Loader, case.route, case.engine, case.iopoll);
            let right = match seen.iter().find(|(known, _)| *known == way) {
                Some((_, right)) => *right,
                None => {
                    let right = self.is_right(&case, number)?;
                    seen.push((way, right));
                    right
                }
            };
            self.entries[number].verified = right;
        }
        Ok(())
    }

    /// `None` where that could not be found out.
    fn is_right(&mut self, case: &Case, number: usize) -> Result<Option<bool>, Failure> {
        let rig = Rig::new(case, self.device_of(case), &self.target.path);
        let (name, route) = (&self.target.name, case.route);
        match rig.and_then(|rig| verify::verify(&rig, &self.target, number as u64)) {
            Ok(None) => Ok(Some(true)),
            Ok(Some(offset)) => {
                self.warnings.say(format!("{name} at {offset}: the first wrong byte that route {route} brought"));
                Ok(Some(false))
            }
            Err(Failure::Error(why)) => {
                self.warnings.say_of(number, format!("the bytes were not checked: {why}"));
                self.fault.get_or_insert(why);
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }
}

fn cache_fails(target: &Target, error: &std::io::Error) -> String {
    format!("{}: its page cache: {error}", target.name)
}

fn no_cache(target: &Target, error: &std::io::Error) -> Failure {
    Failure::Error(cache_fails(target, error))
}

/// What decides which code brings the bytes.
type Way = (usize, bool, Route, forebay::EngineChoice, bool);

/// What all runs together have proven.
fn worse(so_far: Proven, now: Proven, is_first: bool) -> Proven {
    match (so_far, now) {
        (_, now) if is_first => now,
        (Proven::No(share), Proven::No(other)) => Proven::No(share.max(other)),
        (Proven::No(share), _) | (_, Proven::No(share)) => Proven::No(share),
        (Proven::Unknown, _) | (_, Proven::Unknown) => Proven::Unknown,
        (Proven::Yes, Proven::Yes) => Proven::Yes,
    }
}

fn most(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}
