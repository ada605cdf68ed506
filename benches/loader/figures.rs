//! The cases without a rival: a child answers with figures, round by round.

use serde_json::{Value, json};

use crate::args::Args;
use crate::cache;
use crate::child;
use crate::data::Data;
use crate::order::Order;
use crate::spread::Spread;
use crate::stop;

/// What is measured, with its unit, and how much it is; in the order in which it is shown.
pub type Figures = Vec<(String, f64)>;

/// A figure that must not be above a number.
const PROMISED: [(&str, &str, f64); 7] = [
    ("stall-sleep", "% waited, by the clock", 1.0),
    ("stall-spin", "% waited, by the clock", 1.0),
    ("first-records", "first batch, ms", 10.0),
    ("first-tar", "first batch, ms", 10.0),
    ("first-tokens", "first batch, ms", 10.0),
    ("billion", "build with its dataset, ms", 50.0),
    ("billion", "grown over 10000 steps of order, MiB", 1.0),
];

/// Measures and prints; a JSON object for each of the case's parts.
pub fn measure(case: &str, place: &str, data: &Data, args: &Args) -> Result<Vec<Value>, String> {
    let parts: &[&str] = match case {
        "stall" => &["stall-sleep", "stall-spin"],
        "first" => &["first-records", "first-tar", "first-tokens"],
        "billion" => &["billion"],
        _ => &["cycles"],
    };
    parts.iter().map(|part| one(part, place, data, args).map_err(|e| format!("{part} on {place}: {e}"))).collect()
}

fn one(part: &str, place: &str, data: &Data, args: &Args) -> Result<Value, String> {
    let files = if part == "first-tar" { data.shards.clone() } else { vec![data.records.clone()] };
    let mut order = Order {
        case: part.into(),
        files,
        batch: args.batch.unwrap_or(64),
        depth: None,
        budget: args.budget,
        prefetch: args.prefetch,
        samples: 0,
        seed: 0,
        seconds: args.seconds,
    };
    if part == "first-tar" {
        // The index that is warm afterwards.
        child::ask(&order)?;
    }
    let mut answers: Vec<Figures> = Vec::new();
    for _ in 0..args.rounds {
        stop::check()?;
        order.files.iter().try_for_each(|file| cache::drop_file(file))?;
        order.seed += 1;
        answers.push(serde_json::from_value(child::ask(&order)?).map_err(|e| format!("a child's answer: {e}"))?);
    }
    println!("\n{place}, {part}: batches of {}", order.batch);
    let mut figures = serde_json::Map::new();
    for (i, (name, _)) in answers.iter().flatten().take(answers.first().map_or(0, Vec::len)).enumerate() {
        let all = Spread::of(answers.iter().filter_map(|answer| answer.get(i)).map(|(_, figure)| *figure));
        let bound = PROMISED.iter().find(|(of, figure, _)| *of == part && figure == name).map(|(.., bound)| *bound);
        let verdict = match bound {
            Some(bound) if all.median <= bound => format!("  (at most {bound}: met)"),
            Some(bound) => format!("  (at most {bound}: MISSED)"),
            None => String::new(),
        };
        println!("  {name:<40} {all:.3}{verdict}");
        figures.insert(name.clone(), all.json());
    }
    Ok(json!({"place": place, "case": part, "batch": order.batch, "rounds": answers.len(), "figures": figures}))
}
