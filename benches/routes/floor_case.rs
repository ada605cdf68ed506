//! Whether a carrier to the host is as fast as the reader under it: what lands there is what was read.

use serde_json::{Value, json};

use crate::args::Args;
use crate::contender::Contender;
use crate::place::Place;
use crate::rounds::{self, NOISE};
use crate::spread::Spread;
use crate::work::{Order, Outcome};

/// The least share of the reader's rate.
const BOUND: f64 = 0.97;
const HEAD: &str = "\
case        reader GB/s           carrier GB/s          ratio                 CPU s/GB       ratio                 target";

pub fn run(args: &Args, place: &Place) -> Result<Vec<Value>, String> {
    println!("host; {} MiB on {}", place.len >> 20, place.on);
    println!("{HEAD}");
    // As the storage benchmark asks for them.
    let shapes = [("seq-1m", 1 << 20, 0, 2 << 20, 8), ("rand-128k", 1 << 20, 128 << 10, 4 << 20, 2)];
    let mut rows = Vec::new();
    for (name, chunk, piece, request, ahead) in shapes {
        let carrier = Order {
            contender: Contender::Bounce,
            device: "host".into(),
            file: place.file.clone(),
            chunk,
            depth: args.depth,
            budget: 256 << 20,
            request,
            ahead,
            piece,
            into: false,
            bytes: u64::MAX,
            seconds: args.seconds,
            seed: 1,
            check: true,
            group: None,
        };
        let reader = Order { contender: Contender::Storage, ..carrier.clone() };
        let rounds = rounds::measure(&[reader, carrier], args.count(), &[], place)?;
        if let Some(why) = rounds.failures.iter().flatten().next() {
            return Err(format!("{name}: {why}"));
        }
        let rate = |order| Spread::of(rounds.outcomes(order).map(|outcome| outcome.bytes_per_second() / 1e9));
        let cpu = |order| Spread::of(rounds.outcomes(order).map(Outcome::cpu_seconds_per_gb)).median;
        let ratio = |of: fn(&Outcome) -> f64| {
            Spread::of(rounds.each([0, 1], |[reader, carrier]| of(carrier) / of(reader)).into_iter())
        };
        let (rates, cpus) = (ratio(Outcome::bytes_per_second), ratio(Outcome::cpu_seconds_per_gb));
        let met = rates.median >= BOUND;
        println!(
            "{name:<11} {:<21} {:<21} {:<21} {:<14} {:<21} ≥ {BOUND}: {}{}",
            format!("{:.3}", rate(0)),
            format!("{:.3}", rate(1)),
            format!("{rates:.3}"),
            format!("{:.3}/{:.3}", cpu(1), cpu(0)),
            format!("{cpus:.3}"),
            if met { "met" } else { "MISSED" },
            match rounds.noise() {
                noise if noise > NOISE => format!(" (others took up to {:.0} % of the CPUs)", noise * 100.0),
                _ => String::new(),
            },
        );
        rows.push(json!({
            "case": "floor", "shape": name, "on": place.on, "reader_bytes_per_second": rate(0).json(),
            "carrier_bytes_per_second": rate(1).json(), "ratio": rates.json(), "cpu_ratio": cpus.json(),
            "bound": BOUND, "met": met, "noise": rounds.noise(),
        }));
    }
    Ok(rows)
}
