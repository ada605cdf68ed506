use std::fs::File;

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
    for command in [&["doctor", "/"][..], &["cat", "/proc/self/exe"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let answer = Answer::of(forebay().args(command).stdout(full));
        assert!(answer.error(1).contains("stdout"), "{}", answer.stderr);
    }
}
