//! Runs a contender in a process of its own, so that its CPU time and peak memory are its own.
//!
//! The parent starts this program again with [`FLAG`] and a JSON object; the child prints its outcome as JSON.

use std::env;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cases::Ours;
use crate::workload::{Outcome, Workload};
use crate::{forebay_side, pread_loop};

/// The hidden argument that makes this program a child.
pub const FLAG: &str = "--child";

/// Parent: our side.
pub fn forebay(ours: &Ours, mode: &str, work: &Workload) -> Result<Outcome, String> {
    start(
        json!({"contender": "forebay", "engine": ours.engine, "mode": mode, "budget": ours.budget, "work": work.to_json()}),
    )
}

/// Parent: the one-thread pread loop.
pub fn pread_loop(work: &Workload) -> Result<Outcome, String> {
    start(json!({"contender": "pread-loop", "work": work.to_json()}))
}

fn start(order: Value) -> Result<Outcome, String> {
    let me = env::current_exe().map_err(|e| format!("own program: {e}"))?;
    let output = Command::new(me)
        .arg(FLAG)
        .arg(order.to_string())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("child: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let outcome = serde_json::from_str(&text).ok().and_then(|value| Outcome::from_json(&value));
    outcome.ok_or(format!("child failed ({})", output.status))
}

/// Child: does what the order says and prints the outcome.
pub fn main(order: &str) -> Result<(), String> {
    let order: Value = serde_json::from_str(order).map_err(|e| format!("order: {e}"))?;
    let text = |name: &str| order.get(name).and_then(Value::as_str).unwrap_or_default();
    let work = order.get("work").and_then(Workload::from_json).ok_or("order without work")?;
    let outcome = match text("contender") {
        "forebay" => {
            let budget = order.get("budget").and_then(Value::as_u64).ok_or("order without budget")?;
            forebay_side::run(text("engine"), text("mode"), budget, &work)?
        }
        "pread-loop" => pread_loop::run(&work)?,
        other => return Err(format!("unknown contender {other}")),
    };
    println!("{}", outcome.to_json());
    Ok(())
}
