//! The storage benchmark: our reads against fio's, in the same run, on the same file.
//!
//! It measures and reports; it judges nothing by its exit code, which is 0 unless nothing could be measured: a case whose
//! preconditions do not hold is reported as lost, and the others are measured. One pair
//! of runs is noise, so each case is measured in alternating pairs, and the median of the ratios pair by pair is shown
//! with the least and the greatest.

mod args;
mod cache;
mod cases;
mod child;
mod disk;
mod fio;
mod forebay_side;
mod lost;
mod machine;
mod pread_loop;
mod ram_device;
mod random;
mod round;
mod spread;
mod stop;
mod table;
mod workload;

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::ExitCode;

use args::Args;
use cases::Case;
use fio::Fio;
use lost::Tally;
use ram_device::RamDevice;
use round::Place;
use table::Row;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((flag, [order])) if flag == child::FLAG => child::main(order),
        // `cargo test --benches` starts this program too, without cargo bench's `--bench`.
        None => {
            println!("nothing measured: run by `cargo bench --bench storage`");
            Ok(())
        }
        Some(_) => {
            Args::parse(arguments.into_iter()).map_err(|e| format!("{e}\n{}", args::USAGE)).and_then(|a| bench(&a))
        }
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
    let cases = chosen(args)?;
    if args.list {
        for case in cases {
            println!("{:<8} {}", case.group, case.name);
        }
        return Ok(());
    }
    let fio = match Fio::find(args.fio_tuned) {
        Ok(fio) => fio,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    let mut json = match &args.json {
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            Some(file.map_err(|e| format!("{}: {e}", path.display()))?)
        }
        None => None,
    };
    stop::watch();
    println!("{}", machine::describe(&fio.version));
    println!("{} rounds of {} s per run; ratio: median of pairs [least..greatest]", args.rounds, args.seconds);
    println!("{}", table::HEAD);
    let mut tally = Tally::default();
    if args.disk {
        let place = Place { device: "disk", file: disk::file(&args.dir)?, file_len: disk::FILE_LEN };
        run_all(&cases, &place, &fio, args, json.as_mut(), &mut tally)?;
    }
    if args.ram {
        match RamDevice::new() {
            Ok(device) => {
                let place = Place { device: "ram", file: device.file(), file_len: ram_device::FILE_LEN };
                run_all(&cases, &place, &fio, args, json.as_mut(), &mut tally)?;
            }
            Err(why) => println!("skipped: RAM device: {why}"),
        }
    }
    tally.end()
}

fn chosen(args: &Args) -> Result<Vec<Case>, String> {
    let all = cases::all();
    let matches = |case: &Case, wanted: &String| wanted == "all" || *wanted == case.name || wanted == case.group;
    if let Some(unknown) = args.cases.iter().find(|wanted| !all.iter().any(|case| matches(case, wanted))) {
        return Err(format!("no case or group is called {unknown}; --list names them"));
    }
    Ok(all.into_iter().filter(|case| args.cases.iter().any(|wanted| matches(case, wanted))).collect())
}

fn run_all(
    cases: &[Case],
    place: &Place,
    fio: &Fio,
    args: &Args,
    mut json: Option<&mut File>,
    tally: &mut Tally,
) -> Result<(), String> {
    for case in cases {
        let line = match round::measure(case, place, fio, args) {
            Ok(rounds) => {
                let row = Row::new(case, place, &rounds);
                println!("{}", row.text());
                tally.measured();
                row.json()
            }
            Err(why) => tally.lost(place.device, &case.name, &why)?,
        };
        if let Some(file) = &mut json {
            writeln!(file, "{line}").map_err(|e| format!("JSON: {e}"))?;
        }
    }
    Ok(())
}
