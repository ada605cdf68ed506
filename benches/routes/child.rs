//! Runs a contender in a process of its own: its CPU time is its own, and a driver that hangs or crashes takes nobody
//! with it.
//!
//! The parent starts this program again with [`FLAG`] and a JSON object; the child prints its outcome as JSON.

use std::env;
use std::io::Read;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::contender::Contender;
use crate::stop;
use crate::work::{Order, Outcome};
use crate::{carried, machine, pinned_copy, storage_alone};

/// The hidden argument that makes this program a child.
pub const FLAG: &str = "--child";

/// Environment variables for a child.
pub type Vars<'a> = [(&'a str, String)];

/// Parent: runs the order; an error is the child's own, in one line.
pub fn start(order: &Order, vars: &Vars) -> Result<Outcome, String> {
    let me = env::current_exe().map_err(|e| format!("own program: {e}"))?;
    let mut child = Command::new(me)
        .arg(FLAG)
        .arg(order.to_json().to_string())
        .envs(vars.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|e| format!("child: {e}"))?;
    // Start-up, what is under way when the time is over, and a slow device.
    let patience = Duration::from_secs(20) + Duration::from_secs_f64(4.0 * order.seconds.min(60.0));
    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|e| format!("child: {e}"))? {
            Some(status) => break status,
            None if start.elapsed() > patience || stop::check().is_err() => {
                let _ = child.kill();
                let _ = child.wait();
                stop::check()?;
                return Err(format!("no answer within {} s: ended", patience.as_secs()));
            }
            None => thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut text = String::new();
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_string(&mut text).map_err(|e| format!("child: {e}"))?;
    }
    // Libraries may have printed before it.
    let answer: Option<Value> = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
    if let Some(error) = answer.as_ref().and_then(|answer| answer.get("error")?.as_str()) {
        return Err(error.to_owned());
    }
    answer.as_ref().and_then(Outcome::from_json).ok_or(format!("the run ended without an answer ({status})"))
}

/// Child: does what the order says and prints the outcome, or the error.
pub fn main(order: &str) -> Result<(), String> {
    let order: Value = serde_json::from_str(order).map_err(|e| format!("order: {e}"))?;
    let order = Order::from_json(&order).ok_or("order is not whole")?;
    let outcome = join(order.group.as_deref()).and_then(|()| match order.contender {
        Contender::Copy => pinned_copy::run(&order),
        Contender::Storage => storage_alone::run(&order),
        _ => carried::run(&order),
    });
    match outcome {
        Ok(outcome) => println!("{}", Outcome { peak_rss: machine::peak_rss(), ..outcome }.to_json()),
        Err(error) => println!("{}", json!({ "error": error })),
    }
    Ok(())
}

/// Between the warm-up and the clock: a drive held to a rate has a little in hand when it was idle, which all are to
/// have alike.
pub fn settle() {
    thread::sleep(Duration::from_millis(250));
}

fn join(group: Option<&Path>) -> Result<(), String> {
    let Some(group) = group else { return Ok(()) };
    let procs = group.join("cgroup.procs");
    std::fs::write(&procs, process::id().to_string()).map_err(|e| format!("{}: {e}", procs.display()))
}
