//! Every option that takes a value, of every command, with numbers at the ends of what a number can be: a clean end, whatever
//! it is. The options are those that the help lists, so that none is forgotten.
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use crate::common::folder;
use crate::run::{Answer, NPY, pattern, run, write};
use crate::usage::commands;

const NUMBERS: [&str; 9] = [
    "0",
    "1",
    "-1",
    "2147483648",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "16777216TiB",
];

/// What stands before a number in an option's value.
const PREFIXES: [(&str, &str); 2] = [("shuffle", "blocks:"), ("device", "cuda:")];

/// A command line of a command that makes sense and ends soon, to which one option is added or changed.
fn usual(command: &str, option: &str) -> Vec<(&'static str, &'static str)> {
    let mut options = match command {
        "bench" => vec![
            ("profile", "sequential"),
            ("size", "1MiB"),
            ("seconds", "0.1"),
            ("rounds", "1"),
            ("chunk", "64KiB"),
            ("depth", "2"),
            ("threads", "1"),
            ("peers", "false"),
            ("verify", "false"),
            ("device", "host"),
        ],
        "cat" | "doctor" => Vec::new(),
        "load" => vec![("device", "host")],
        "inspect" | "pack" => vec![("format", "records"), ("record-bytes", "64")],
        _ => vec![("format", "records"), ("record-bytes", "64"), ("device", "host"), ("max-batches", "3")],
    };
    match option {
        "seq-len" => {
            options.retain(|(name, _)| *name != "record-bytes");
            options.iter_mut().filter(|(name, _)| *name == "format").for_each(|(_, value)| *value = "tokens");
        }
        "rank" => options.push(("world-size", "4")),
        "world-size" => options.push(("rank", "0")),
        "workers" => options.push(("batch-size", "4")),
        _ => {}
    }
    options.retain(|(name, _)| *name != option);
    options
}

/// The options of a command that take a value.
fn options(command: &str) -> Vec<String> {
    let help = String::from_utf8(run([command, "--help"]).stdout).unwrap();
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-') && line.contains('<'));
    let long = |line: &str| line.split_whitespace().find_map(|word| word.strip_prefix("--")).map(str::to_owned);
    lines.filter_map(long).collect()
}

/// Runs a command under limits of memory, of the length of a file and of time, since what it is asked for may be huge.
fn limited(folder: &Path, command: &str, option: &str, value: &str, number: usize) -> Answer {
    const LIMITS: &str = "ulimit -v 2000000; ulimit -f 65536; trap '' XFSZ; exec timeout -s KILL 100 \"$@\"";
    let mut sh = std::process::Command::new("sh");
    sh.current_dir(folder).args(["-c", LIMITS, "sh", env!("CARGO_BIN_EXE_forebay"), command]);
    match command {
        "load" => sh.arg("model.safetensors"),
        "doctor" | "bench" => sh.arg("."),
        _ => sh.arg("data"),
    };
    if command == "pack" && option != "out" {
        sh.arg(format!("--out=packed-{option}-{number}"));
    }
    sh.args(usual(command, option).iter().map(|(name, value)| format!("--{name}={value}")));
    sh.arg(format!("--{option}={value}"));
    Answer::of(&mut sh)
}

/// Why an end is not clean; `None` where it is.
fn unclean(answer: &Answer) -> Option<&'static str> {
    let errors = answer.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    let others = answer.stderr.lines().filter(|line| !line.starts_with("error: ")).count();
    let warnings = answer.stderr.lines().filter(|line| line.starts_with("warning: ")).count();
    match answer.code {
        None => Some("it was killed by a signal"),
        Some(124 | 137) => Some("it took too long"),
        Some(0) if errors > 0 => Some("an error, and exit 0"),
        Some(0..=2) if others > warnings => Some("lines that are no warning and no error"),
        Some(1 | 2) if errors != 1 => Some("not one error"),
        Some(0..=2) => None,
        _ => Some("another exit code"),
    }
}

#[test]
fn a_number_of_any_size_ends_every_command_cleanly() {
    let folder = folder();
    write(folder.path(), "data", &pattern(64 * 40));
    let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}   "#;
    let model = [&(header.len() as u64).to_le_bytes()[..], header, b"abc"].concat();
    write(folder.path(), "model.safetensors", &model);
    write(folder.path(), "array.npy", NPY);
    let mut cases: Vec<(String, String)> = Vec::new();
    for command in commands() {
        cases.extend(options(&command).into_iter().map(|option| (command.clone(), option)));
    }
    assert!(cases.len() > 80, "{cases:?}");
    for known in ["workers", "prefetch", "batch-size", "budget", "rank", "skip-corrupt", "depth", "rounds", "offset"] {
        assert!(cases.iter().any(|(_, option)| option == known), "the help lists no {known}");
    }
    let (next, wrong, refused) = (Mutex::new(cases.into_iter()), Mutex::new(Vec::new()), Mutex::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((command, option)) = { next.lock().unwrap().next() } {
                    let prefix = PREFIXES.iter().find(|(name, _)| *name == option).map_or("", |(_, prefix)| prefix);
                    let mut usage = 0;
                    for (number, text) in NUMBERS.iter().enumerate() {
                        // What takes none of the first three takes no numbers.
                        if number == 3 && usage == 3 {
                            break;
                        }
                        let value = format!("{prefix}{text}");
                        let answer = limited(folder.path(), &command, &option, &value, number);
                        usage += usize::from(answer.code == Some(2));
                        *refused.lock().unwrap() += usize::from(answer.code == Some(2));
                        if let Some(why) = unclean(&answer) {
                            let said: String = answer.stderr.chars().take(600).collect();
                            wrong.lock().unwrap().push(format!("{command} --{option}={value}: {why}: {said}"));
                        }
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(*refused.lock().unwrap() > 100);
}

/// What is counted in threads, memory or processes has a range, which the error tells.
#[test]
fn what_is_out_of_range_is_a_usage_error_that_tells_the_range() {
    for (command, option, value, range) in [
        ("read", "workers", "1025", "from 0 to 1024"),
        ("read", "workers", "4294967296", "from 0 to 1024"),
        ("order", "workers", "18446744073709551616", "from 0 to 1024"),
        ("read", "prefetch", "0", "from 1 to"),
        ("read", "batch-size", "0", "from 1 to"),
        ("read", "epochs", "0", "from 1 to"),
        ("read", "world-size", "4294967296", "from 1 to 4294967295"),
        ("read", "max-batches", "-1", "from 0 to 18446744073709551615"),
        ("bench", "depth", "4097", "from 1 to 4096"),
        ("bench", "threads", "65", "from 1 to 64"),
        ("bench", "rounds", "1001", "from 1 to 1000"),
        ("bench", "seconds", "86401", "86400"),
        ("bench", "chunk", "1GiB", "256MiB"),
        ("pack", "shard-bytes", "0", "at least one byte"),
        ("read", "budget", "0", "at least"),
    ] {
        let mut arguments = vec![command.to_owned(), "/proc/x".into(), format!("--{option}={value}")];
        match (command, option) {
            ("pack", _) => arguments.push("--out=x".into()),
            (_, "world-size") => arguments.push("--rank=0".into()),
            _ => {}
        }
        let answer = run(&arguments);
        let error = answer.error(2);
        assert!(error.contains(&format!("--{option}")) && error.contains(value), "{error}");
        assert!(error.contains(range), "{arguments:?} says no range {range}: {error}");
    }
}
