//! `bench` of files that nobody can write to.
use crate::bench::{bench, report};
use crate::common::Skip;
use crate::common::mounts::{self, Mounted};
use crate::or_skip;
use crate::run::pattern;

fn each_row_is_measured(mounted: Result<Mounted, Skip>) {
    let mounted = or_skip!(mounted);
    let (rows, summary) = report(&bench(&mounted.dir.join("data.bin"), &["--route=cached"]));
    assert_eq!(summary["file_system"], mounted.kind);
    assert!(summary["lost"].as_array().unwrap().is_empty(), "{summary}");
    let caches: Vec<&str> = rows.iter().map(|row| row["cache"].as_str().unwrap()).collect();
    assert!(caches.contains(&"cold") && caches.contains(&"warm"), "{rows:?}");
    assert!(rows.iter().all(|row| row["verified"] == true), "{rows:?}");
}

#[test]
fn a_file_on_squashfs_is_measured() {
    each_row_is_measured(mounts::squashfs(&[("data.bin", &pattern(12 << 20))]));
}

#[test]
fn a_file_on_erofs_is_measured() {
    each_row_is_measured(mounts::erofs(&[("data.bin", &pattern(12 << 20))]));
}
