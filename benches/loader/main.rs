//! The loader benchmark: batches on the host, beside fio, PyTorch's DataLoader and webdataset, in the same run, on the
//! same files, with a cold page cache; and what a loader costs apart from its rate.
//!
//! It measures and reports; it judges nothing by its exit code, which is 0 unless nothing could be measured: a case whose
//! preconditions do not hold is reported as lost, and the others are measured. Contenders
//! take turns, each in a process of its own; medians are shown with the least and the greatest, and ratios are those of
//! one round. All are timed from when they are set up (fio without its start, ours after `build`, the peers from their
//! first batch on), and whoever takes the batches counts their bytes and touches none. That ours are the right bytes is
//! checked outside the measured time, in its last batch and some that follow.

mod args;
mod billion;
#[path = "../storage/cache.rs"]
#[allow(dead_code)]
mod cache;
mod child;
mod cycles;
mod data;
mod figures;
#[path = "../storage/fio.rs"]
#[allow(dead_code)]
mod fio;
mod fio_side;
mod first;
#[path = "../storage/lost.rs"]
mod lost;
#[path = "../storage/machine.rs"]
#[allow(dead_code)]
mod machine;
mod order;
mod ours;
mod outcome;
mod race;
#[path = "../storage/ram_device.rs"]
mod ram_device;
#[path = "../storage/random.rs"]
#[allow(dead_code)]
mod random;
#[path = "../storage/spread.rs"]
mod spread;
mod stall;
#[path = "../storage/stop.rs"]
mod stop;
mod table;
#[path = "../storage/workload.rs"]
#[allow(dead_code)]
mod workload;

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use args::Args;
use data::Data;
use fio::Fio;
use lost::Tally;
use race::{Contender, Race};
use ram_device::RamDevice;
use table::Table;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match &arguments[..] {
        [flag, order] if flag == child::FLAG => child::main(order),
        // `cargo test --benches` starts this program too, without cargo bench's `--bench`.
        [] => {
            println!("nothing measured: run by `cargo bench --bench loader`");
            Ok(())
        }
        _ => Args::parse(arguments.into_iter()).map_err(|e| format!("{e}\n{}", args::USAGE)).and_then(|a| bench(&a)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &Args) -> Result<(), String> {
    let fio = Fio::find(args.fio_tuned).map_err(|why| println!("skipped: fio: {why}")).ok();
    let needs_peers = args.wants("records") || args.wants("tar");
    if needs_peers && args.python.is_none() {
        println!("skipped: PyTorch and webdataset: no --python and no FOREBAY_PEERS");
    }
    stop::watch();
    println!("{}", machine::describe(fio.as_ref().map_or("no fio", |fio| &fio.version)));
    println!("{} rounds of {} s, depth {}; median [least..greatest]", args.rounds, args.seconds, args.depth);
    let mut tally = Tally::default();
    if args.disk {
        std::fs::create_dir_all(&args.dir).map_err(|e| format!("{}: {e}", args.dir.display()))?;
        all_cases(args, "disk", &args.dir, fio.as_ref(), &mut tally)?;
    }
    if args.ram {
        // The records, and the same in archives.
        match RamDevice::with_room(2 * args.size) {
            Ok(device) => all_cases(args, "ram", device.dir(), fio.as_ref(), &mut tally)?,
            Err(why) => println!("skipped: RAM device: {why}"),
        }
    }
    tally.end()
}

fn all_cases(args: &Args, place: &str, dir: &Path, fio: Option<&Fio>, tally: &mut Tally) -> Result<(), String> {
    let peers_read_archives = args.wants("records") && args.python.is_some();
    let data = Data::make(dir, args.size, peers_read_archives || args.wants("tar") || args.wants("first"))?;
    for case in args::CASES.into_iter().filter(|case| args.wants(case)) {
        let lines = match one_case(args, case, place, &data, fio) {
            Ok(lines) => {
                tally.measured();
                lines
            }
            Err(why) => vec![tally.lost(place, case, &why)?],
        };
        write_json(args, &lines)?;
    }
    Ok(())
}

/// Measures and prints a case; its lines of JSON.
fn one_case(args: &Args, case: &str, place: &str, data: &Data, fio: Option<&Fio>) -> Result<Vec<Value>, String> {
    let race = match case {
        "records" => Race::records(data, args)?,
        "tokens" => Race::tokens(data, args, false),
        "whole-tokens" => Race::tokens(data, args, true),
        "tar" => Race::tar(data, args),
        _ => return figures::measure(case, place, data, args),
    };
    let who = usable(race.contenders(args, fio.is_some()), args);
    let rounds = race.run(args, fio, &who)?;
    let table = Table { place, race: &race, who: &who, rounds: &rounds };
    print!("{}", table.text());
    Ok(table.json())
}

/// Those whose Python has what they need; the others are named aloud.
fn usable(who: Vec<Contender>, args: &Args) -> Vec<Contender> {
    let has = |module: &str| {
        let python = args.python.as_ref().ok_or("no Python".to_owned())?;
        let output = std::process::Command::new(python).args(["-c", &format!("import {module}")]).output();
        let output = output.map_err(|e| format!("{}: {e}", python.display()))?;
        let said = String::from_utf8_lossy(&output.stderr).trim().lines().last().unwrap_or("no reason").to_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    };
    let missing = |module: &str, begins: &str| {
        let wanted = who.iter().any(|it| it.is_peer() && it.name().starts_with(begins));
        let missing = if wanted { has(module).err() } else { None };
        missing.inspect(|why| println!("skipped: {begins}: {why}")).is_some()
    };
    // webdataset's batches are PyTorch's tensors.
    let no_torch = missing("torch", "torch");
    let no_webdataset = missing("torch, webdataset", "webdataset");
    let is_usable = |it: &Contender| match it {
        Contender::Peer(name, _) if name.starts_with("torch") => !no_torch,
        Contender::Peer(..) => !no_webdataset,
        _ => true,
    };
    who.iter().filter(|it| is_usable(it)).cloned().collect()
}

fn write_json(args: &Args, lines: &[Value]) -> Result<(), String> {
    let Some(path) = &args.json else { return Ok(()) };
    let told = |e| format!("{}: {e}", path.display());
    let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(told)?;
    lines.iter().try_for_each(|line| writeln!(file, "{line}").map_err(told))
}
