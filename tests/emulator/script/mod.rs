//! What the script says: settings, scripted failures and stalls, and how often each call was made. It is read from
//! `FOREBAY_EMULATOR` at the first call and from the control interface at any time: `key=value; key; ...`.
//!
//! | key | |
//! |---|---|
//! | `seed` | of jitter and of the order in batches |
//! | `jitter_us` | each operation on a stream begins up to so much late; 300 if not given |
//! | `paused=1` | streams begin no operation until `paused=0` |
//! | `h2d_gbps`, `d2h_gbps`, `latency_us` | the link of each device and direction; without them it takes no time |
//! | `devices`, `memory`, `pci=A,B`, `peers=0>1,1>0`, `attributes=116:0` | the machine |
//! | `driver=13000`, `no_init=CODE`, `no_batch` | the driver |
//! | `register_max=BYTES`, `no_spanning` | cuMemHostRegister takes no more; no copy spans two registrations |
//! | `pageable` | asynchronous copies take memory that is not registered, and wait |
//! | `watch=whole` | host memory of queued copies is compared whole, not by samples |
//! | `quiet` | violations and notes are not said on stderr |
//! | `report=PATH` | violations, leaks and calls are written there when the process exits |
//! | `fail=CALL@N:CODE`, `fail=CALL@N+:CODE`, `fail=CALL:CODE` | the N-th call from now, from it on, or each fails |
//! | `stall=CALL@N:MS`, `short=CALL@N:BYTES` | likewise, for calls that take long or move less |
//! | `clear` | forgets all of the last two, and ends the stalls that have begun |
//!
//! `execute` as a CALL is each operation as a stream begins it: failing there, it loses the context. Other keys are kept
//! for whoever asks.
mod grammar;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::sync::lock;
use crate::{codes, process, violations};
use grammar::{Effect, Entry, Fault};

/// What the script wants of this call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Go,
    /// Return this code and do nothing.
    Fail(i32),
    /// Move at most so many bytes.
    Short(u64),
}

/// A key that is asked for with each operation, at hand without the lock.
#[derive(Debug)]
pub struct Number {
    name: &'static str,
    default: f64,
    bits: AtomicU64,
}

pub static JITTER_US: Number = Number::new("jitter_us", 300.0);
pub static PAUSED: Number = Number::new("paused", 0.0);
pub static H2D_GBPS: Number = Number::new("h2d_gbps", 0.0);
pub static D2H_GBPS: Number = Number::new("d2h_gbps", 0.0);
pub static LATENCY_US: Number = Number::new("latency_us", 0.0);
pub static SEED: Number = Number::new("seed", 0.0);
pub static PAGEABLE: Number = Number::new("pageable", 0.0);
pub static NO_SPANNING: Number = Number::new("no_spanning", 0.0);
const AT_HAND: [&Number; 8] = [&JITTER_US, &PAUSED, &H2D_GBPS, &D2H_GBPS, &LATENCY_US, &SEED, &PAGEABLE, &NO_SPANNING];

impl Number {
    const fn new(name: &'static str, default: f64) -> Number {
        Number { name, default, bits: AtomicU64::new(default.to_bits()) }
    }

    pub fn get(&self) -> f64 {
        f64::from_bits(self.bits.load(Ordering::Relaxed))
    }

    /// A key without a value is switched on.
    pub fn is_on(&self) -> bool {
        self.get() != 0.0
    }

