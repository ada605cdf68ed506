//! The `forebay` command. Owns: the command line, exit codes, and what goes to stdout and stderr. May touch: only what
//! the library makes public.
#![deny(unsafe_code)]

mod args;
mod batches;
mod bench;
mod byte_count;
mod carrier;
mod cat;
mod closed_stdout;
mod doctor;
mod failure;
mod hashes;
mod inspect;
mod interrupt;
mod json;
mod load;
mod loader_flags;
mod memory;
mod order;
mod pack;
mod printed_file;
mod read;
mod replaced_file;
mod saver;
#[cfg(test)]
#[path = "../../../tests/common/skipped.rs"]
mod skipped;
mod state_file;
mod stderr;
mod stdout;
mod warnings;
mod whole_number;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::{Failure, Outcome};
use stdout::Stdout;

/// A data or machine error.
const EXIT_ERROR: u8 = 1;
/// A command line that makes no sense.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    interrupt::hold_off_file_size_signal();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) if answer.use_stderr() => return usage(&answer),
        Err(help) => return ended(&closed_stdout::refuse().and_then(|()| print(&help))),
    };
    // What the doctor finds is all in its report.
    if !matches!(cli.command, Command::Doctor(_)) {
        warnings::install();
    }
    ended(&closed_stdout::refuse().and_then(|()| run(&cli)))
}

fn ended(outcome: &Outcome) -> ExitCode {
    match outcome {
        Ok(()) | Err(Failure::StdoutClosed) => ExitCode::SUCCESS,
        Err(Failure::Error(message)) => {
            stderr::line(&format!("error: {message}"));
            ExitCode::from(EXIT_ERROR)
        }
        Err(Failure::Interrupted) => ExitCode::from(interrupt::exit_code()),
        Err(Failure::Usage(message)) => {
            stderr::line(&format!("error: {message}; see `forebay --help`"));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn run(cli: &Cli) -> Outcome {
    match &cli.command {
        Command::Bench(bench) => bench::run(&cli.common, bench),
        Command::Cat(cat) => cat::run(&cli.common, cat),
        Command::Doctor(doctor) => doctor::run(&cli.common, doctor),
        Command::Load(load) => load::run(&cli.common, load),
        Command::Inspect(inspect) => inspect::run(&cli.common, inspect),
        Command::Order(order) => order::run(&cli.common, order),
        Command::Pack(pack) => pack::run(&cli.common, pack),
        Command::Read(read) => read::run(&cli.common, read),
    }
}

/// Help and version, which go to stdout.
fn print(help: &clap::Error) -> Outcome {
    let text = help.render();
    let styled = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let text = if styled { text.ansi().to_string() } else { text.to_string() };
    Stdout::open()?.write(text.as_bytes())
}

/// A mistake is one line, since scripts read the first line of stderr.
fn usage(answer: &clap::Error) -> ExitCode {
    let text = answer.to_string();
    let message: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"))
        .filter(|line| !line.is_empty())
        .collect();
    let message = message.join(" ");
    let message = message.split(" For more information").next().unwrap_or_default();
    stderr::line(&format!("{message}; see `forebay --help`"));
    ExitCode::from(EXIT_USAGE)
}
