use std::fs::File;
use std::process::Command;

use crate::run::{Answer, forebay, run};

#[test]
fn a_command_line_that_makes_no_sense_is_exit_2_and_one_line() {
    let cases: [&[&str]; 16] = [
        &[],
        &["frobnicate"],
        &["cat"],
        &["cat", "a", "b"],
        &["cat", "a", "--frobnicate"],
        &["cat", "a", "--offset"],
        &["cat", "a", "--offset", "-1"],
        &["cat", "a", "--offset", "1.5KiB"],
        &["cat", "a", "--length", "1KB"],
        &["cat", "a", "--length", "18446744073709551616"],
        &["cat", "a", "--engine", "aio"],
        &["cat", "a", "--route", "magic"],
        &["cat", "a", "--device", "cuda"],
        &["cat", "a", "--device", "cuda:-1"],
        &["doctor", "--budget", "lots"],
        &["doctor", "--offset", "1"],
    ];
    for case in cases {
        let answer = run(case);
        assert!(answer.error(2).contains("--help"), "{case:?}: {}", answer.stderr);
    }
}

#[test]
fn help_and_version_are_exit_0_on_stdout() {
    for case in [&["--help"][..], &["--version"], &["cat", "--help"], &["doctor", "--help"], &["help", "cat"]] {
        let answer = run(case);
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{case:?}");
        assert!(!answer.stdout.is_empty(), "{case:?}");
    }
    let version = String::from_utf8(run(["--version"]).stdout).unwrap();
    assert_eq!(version.trim(), concat!("forebay ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn an_unknown_suffix_is_answered_with_those_there_are() {
    for bytes in ["12KB", "1k"] {
        let answer = run(["load", "x", "--budget", bytes]);
        let error = answer.error(2);
        assert!(["KiB", "MiB", "GiB", "TiB"].iter().all(|suffix| error.contains(suffix)), "{error}");
    }
}

#[test]
fn the_help_of_a_command_ends_with_a_line_that_the_command_takes() {
    for command in ["cat", "doctor", "load", "inspect", "order", "pack", "read"] {
        let help = String::from_utf8(run([command, "--help"]).stdout).unwrap();
        let example = help.trim_end().lines().last().unwrap();
        let words = example.strip_prefix("Example: forebay ").unwrap_or_else(|| panic!("{help}"));
        assert_eq!(words.split(' ').next(), Some(command));
        // Of files that are not there, which only a command line that makes sense comes to.
        let answer = Answer::of(forebay().current_dir("/proc").args(words.split(" > ").next().unwrap().split(' ')));
        assert_ne!(answer.code, Some(2), "{example}: {}", answer.stderr);
    }
}

/// Every command's help lists them, so it must be true of each.
#[test]
fn options_of_every_command_say_which_they_are_for() {
    let help = |command| {
        let text = String::from_utf8(run([command, "--help"]).stdout).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for command in ["cat", "doctor", "load", "inspect", "order", "pack"] {
        let help = help(command);
        for word in ["`pack`: host only", "`inspect` and `order` read no data", "the most that the tensors may take"] {
            assert!(help.contains(word), "{command}: {help}");
        }
    }
    assert!(help("load").contains("One line per tensor with its SHA-256 before the summary"));
}

#[test]
fn what_needs_a_cuda_device_is_a_clean_error() {
    let file = file!();
    let answer = run(["cat", file, "--route=direct", "--device=host"]);
    let error = answer.error(1);
    assert!(error.contains(file) && error.contains("host memory") && error.contains("CUDA device"), "{error}");
    // Far more than any machine has: without a driver, that is what is said instead.
    let answer = run(["cat", file, "--device=cuda:4096"]);
    let error = answer.error(1);
    assert!(error.contains("cuda:4096") && error.contains("; "), "{error}");
}

#[test]
fn a_full_disk_under_stdout_is_an_error() {
    for command in printing() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let answer = Answer::of(forebay().args(&command).stdout(full));
        assert!(answer.error(1).contains("stdout"), "{command:?}: {}", answer.stderr);
    }
}

#[test]
fn a_closed_stdout_is_an_error_before_anything_is_done() {
    let folder = crate::common::folder();
    let out = folder.path().join("out");
    let pack = ["pack", "/proc/self/exe", "--record-bytes", "1", "-o", out.to_str().unwrap()].map(str::to_owned);
    for command in printing().into_iter().chain([pack.to_vec()]) {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" >&-", "sh", env!("CARGO_BIN_EXE_forebay")]).args(&command);
        let answer = Answer::of(&mut shell);
        assert!(answer.error(1).contains("stdout"), "{command:?}: {}", answer.stderr);
    }
    assert!(!out.exists());
    // What is wrong with the command line is still said first.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$@\" >&-", "sh", env!("CARGO_BIN_EXE_forebay"), "frobnicate"]);
    Answer::of(&mut shell).error(2);
    // To be asked to print nowhere is no error, however that is opened.
    for redirection in [">/dev/null", "1<>/dev/null"] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$@\" {redirection}"), "sh", env!("CARGO_BIN_EXE_forebay"), "--help"]);
        assert_eq!(Answer::of(&mut shell).code, Some(0), "{redirection}");
    }
}

