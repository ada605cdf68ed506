//! `forebay order`: the batches of training, for programs and for people, of every rank and over stops.
use std::fs;
use std::time::{Duration, SystemTime};

use forebay::dataset::{Dataset, OpenOptions, open};
use forebay::sampler::{Order, Shuffle};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{copies, folder};
use crate::run::{Answer, forebay, link, member, run, write};

mod state;

/// Rows of three bytes, as numpy saves them.
fn npy(rows: usize) -> Vec<u8> {
    let dict = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows}, 3), }}");
    let header = format!("{dict:<117}\n");
    let len = (header.len() as u16).to_le_bytes();
    [&b"\x93NUMPY\x01\x00"[..], &len, header.as_bytes(), &vec![7; rows * 3]].concat()
}

/// A folder with a dataset of so many samples in `data/`.
fn dataset(rows: usize) -> TempDir {
    let folder = folder();
    fs::create_dir(folder.path().join("data")).unwrap();
    write(&folder.path().join("data"), "a.npy", &npy(rows));
    folder
}

fn order(folder: &TempDir, flags: &str) -> Answer {
    let mut command = forebay();
    command.current_dir(folder.path()).args(["order", "data"]).args(flags.split_whitespace());
    Answer::of(&mut command)
}

fn parsed(answer: &Answer) -> (Vec<Value>, Value) {
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
    let text = std::str::from_utf8(&answer.stdout).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut last = lines.pop().unwrap();
    (lines, last["summary"].take())
}

fn batches(folder: &TempDir, flags: &str) -> Vec<Value> {
    parsed(&order(folder, &format!("--json {flags}"))).0
}

fn ids(batches: &[Value]) -> Vec<u64> {
    let ids = batches.iter().flat_map(|batch| batch["ids"].as_array().unwrap());
    ids.map(|id| id.as_str().unwrap().parse().unwrap()).collect()
}

/// What the library says, which has tests of its own.
fn expected(folder: &TempDir, seed: u64, shuffle: Shuffle, epoch: u64) -> Vec<u64> {
    let dataset = open(&[folder.path().join("data")], &OpenOptions::new()).unwrap();
    let mut order = Order::new(&dataset.fingerprint(), dataset.len(), seed, shuffle).epoch(epoch);
    (0..dataset.len()).map(|position| order.sample(position)).collect()
}

#[test]
fn lines_are_those_of_the_contract() {
    let folder = dataset(10);
    let (lines, summary) = parsed(&order(&folder, "--json --batch-size 4 --epochs 2"));
    let line = |epoch: u64, batch: u64, ids: &[&str]| json!({"epoch": epoch, "batch": batch, "ids": ids, "bytes": 3 * ids.len()});
    let epoch = |e| [line(e, 0, &["0", "1", "2", "3"]), line(e, 1, &["4", "5", "6", "7"]), line(e, 2, &["8", "9"])];
    assert_eq!(lines, [epoch(0), epoch(1)].concat());
    let seconds = summary["seconds"].as_f64().unwrap();
    assert!((0.0..10.0).contains(&seconds));
    let expected = json!({
        "batches": 6, "samples": 20, "bytes": 60, "seconds": seconds, "routes": {}, "engine": null, "mode": null,
        "stall_seconds": 0.0,
        "skipped_corrupt": 0,
        "skipped_missing": 0,
    });
    assert_eq!(summary, expected);
}

#[test]
fn samples_of_an_archive_have_its_keys_and_the_bytes_of_all_their_fields() {
    let folder = folder();
    fs::create_dir(folder.path().join("data")).unwrap();
    let members = [("a.jpg", 700), ("a.cls", 1), ("größe 2.jpg", 30), ("x\ny.jpg", 0)];
    let archive = members.map(|(name, len)| member(name, &vec![7; len])).concat();
    write(&folder.path().join("data"), "0.tar", &[&archive[..], &[0; 1024]].concat());
    let lines = batches(&folder, "--batch-size 2 --missing allow");
    assert_eq!((&lines[0]["ids"], &lines[0]["bytes"]), (&json!(["a", "größe 2"]), &json!(731)));
    assert_eq!((&lines[1]["ids"], &lines[1]["bytes"]), (&json!(["x\ny"]), &json!(0)));
    let text = String::from_utf8(order(&folder, "--batch-size 2 --missing allow").stdout).unwrap();
    assert_eq!(text.lines().nth(1), Some(r"epoch 0 batch 1: 1 sample, 0 bytes: x\ny"));
}

