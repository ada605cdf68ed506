//! `bench --iopoll`: polled by proof, or why not.

use crate::bench::{bench, file, report};
use crate::common::folder;

#[test]
fn rows_are_polled_by_proof_and_else_it_says_why_and_what_to_do() {
    let folder = folder();
    let path = file(folder.path());
    let answer = bench(&path, &["--iopoll=true,false"]);
    let (rows, _) = report(&answer);
    assert!(rows.iter().any(|row| row["iopoll"] == false), "{rows:?}");
    let polled: Vec<_> = rows.iter().filter(|row| row["iopoll"] == true).collect();
    let warned = answer.stderr.contains("warning: polling (--iopoll true) is left out: ");
    assert_eq!(polled.is_empty(), warned, "{}", answer.stderr);
    for row in &polled {
        assert!(row["route"] == "bounce" && row["engine"] == "uring" && row["mode"] == "direct", "{row}");
    }
    if polled.is_empty() {
        let fixes = [
            "poll_queues=N",
            "name one on a drive of its own",
            "--engine uring",
            "name a block device",
            "give smaller ones",
        ];
        assert!(fixes.iter().any(|fix| answer.stderr.contains(fix)), "{}", answer.stderr);
        let alone = bench(&path, &["--iopoll=true"]);
        let why = "no case can be measured: polling (--iopoll true) is left out";
        assert!(alone.code == Some(1) && alone.stderr.contains(why), "{}", alone.stderr);
    }
    // What nobody can poll.
    let cached = bench(&path, &["--iopoll=true,false", "--route=cached"]);
    assert!(cached.stderr.contains("--engine uring --route bounce"), "{}", cached.stderr);
    assert!(report(&cached).0.iter().all(|row| row["iopoll"] == false));
}
