//! The script's grammar: `key=value`, `key`, and `fail=`, `stall=`, `short=`, with semicolons between them.
use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    Setting(String, String),
    Fault(Fault),
    /// `clear`: forget all faults.
    Clear,
}

/// Something that happens to a call: `NAME:ARG` each time, `NAME@3:ARG` the third time from now, `NAME@3+:ARG` from the
/// third time on.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub call: String,
    /// Calls until it happens; 1 is the next.
    pub after: u64,
    pub once: bool,
    pub effect: Effect,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Effect {
    Fail(i32),
    Stall(Duration),
    Short(u64),
}

/// Keys whose values are numbers; what is misspelt here must not pass for a default.
const NUMBERS: [&str; 11] = [
    "seed",
    "devices",
    "jitter_us",
    "memory",
    "h2d_gbps",
    "d2h_gbps",
    "latency_us",
    "driver",
    "no_init",
    "register_max",
    "paused",
];

pub fn parse(script: &str) -> Result<Vec<Entry>, String> {
    script.split(';').map(str::trim).filter(|part| !part.is_empty()).map(entry).collect()
}

fn entry(part: &str) -> Result<Entry, String> {
    let (key, value) = part.split_once('=').map_or((part, ""), |(key, value)| (key.trim(), value.trim()));
    match key {
        "clear" => Ok(Entry::Clear),
        "fail" => Ok(Entry::Fault(fault(value, |arg| Some(Effect::Fail(arg.parse().ok()?)))?)),
        "stall" => Ok(Entry::Fault(fault(value, |arg| Some(Effect::Stall(Duration::from_millis(arg.parse().ok()?))))?)),
        "short" => Ok(Entry::Fault(fault(value, |arg| Some(Effect::Short(number(arg)? as u64)))?)),
        _ if NUMBERS.contains(&key) && number(value).is_none() => Err(format!("`{part}`: a number is wanted")),
        _ => Ok(Entry::Setting(key.to_owned(), value.to_owned())),
    }
}

fn fault(text: &str, effect: impl Fn(&str) -> Option<Effect>) -> Result<Fault, String> {
    let wrong = || format!("`{text}`: wanted NAME:ARG, NAME@N:ARG or NAME@N+:ARG");
    let (target, arg) = text.split_once(':').ok_or_else(wrong)?;
    let (call, when) = target.split_once('@').map_or((target, None), |(call, when)| (call, Some(when)));
    let (after, once) = match when {
        None => (1, false),
        Some(when) => match when.strip_suffix('+') {
            Some(n) => (n.parse().map_err(|_| wrong())?, false),
            None => (when.parse().map_err(|_| wrong())?, true),
        },
    };
    let effect = effect(arg.trim()).ok_or_else(wrong)?;
    Ok(Fault { call: call.trim().to_owned(), after, once, effect })
}

/// A number, or a size with its unit.
pub fn number(text: &str) -> Option<f64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    for (unit, shift) in units {
        if let Some(count) = text.strip_suffix(unit) {
            return Some(count.trim().parse::<f64>().ok()? * (1u64 << shift) as f64);
        }
    }
    text.parse().ok()
}