    fn refresh(&self, settings: &BTreeMap<String, String>) {
        let value = settings.get(self.name).map(|value| grammar::number(value).unwrap_or(1.0));
        self.bits.store(value.unwrap_or(self.default).to_bits(), Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Script {
    settings: BTreeMap<String, String>,
    faults: Vec<Fault>,
    calls: BTreeMap<String, u64>,
}

/// How often faults were forgotten.
static CLEARED: AtomicU64 = AtomicU64::new(0);

static SCRIPT: Mutex<Option<Script>> = Mutex::new(None);

/// Counts the call, sleeps out a scripted stall and says whether it may go on. Every exported function begins with it.
pub fn begin(name: &'static str) -> Verdict {
    // First of all: in a forked child the locks below may be held for ever.
    if !process::is_ours() {
        return Verdict::Fail(codes::NOT_INITIALIZED);
    }
    process::stay_loaded();
    let (verdict, stall) = with(|script| {
        match script.calls.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(script.calls.insert(name.to_owned(), 1)),
        }
        let (verdict, stall) = script.strike(name);
        (verdict, stall.map(|time| (time, CLEARED.load(Ordering::Relaxed))))
    });
    if let Some((time, cleared)) = stall {
        sleep_out(time, cleared);
    }
    verdict
}

/// Ends early where the faults are forgotten meanwhile.
fn sleep_out(time: Duration, cleared: u64) {
    const NAP: Duration = Duration::from_millis(2);
    let until = Instant::now().checked_add(time);
    while CLEARED.load(Ordering::Relaxed) == cleared {
        let left = until.map_or(NAP, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(NAP));
    }
}

/// The value of a key of the script, whoever it is for. A key without a value has an empty one.
pub fn setting(name: &str) -> Option<String> {
    with(|script| script.settings.get(name).cloned())
}

/// The number a key has, in bytes if it is a size; `default` where the script does not name it.
pub fn number(name: &str, default: f64) -> f64 {
    setting(name).and_then(|value| grammar::number(&value)).unwrap_or(default)
}

/// Takes in more of a script.
pub fn add(text: &str) -> Result<(), String> {
    let entries = grammar::parse(text)?;
    with(|script| script.take(entries));
    Ok(())
}

/// How often a call was made since the last reset.
pub fn calls(name: &str) -> u64 {
    with(|script| script.calls.get(name).copied().unwrap_or(0))
}

pub fn all_calls() -> BTreeMap<String, u64> {
    with(|script| script.calls.clone())
}

pub fn reset_calls() {
    with(|script| script.calls.clear());
}

impl Script {
    fn take(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            match entry {
                Entry::Setting(key, value) => {
                    self.settings.insert(key, value);
                }
                Entry::Fault(fault) => self.faults.push(fault),
                Entry::Clear => {
                    self.faults.clear();
                    CLEARED.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        AT_HAND.iter().for_each(|number| number.refresh(&self.settings));
    }

    /// Lets the faults of this call count down, and gives what those do whose time has come.
    fn strike(&mut self, name: &str) -> (Verdict, Option<Duration>) {
        let (mut verdict, mut stall) = (Verdict::Go, None);
        for fault in self.faults.iter_mut().filter(|fault| fault.call == name) {
            fault.after = fault.after.saturating_sub(1);
            if fault.after > 0 {
                continue;
            }
            match fault.effect {
                Effect::Fail(code) => verdict = Verdict::Fail(code),
                Effect::Short(bytes) if verdict == Verdict::Go => verdict = Verdict::Short(bytes),
                Effect::Short(_) => {}
                Effect::Stall(time) => stall = Some(time),
            }
        }
        self.faults.retain(|fault| !(fault.once && fault.after == 0));
        (verdict, stall)
    }
}

fn with<T>(work: impl FnOnce(&mut Script) -> T) -> T {
    let mut wrong = None;
    let result = {
        let mut script = lock(&SCRIPT);
        let script = script.get_or_insert_with(|| {
            let mut script = Script { settings: BTreeMap::new(), faults: Vec::new(), calls: BTreeMap::new() };
            match grammar::parse(&std::env::var("FOREBAY_EMULATOR").unwrap_or_default()) {
                Ok(entries) => script.take(entries),
                Err(why) => wrong = Some(why),
            }
            script
        });
        work(script)
    };
    if let Some(why) = wrong {
        violations::report(format!("FOREBAY_EMULATOR: {why}"));
    }
    result
}