#[test]
fn what_is_repeated_is_told_and_only_then() {
    let folder = dataset(10);
    let padded = |rank| -> Vec<Value> {
        let lines = batches(&folder, &format!("--batch-size 3 --rank {rank} --world-size 3"));
        lines.into_iter().map(|mut line| line["padded"].take()).collect()
    };
    assert_eq!(padded(0), [Value::Null, Value::Null]);
    assert_eq!(padded(1), [Value::Null, json!(1)]);
    assert_eq!(padded(2), [Value::Null, json!(1)]);
}

#[test]
fn orders_are_those_of_the_library_for_every_shuffle_seed_and_epoch() {
    let folder = dataset(100);
    for (text, shuffle) in [("none", Shuffle::None), ("full", Shuffle::Full), ("blocks:7", "blocks:7".parse().unwrap())]
    {
        for seed in [0, 9] {
            let epochs = (0..3).flat_map(|epoch| expected(&folder, seed, shuffle, epoch)).collect::<Vec<_>>();
            assert_eq!(ids(&batches(&folder, &format!("--shuffle {text} --seed {seed} --epochs 3"))), epochs);
        }
    }
    // Seed 0 and no shuffle where none is asked for.
    assert_eq!(batches(&folder, ""), batches(&folder, "--shuffle none --seed 0 --batch-size 32 --epochs 1"));
    assert_eq!(batches(&folder, "--shuffle full"), batches(&folder, "--shuffle full --seed 0"));
}

#[test]
fn ranks_together_have_every_sample_under_every_policy() {
    let folder = dataset(103);
    for (flags, samples, equal) in [
        ("--remainder pad", 103, true),
        ("--remainder uneven", 103, false),
        ("--remainder drop", 100, true),
        ("--drop-last", 96, true),
    ] {
        let ranks = [0, 1, 2, 3].map(|rank| {
            batches(&folder, &format!("--shuffle full --batch-size 8 --rank {rank} --world-size 4 {flags}"))
        });
        let all = ranks.iter().flatten().flat_map(|line| {
            let ids = ids(std::slice::from_ref(line));
            let real = ids.len() - line["padded"].as_u64().unwrap_or(0) as usize;
            ids.into_iter().take(real)
        });
        let mut all: Vec<u64> = all.collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), samples, "{flags}");
        let lens =
            ranks.each_ref().map(|lines| lines.iter().map(|line| line["ids"].as_array().unwrap().len()).collect());
        assert_eq!(lens.windows(2).all(|pair: &[Vec<usize>]| pair[0] == pair[1]), equal, "{flags}");
    }
}

#[test]
fn threads_engines_devices_and_budgets_change_nothing() {
    let folder = dataset(100);
    let plain = batches(&folder, "--shuffle full");
    for flags in [
        "--workers 0",
        "--workers 1",
        "--workers 2 --prefetch 1",
        "--workers 7 --prefetch 64",
        "--engine pread --route cached --device host --budget 1MiB",
        "--skip-corrupt 5",
    ] {
        assert_eq!(batches(&folder, &format!("--shuffle full {flags}")), plain, "{flags}");
        assert_eq!(batches(&folder, flags), batches(&folder, ""), "{flags}");
    }
}

#[test]
fn nodes_that_hold_copies_made_in_other_orders_have_one_order() {
    let names: Vec<String> = (0..300).map(|number| format!("data/{number}.npy")).collect();
    let [here, there] = copies(&names, |path| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, npy(2)).unwrap();
    });
    let old = SystemTime::now() - Duration::from_secs(10_000);
    fs::File::options().write(true).open(there.path().join("data/7.npy")).unwrap().set_modified(old).unwrap();
    let one = batches(&here, "--shuffle full --batch-size 600");
    assert_eq!(one, batches(&there, "--shuffle full --batch-size 600"));
    assert_eq!(one[0]["ids"].as_array().unwrap().len(), 600);
}