/// Every help, the version, and commands that have something to print.
fn printing() -> Vec<Vec<String>> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    let mut all: Vec<Vec<String>> =
        ["--help", "-h", "--version", "help", "doctor /", "cat /proc/self/exe"].map(words).into();
    all.push(words("inspect /proc/self/exe --record-bytes 1"));
    all.push(words("order /proc/self/exe --record-bytes 1 --max-batches 1"));
    for command in commands().iter().filter(|command| *command != "help") {
        all.push(words(&format!("{command} --help")));
        all.push(words(&format!("help {command}")));
    }
    all
}

/// The headings of a command's help, each with its options in their order.
fn headings(command: &str) -> Vec<(String, Vec<String>)> {
    let help = String::from_utf8(run([command, "--help"]).stdout).unwrap();
    let mut headings: Vec<(String, Vec<String>)> = Vec::new();
    for line in help.lines() {
        if let Some(heading) = line.strip_suffix(':').filter(|heading| heading.chars().all(char::is_alphabetic)) {
            headings.push((heading.to_owned(), Vec::new()));
        } else if line.trim_start().starts_with('-') && !line.trim_start().starts_with("- ") {
            let option = line.split_whitespace().find_map(|word| word.strip_prefix("--")).unwrap();
            headings.last_mut().unwrap().1.push(option.to_owned());
        }
    }
    headings
}

/// The names of the commands, as the help lists them.
pub fn commands() -> Vec<String> {
    let help = String::from_utf8(run(["--help"]).stdout).unwrap();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let first_words = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    first_words.map(|line| line.split_whitespace().next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

#[test]
fn options_stand_under_headings_and_those_of_the_command_come_first() {
    const ORDER: [&str; 6] = ["Arguments", "Measuring", "Dataset", "Order", "Reading", "Output"];
    const COMMON: [&str; 8] = ["engine", "route", "device", "budget", "tuned", "strict-ctime", "json", "help"];
    let commands = commands();
    assert!(commands.len() >= 8, "{commands:?}");
    for command in commands {
        let headings = headings(&command);
        let is_common = |option: &String| COMMON.contains(&option.as_str());
        // Where none of the command's own options are, it comes behind.
        let place = |(name, options): &(String, Vec<String>)| {
            let only_common = !options.is_empty() && options.iter().all(is_common);
            ORDER.iter().position(|known| known == name).map(|place| (only_common, place))
        };
        let places: Vec<_> = headings.iter().map(place).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{command}: {headings:?}");
        for (_, options) in &headings {
            assert!(options.iter().map(is_common).is_sorted(), "{command}: {headings:?}");
        }
        let options = headings.iter().flat_map(|(_, options)| options).map(String::as_str);
        let mut common: Vec<&str> = options.filter(|option| COMMON.contains(option)).collect();
        common.sort_by_key(|option| COMMON.iter().position(|known| known == option));
        assert_eq!(common, COMMON, "{command}");
    }
    let under = |heading: &str| headings("read").into_iter().find(|(name, _)| name == heading).unwrap().1;
    assert_eq!(under("Dataset")[..2], ["format", "record-bytes"]);
    assert_eq!(under("Order")[..2], ["batch-size", "seed"]);
    assert_eq!(under("Reading")[..2], ["workers", "prefetch"]);
    assert!(["save-state", "hash", "json"].iter().all(|name| under("Output").contains(&(*name).to_owned())));
}
