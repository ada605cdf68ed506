//! Does what it is told in a process of its own, so that its CPU time, memory and threads are its own.

use std::env;
use std::process::Command;

use serde_json::{Value, json};

use crate::order::Order;
use crate::{billion, cycles, first, ours, outcome, stall};

/// The hidden argument that makes this program a child.
pub const FLAG: &str = "--child";

/// Parent: the child's answer.
pub fn ask(order: &Order) -> Result<Value, String> {
    let mut command = Command::new(env::current_exe().map_err(|e| format!("own program: {e}"))?);
    command.arg(FLAG).arg(order.to_json().to_string());
    outcome::answer(command)
}

/// Child: prints its answer.
pub fn main(order: &str) -> Result<(), String> {
    let order: Value = serde_json::from_str(order).map_err(|e| format!("order: {e}"))?;
    let order = Order::from_json(&order).ok_or("the order lacks something")?;
    let answer = match order.case.as_str() {
        "stall-sleep" => json!(stall::run(&order, false)?),
        "stall-spin" => json!(stall::run(&order, true)?),
        "first-records" | "first-tar" | "first-tokens" => json!(first::run(&order)?),
        "billion" => json!(billion::run(&order)?),
        "cycles" => json!(cycles::run(&order)?),
        _ => ours::run(&order)?,
    };
    println!("{answer}");
    Ok(())
}