#[test]
fn the_environment_is_asked_only_where_it_is_asked_for() {
    let folder = dataset(12);
    let told = |flags: &str, variables: &[(&str, &str)]| {
        let mut command = forebay();
        command.current_dir(folder.path()).args(["order", "data", "--json"]).args(flags.split_whitespace());
        Answer::of(command.envs(variables.iter().copied()))
    };
    let torch = [("RANK", "1"), ("WORLD_SIZE", "2")];
    assert_eq!(ids(&parsed(&told("", &torch)).0), (0..12).collect::<Vec<_>>());
    // Where it is asked for, the one line on stderr says which variables they were.
    let of_env = |variables: &[(&str, &str)], said: &str| {
        let mut answer = told("--world env", variables);
        assert_eq!(answer.stderr, format!("{said}\n"));
        answer.stderr.clear();
        ids(&parsed(&answer).0)
    };
    let said = "rank 1 of 2: from RANK and WORLD_SIZE (no launcher's mark)";
    assert_eq!(of_env(&torch, said), (6..12).collect::<Vec<_>>());
    let mpich = [("PMI_RANK", "2"), ("PMI_SIZE", "3")];
    let said = "rank 2 of 3: from PMI_RANK and PMI_SIZE (PMI: MPICH, Intel MPI or another)";
    assert_eq!(of_env(&mpich, said), (8..12).collect::<Vec<_>>());
    assert_eq!(of_env(&[], "rank 0 of 1: no launcher's variables are set"), (0..12).collect::<Vec<_>>());
    for (variables, words) in [
        (&torch[..1], ["RANK=1", "WORLD_SIZE"]),
        (&[torch[0], torch[1], mpich[0], mpich[1]], ["RANK=1", "PMI_RANK=2"]),
        (&[("LOCAL_RANK", "1")], ["LOCAL_RANK=1", "--world-size"]),
        (&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")], ["SLURM_NTASKS=4", "srun"]),
    ] {
        let answer = told("--world env", variables);
        assert!(words.iter().all(|word| answer.error(1).contains(word)), "{}", answer.stderr);
    }
}

#[test]
fn a_command_line_that_makes_no_sense_is_exit_2() {
    let folder = dataset(5);
    for flags in [
        "--rank 0",
        "--world-size 2",
        "--rank 2 --world-size 2",
        "--rank 0 --world-size 0",
        "--rank -1 --world-size 2",
        "--rank 0 --world-size 1 --world env",
        "--world slurm",
        "--batch-size 0",
        "--batch-size 1.5",
        "--epochs 0",
        "--shuffle blocks:0",
        "--shuffle wild",
        "--remainder wrap",
        "--seed -1",
        "--max-batches many",
        "--prefetch 0",
        "--skip-corrupt -1",
        "--format zip",
    ] {
        let answer = order(&folder, flags);
        assert!(answer.error(2).contains("--help"), "{flags}: {}", answer.stderr);
    }
    assert!(run(["order"]).error(2).contains("DATASET"));
}

#[test]
fn what_gives_no_step_is_an_error_and_not_an_endless_loop() {
    let folder = dataset(5);
    for flags in
        ["--drop-last", "--rank 7 --world-size 8 --remainder uneven", "--rank 0 --world-size 8 --remainder drop"]
    {
        let answer = order(&folder, &format!("{flags} --epochs 1000000"));
        assert!(answer.error(1).contains("5 samples"), "{}", answer.stderr);
    }
    write(&folder.path().join("data"), "a.npy", &npy(0));
    let answer = order(&folder, "");
    assert!(answer.error(1).contains("no samples"), "{}", answer.stderr);
}

#[test]
fn people_are_shown_the_same() {
    let folder = dataset(10);
    let text = String::from_utf8(order(&folder, "--batch-size 4 --rank 1 --world-size 2").stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        ["epoch 0 batch 0: 4 samples, 12 bytes: 4 5 6 7", "epoch 0 batch 1: 1 sample, 3 bytes: 9", lines[2]]
    );
    assert!(lines[2].starts_with("2 batches, 5 samples of 15 bytes"), "{text}");
    let none = String::from_utf8(order(&folder, "--max-batches 0").stdout).unwrap();
    assert!(none.starts_with("0 batches, 0 samples of 0 bytes"), "{none}");
}

#[test]
fn a_reader_that_leaves_is_no_mistake() {
    let folder = dataset(100_000);
    let mut command = forebay();
    command.current_dir(folder.path()).args(["order", "data", "--epochs", "1000000"]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut head = [0; 100];
    std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut head).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

/// A terabyte, all of it a hole.
#[test]
fn no_payload_is_read() {
    let folder = dataset(1);
    let path = folder.path().join("data/a.npy");
    let dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (1000, 1000000000), }";
    let header = format!("{dict:<117}\n");
    fs::write(&path, [&b"\x93NUMPY\x01\x00\x76\x00"[..], header.as_bytes()].concat()).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    if let Err(error) = file.set_len(128 + 1_000_000_000_000) {
        crate::common::skipped::skipped(format!("a file cannot be a terabyte long here: {error}"));
        return;
    }
    let (lines, summary) = parsed(&order(&folder, "--json --shuffle full --batch-size 100"));
    assert_eq!((lines.len(), &summary["bytes"]), (10, &json!(1_000_000_000_000_u64)));
    assert!(summary["seconds"].as_f64().unwrap() < 5.0, "{summary}");
}

/// Whatever the format, and whatever the command: otherwise nobody finds the file in a list of many.
#[test]
fn a_dataset_without_samples_is_refused_with_its_paths() {
    let folder = folder();
    let empty = |name: &str, bytes: &[u8]| crate::run::write(folder.path(), name, bytes);
    let rows = r#"{"x":{"dtype":"U8","shape":[0,3],"data_offsets":[0,0]}}"#;
    let cases = [
        (empty("a.tfrecord", b""), ""),
        (empty("b.npy", &npy(0)), ""),
        (empty("c.tar", &[0; 1024]), ""),
        (empty("d.bin", b""), "--format=records --record-bytes=4"),
        (empty("e.safetensors", &[&(rows.len() as u64).to_le_bytes()[..], rows.as_bytes()].concat()), ""),
    ];
    for (path, flags) in &cases {
        let name = path.file_name().unwrap().to_str().unwrap();
        for command in [&["order"][..], &["read", "--device=host"], &["pack", "--out", "/nowhere/out"]] {
            let answer = Answer::of(crate::run::forebay().args(command).args(flags.split_whitespace()).arg(path));
            // An archive without samples warns, too.
            let error = answer.stderr.lines().last().unwrap_or_default();
            assert!(answer.code == Some(1) && error.starts_with("error: "), "{}", answer.stderr);
            assert!(error.contains("no samples") && error.contains(name), "{command:?} {name}: {}", answer.stderr);
        }
    }
    let many = [&cases[1].0, &empty("f.npy", &npy(0))];
    let answer = Answer::of(crate::run::forebay().arg("order").args(many));
    assert!(answer.error(1).contains("b.npy") && answer.stderr.contains("f.npy"), "{}", answer.stderr);
}

/// Editors write it and show nothing of it.
#[test]
fn a_byte_order_mark_in_json_is_named() {
    let folder = dataset(5);
    let with_mark = |name: &str, bytes: &[u8]| crate::run::write(folder.path(), name, bytes);
    let state = with_mark("state", b"\xef\xbb\xbf{}");
    let wide = with_mark("wide", b"\xff\xfe{\0}\0");
    for state in [&state, &wide] {
        let answer = order(&folder, &format!("--resume {}", state.display()));
        assert!(answer.error(1).contains("byte order mark"), "{}", answer.stderr);
    }
    let answer = Answer::of(forebay().args(["bench", "--compare"]).args([&state, &state]));
    assert!(answer.error(1).contains("byte order mark"), "{}", answer.stderr);
}

#[test]
fn a_dangling_link_is_a_warning_and_under_a_flag_an_error() {
    let folder = folder();
    let archive = [member("a.jpg", b"picture"), link("b.jpg", "gone.jpg"), vec![0; 1024]].concat();
    write(folder.path(), "data", &archive);
    let order = |flags: &str| order(&folder, &format!("--format webdataset --json {flags}"));
    let said = "link b.jpg leads to no file in its archive";
    let warned = order("");
    assert_eq!(warned.code, Some(0), "{}", warned.stderr);
    assert!(warned.stderr.starts_with("warning: ") && warned.stderr.contains(said), "{}", warned.stderr);
    let denied = order("--deny-dangling-links");
    assert_eq!((denied.code, denied.stdout.as_slice()), (Some(1), &b""[..]));
    assert!(denied.stderr.starts_with("error: data at ") && denied.stderr.contains(said), "{}", denied.stderr);
}
