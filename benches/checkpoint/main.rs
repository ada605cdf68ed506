//! The checkpoint benchmark: whole models into host memory, beside fio and the loaders that Python has, in the same run,
//! on the same files, with a cold page cache.
//!
//! It measures and reports; it judges nothing by its exit code, which is 0 unless something could not be run. Contenders
//! take turns, each in a process of its own; medians are shown with the least and the greatest, and ratios are those of
//! one round.

mod args;
#[path = "../storage/cache.rs"]
#[allow(dead_code)]
mod cache;
mod contender;
#[path = "../storage/fio.rs"]
#[allow(dead_code)]
mod fio;
#[path = "../storage/machine.rs"]
#[allow(dead_code)]
mod machine;
mod model;
#[path = "../storage/ram_device.rs"]
mod ram_device;
#[path = "../storage/random.rs"]
#[allow(dead_code)]
mod random;
#[path = "../storage/spread.rs"]
mod spread;
#[path = "../storage/stop.rs"]
mod stop;
#[path = "../storage/workload.rs"]
#[allow(dead_code)]
mod workload;

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use args::Args;
use contender::{Contender, Outcome, PEERS};
use fio::Fio;
use model::Model;
use ram_device::RamDevice;
use spread::Spread;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match &arguments[..] {
        [flag, how, path] if flag == contender::FLAG => contender::child(how, Path::new(path)),
        // `cargo test --benches` starts this program too, without cargo bench's `--bench`.
        [] => {
            println!("nothing measured: run by `cargo bench --bench checkpoint`");
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
    let fio = Fio::find(false).map_err(|why| println!("skipped: fio: {why}")).ok();
    if args.peers.is_none() {
        println!("skipped: peers: no --peers and no FOREBAY_PEERS");
    }
    stop::watch();
    println!("{}", machine::describe(fio.as_ref().map_or("no fio", |fio| &fio.version)));
    println!("{} rounds; GB/s, ratios and peak: median [least..greatest]", args.rounds);
    if args.disk {
        std::fs::create_dir_all(&args.dir).map_err(|e| format!("{}: {e}", args.dir.display()))?;
        all_cases(args, "disk", &args.dir, fio.as_ref())?;
    }
    if args.ram {
        match RamDevice::with_room(args.size) {
            Ok(device) => all_cases(args, "ram", device.dir(), fio.as_ref())?,
            Err(why) => println!("skipped: RAM device: {why}"),
        }
    }
    Ok(())
}

fn all_cases(args: &Args, place: &str, dir: &Path, fio: Option<&Fio>) -> Result<(), String> {
    for case in &args.cases {
        match case.as_str() {
            "model" => {
                let model = Model::mixed(dir, args.size)?;
                let fio = fio.is_some().then_some(Contender::Fio);
                let contenders: Vec<Contender> =
                    fio.into_iter().chain([Contender::Recycled, Contender::Fresh]).collect();
                let with_peers = contenders.iter().cloned().chain(PEERS.map(Contender::Peer));
                let turns: Vec<_> = with_peers.map(|contender| (contender, &model)).collect();
                let result = rounds(args, place, "model", &turns);
                model.remove();
                result?;
            }
            _ => {
                let bytes = args.size / 2;
                let (one, many) = (Model::one(dir, bytes)?, Model::small(dir, bytes, 90_000, 160)?);
                let turns = [
                    (Contender::Recycled, &one),
                    (Contender::Recycled, &many),
                    (Contender::Fresh, &one),
                    (Contender::Fresh, &many),
                    (Contender::Peer("safetensors-clone"), &many),
                    (Contender::Peer("fastsafetensors"), &many),
                    (Contender::Peer("runai-model-streamer"), &many),
                ];
                let result = rounds(args, place, "shards", &turns);
                one.remove();
                many.remove();
                result?;
            }
        }
    }
    Ok(())
}

fn rounds(args: &Args, place: &str, case: &str, turns: &[(Contender, &Model)]) -> Result<(), String> {
    let fio = Fio::find(false).ok();
    // Of each round, so that ratios are those of one; none where it was lost.
    let mut outcomes: Vec<Vec<Option<Outcome>>> = vec![Vec::new(); turns.len()];
    let wanted = |contender: &Contender| {
        let named = args.only.is_empty() || args.only.iter().any(|name| contender.name().contains(name.as_str()));
        named && (args.peers.is_some() || !matches!(contender, Contender::Peer(_)))
    };
    for _ in 0..args.rounds {
        for ((contender, model), outcomes) in turns.iter().zip(&mut outcomes).filter(|((turn, _), _)| wanted(turn)) {
            stop::check()?;
            if let Err(why) = model.files.iter().try_for_each(|file| cache::drop_file(file)) {
                println!("lost: {}: {why}", contender.name());
                outcomes.push(None);
                continue;
            }
            match contender.run(model, fio.as_ref(), args.peers.as_deref()) {
                Ok(outcome) => outcomes.push(Some(outcome)),
                Err(why) => {
                    println!("skipped: {}: {why}", contender.name());
                    outcomes.push(None);
                }
            }
        }
    }
    println!("\n{place}, {case}");
    println!(
        "{:<22} {:>6} {:>8} {:>22} {:>24} {:>12}",
        "loader", "files", "tensors", "GB/s", "ratio to the first", "peak MiB"
    );
    let first: Vec<Option<Outcome>> = outcomes.first().cloned().unwrap_or_default();
    for ((contender, model), all) in turns.iter().zip(&outcomes) {
        let outcomes: Vec<&Outcome> = all.iter().flatten().collect();
        if outcomes.is_empty() {
            continue;
        }
        let rate = Spread::of(outcomes.iter().map(|outcome| outcome.rate() / 1e9));
        let pairs = all.iter().zip(&first).filter_map(|(outcome, first)| Some((outcome.as_ref()?, first.as_ref()?)));
        let ratio = Spread::of(pairs.map(|(outcome, first)| outcome.rate() / first.rate()));
        // Of a child without an answer of this kind there is none.
        let peak = outcomes.iter().filter_map(|outcome| outcome.peak).max();
        let over = peak.map_or("-".to_owned(), |peak| format!("{}", peak >> 20));
        let (name, files) = (contender.name(), model.files.len());
        println!("{name:<22} {files:>6} {:>8} {rate:>22.2} {ratio:>24.2} {over:>12}", model.tensors);
        if let Some(path) = &args.json {
            let line = json!({
                "place": place, "case": case, "loader": name, "files": files, "tensors": model.tensors,
                "bytes": model.bytes, "gigabytes_per_second": rate.json(), "ratio_to_first": ratio.json(),
                "peak_bytes": peak, "rounds": outcomes.len(),
            });
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.and_then(|mut file| writeln!(file, "{line}")).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}
