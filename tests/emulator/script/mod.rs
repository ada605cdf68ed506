//! What the script says: settings, scripted failures and stalls, and how often each call was made. It is read from
//! `FOREBAY_EMULATOR` at the first call and from the control interface at any time.
mod grammar;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

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

#[derive(Debug)]
struct Script {
    settings: BTreeMap<String, String>,
    faults: Vec<Fault>,
    calls: BTreeMap<String, u64>,
}

static SCRIPT: Mutex<Option<Script>> = Mutex::new(None);

/// Counts the call, sleeps out a scripted stall and says whether it may go on. Every exported function begins with it.
pub fn begin(name: &'static str) -> Verdict {
    // First of all: in a forked child the locks below may be held for ever.
    if !process::is_ours() {
        return Verdict::Fail(codes::NOT_INITIALIZED);
    }
    process::stay_loaded();
    let (verdict, stall) = with(|script| {
        *script.calls.entry(name.to_owned()).or_insert(0) += 1;
        script.strike(name)
    });
    if let Some(time) = stall {
        thread::sleep(time);
    }
    verdict
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
                Entry::Clear => self.faults.clear(),
            }
        }
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
