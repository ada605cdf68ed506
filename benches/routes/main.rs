//! The routes' benchmark: every route beside what the link and the storage give alone, in one run, on one file.
//!
//! It measures and reports; it judges nothing by its exit code, which is 0 unless something could not be run. One run is
//! noise, so contenders take turns, and medians are shown with the least and the greatest. Under the tests' stand-in for
//! the driver it says that figures are emulated.

mod args;
#[path = "../storage/cache.rs"]
mod cache;
mod carried;
mod child;
mod contender;
mod floor_case;
#[path = "../storage/machine.rs"]
mod machine;
mod overlap_case;
mod pinned_copy;
mod place;
#[path = "../storage/ram_device.rs"]
mod ram_device;
#[path = "../storage/random.rs"]
mod random;
mod requests;
mod rounds;
mod routes_case;
#[path = "../storage/spread.rs"]
mod spread;
mod stand_in;
#[path = "../storage/stop.rs"]
mod stop;
mod storage_alone;
mod throttle;
mod work;

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;

use args::Args;
use place::Place;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((flag, [order])) if flag == child::FLAG => child::main(order),
        // `cargo test --benches` starts this program too, without cargo bench's `--bench`.
        None => {
            println!("nothing measured: run by `cargo bench --bench routes`");
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
    let case = match args.case.as_str() {
        "routes" => routes_case::run,
        "overlap" => overlap_case::run,
        "floor" => floor_case::run,
        other => return Err(format!("no case is called {other}\n{}", args::USAGE)),
    };
    stop::watch();
    println!("{}; {} rounds", machine::describe("no fio"), args.rounds);
    let place = Place::new(args)?;
    let rows = case(args, &place)?;
    if let Some(path) = &args.json {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut file = file.map_err(|e| format!("{}: {e}", path.display()))?;
        for row in rows {
            writeln!(file, "{row}").map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}
