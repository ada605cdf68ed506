//! `--save-state` and `--resume`.
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use forebay::sampler::State;
use serde_json::{Value, json};

use super::{batches, dataset, expected, ids, npy, order};
use crate::run::write;

#[test]
fn stopped_and_resumed_twice_with_other_ranks_the_order_goes_on_at_the_same_sample() {
    let folder = dataset(103);
    let flags = "--shuffle full --seed 5 --epochs 2 --remainder uneven";
    let whole = ids(&batches(&folder, flags));
    let mut seen = Vec::new();
    for (size, batch_size, from, to, most) in
        [(1, 10, "", "a", 3), (4, 5, "--resume a", "b", 2), (3, 4, "--resume b", "c", 1000)]
    {
        let mut steps: BTreeMap<_, Vec<u64>> = BTreeMap::new();
        for rank in 0..size {
            let flags = format!(
                "{flags} --rank {rank} --world-size {size} --batch-size {batch_size} {from} --save-state {to}{rank} \
                 --max-batches {most}"
            );
            for line in batches(&folder, &flags) {
                let step = (line["epoch"].as_u64().unwrap(), line["batch"].as_u64().unwrap());
                steps.entry(step).or_default().extend(ids(&[line]));
            }
        }
        seen.extend(steps.into_values().flatten());
        // Every rank saves the same.
        let states: Vec<_> =
            (0..size).map(|rank| fs::read(folder.path().join(format!("{to}{rank}"))).unwrap()).collect();
        assert!(states.windows(2).all(|pair| pair[0] == pair[1]) && states[0].len() < 1024);
        fs::rename(folder.path().join(format!("{to}0")), folder.path().join(to)).unwrap();
    }
    assert_eq!(seen, whole);
    // It is over: nothing more comes, and the state stays.
    let end = fs::read(folder.path().join("c")).unwrap();
    assert_eq!(batches(&folder, "--epochs 2 --resume c --save-state c"), [Value::Null; 0]);
    assert_eq!(fs::read(folder.path().join("c")).unwrap(), end);
}

#[test]
fn a_state_brings_its_seed_and_shuffle_and_refuses_others() {
    let folder = dataset(50);
    order(&folder, "--shuffle blocks:4 --seed 3 --batch-size 10 --max-batches 2 --save-state s");
    let rest = batches(&folder, "--batch-size 10 --resume s");
    assert_eq!(ids(&rest), expected(&folder, 3, "blocks:4".parse().unwrap(), 0)[20..]);
    assert_eq!((&rest[0]["epoch"], &rest[0]["batch"]), (&json!(0), &json!(2)));
    assert_eq!(batches(&folder, "--batch-size 10 --resume s --seed 3 --shuffle blocks:4"), rest);
    for (flags, words) in [("--seed 4", ["seed 3", "4"]), ("--shuffle full", ["blocks:4", "full"])] {
        let answer = order(&folder, &format!("--resume s {flags}"));
        let error = answer.error(1);
        assert!(error.starts_with("error: s: ") && words.iter().all(|word| error.contains(word)), "{error}");
    }
    // A file that is there no more.
    write(&folder.path().join("data"), "b.npy", &npy(7));
    order(&folder, "--batch-size 10 --max-batches 2 --save-state two");
    fs::remove_file(folder.path().join("data/b.npy")).unwrap();
    let answer = order(&folder, "--resume two");
    let error = answer.error(1);
    assert!(error.starts_with("error: two: ") && error.contains("files were 2, now 1"), "{error}");
    // Other data under the same name.
    write(&folder.path().join("data"), "a.npy", &npy(51));
    let answer = order(&folder, "--resume s");
    assert!(answer.error(1).contains("the samples were 50, now 51"), "{}", answer.stderr);
}

#[test]
fn a_file_that_is_no_state_is_refused_with_its_name() {
    let folder = dataset(5);
    order(&folder, "--save-state good");
    let good = fs::read_to_string(folder.path().join("good")).unwrap();
    nix::unistd::mkfifo(&folder.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (name, text, word) in [
        ("empty", String::new(), "JSON"),
        ("cut", good[..good.len() / 2].to_owned(), "JSON"),
        ("list", "[1]".to_owned(), "version"),
        ("newer", good.replace("\"version\":1", "\"version\":9"), "version 9"),
        ("behind", good.replace("\"epoch\":1", "\"epoch\":0").replace("\"position\":0", "\"position\":6"), "sample 6"),
        ("large", "[".repeat(1 << 20), "JSON"),
    ] {
        write(folder.path(), name, text.as_bytes());
        let answer = order(&folder, &format!("--resume {name}"));
        let error = answer.error(1);
        assert!(error.contains(word) && error.contains("; "), "{error}");
        assert!(error.starts_with(&format!("error: {name}: ")), "{error}");
    }
    for name in ["missing", "fifo", "/dev/zero", "data"] {
        assert!(order(&folder, &format!("--resume {name}")).error(1).starts_with(&format!("error: {name}: ")));
    }
}

#[test]
fn a_state_replaces_a_whole_file_or_nothing() {
    let folder = dataset(50);
    let path = folder.path().join("state");
    symlink("state", folder.path().join("link")).unwrap();
    order(&folder, "--batch-size 10 --max-batches 1 --save-state state");
    order(&folder, "--batch-size 10 --max-batches 1 --resume link --save-state link");
    assert!(fs::symlink_metadata(folder.path().join("link")).unwrap().is_symlink());
    let state: State = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!((state.position(), state.batch()), (20, 2));
    let names = |folder: &Path| fs::read_dir(folder).unwrap().count();
    assert_eq!(names(folder.path()), 3);
    // Before anything is done.
    for bad in ["nowhere/state", "data", "/dev/null", "/proc/state"] {
        let answer = order(&folder, &format!("--save-state {bad}"));
        assert!(answer.error(1).starts_with(&format!("error: {bad}: ")), "{}", answer.stderr);
    }
    assert_eq!(names(folder.path()), 3);
}
