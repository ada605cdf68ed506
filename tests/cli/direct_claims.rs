//! What is called direct went past the page cache. The oracle is util-linux's `fincore`, which asks the kernel what of a file
//! the cache holds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::common::mounts::{self, Mounted};
use crate::common::{Skip, data};
use crate::or_skip;
use crate::run::{Answer, forebay, pattern};

const LEN: usize = 6 << 20;

/// Bytes that compress, and still tell their offset.
fn compressible(len: usize) -> Vec<u8> {
    (0..len).map(|i| if i % 64 < 8 { ((i / 64) >> (8 * (i % 64))) as u8 } else { b'x' }).collect()
}

/// Bytes of a file in the page cache.
fn cached(path: &Path) -> Result<u64, Skip> {
    let output = Command::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]).arg(path).output();
    let output = output.map_err(|error| Skip::because(format!("fincore: {error}")))?;
    String::from_utf8_lossy(&output.stdout).trim().parse().map_err(|_| Skip::because("fincore tells nothing"))
}

/// Writes a file and sees that the cache holds nothing of it.
fn cold(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    chill(&path);
    path
}

fn chill(path: &Path) {
    fs::File::open(path).unwrap().sync_all().unwrap();
    data::drop_cache(path).unwrap();
}

/// Whether this kernel reads a file through the page cache where it was asked not to: tried by `dd`.
fn fills_cache(path: &Path) -> Result<(), Skip> {
    let input = format!("if={}", path.display());
    let read = Command::new("dd").args([&*input, "of=/dev/null", "iflag=direct", "bs=1M", "status=none"]).status();
    let filled = cached(path)?;
    chill(path);
    match read {
        Ok(status) if status.success() && filled > 0 => Ok(()),
        _ => Err(Skip::because("direct reads do not fill the page cache here")),
    }
}

struct Said {
    summary: Value,
    warnings: Vec<String>,
}

fn said(answer: &Answer) -> Said {
    let last = |text: &str| text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let out = String::from_utf8_lossy(&answer.stdout);
    let mut line = last(&answer.stderr).or_else(|| last(&out)).unwrap_or_else(|| panic!("{}", answer.stderr));
    let warnings = answer.stderr.lines().filter(|line| line.starts_with("warning: ")).map(str::to_owned).collect();
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    Said { summary: line["summary"].take(), warnings }
}

fn cat(file: &Path, bytes: &[u8], flags: &[&str]) -> Said {
    let answer = Answer::of(forebay().arg("cat").arg(file).args(["--json", "--device=host"]).args(flags));
    assert!(answer.stdout == bytes, "{flags:?}: other bytes");
    said(&answer)
}

/// By every engine, and where the route is forced.
const FLAGS: [&[&str]; 4] =
    [&["--engine=uring"], &["--engine=pread"], &["--route=bounce"], &["--route=bounce", "--engine=pread"]];

fn expect_buffered(mount: Result<Mounted, Skip>, bytes: &[u8], cause: &str) {
    let mount = or_skip!(mount);
    let file = cold(&mount.dir, "shard", bytes);
    or_skip!(fills_cache(&file));
    for flags in FLAGS {
        chill(&file);
        let Said { summary, warnings } = cat(&file, bytes, flags);
        assert_eq!(summary["mode"], "buffered", "{flags:?}: {summary}");
        assert_eq!(summary["routes"], serde_json::json!({ "cached": bytes.len() }), "{flags:?}");
        // Where nothing is forced, the first block may be in the cache since the file was opened, and then nothing is claimed.
        let is_forced = flags[0] == "--route=bounce";
        assert!(warnings.len() <= 1 && (!is_forced || warnings.len() == 1), "{flags:?}: {warnings:?}");
        for warning in warnings {
            assert!(["btrfs", "page cache", cause].iter().all(|word| warning.contains(word)), "{warning}");
        }
    }
    // What the first read left in the cache makes a second one no more direct.
    let again = cat(&file, bytes, &["--route=bounce"]);
    assert_eq!((&again.summary["mode"], again.warnings.len()), (&"buffered".into(), 1), "{}", again.summary);
}

#[test]
fn reads_of_compressed_extents_are_not_called_direct() {
    expect_buffered(mounts::btrfs_compressed(), &compressible(LEN), "compressed");
}

#[test]
fn reads_of_inline_extents_are_not_called_direct() {
    expect_buffered(mounts::btrfs_inline(), &pattern(1500), "inline");
}

#[test]
fn direct_reads_that_leave_the_cache_empty_are_called_direct() {
    for mount in [mounts::ext4(), mounts::xfs(), mounts::btrfs()] {
        let mount = match mount {
            Ok(mount) => mount,
            Err(Skip(why)) => {
                eprintln!("skipped: {why}");
                continue;
            }
        };
        let bytes = pattern(LEN);
        let file = cold(&mount.dir, "shard", &bytes);
        for flags in FLAGS {
            let Said { summary, warnings } = cat(&file, &bytes, flags);
            assert_eq!(cached(&file).unwrap_or(0), 0, "{}", mount.kind);
            assert_eq!(
                (&summary["mode"], warnings.len()),
                (&"direct".into(), 0),
                "{} {flags:?}: {warnings:?}",
                mount.kind
            );
        }
    }
}

/// Two files of one read, of which one goes through the cache: each is counted for itself.
#[test]
fn of_two_files_read_together_only_the_one_that_fills_the_cache_counts_as_buffered() {
    use forebay::{Extent, Mode, Reader};
    let (through, past) = (or_skip!(mounts::btrfs_compressed()), or_skip!(mounts::ext4()));
    let (compressed, plain) = (compressible(LEN), pattern(LEN / 2));
    let through = cold(&through.dir, "shard", &compressed);
    let past = cold(&past.dir, "shard", &plain);
    or_skip!(fills_cache(&through));
    for mode in [Mode::Auto, Mode::Direct] {
        for order in [[0, 1], [1, 0]] {
            chill(&through);
            chill(&past);
            let reader = Reader::builder().mode(mode).chunk(1 << 20).budget(32 << 20).build().unwrap();
            let files = [&through, &past].map(|path| reader.open(path).unwrap());
            let extents: Vec<Extent> = (0..6)
                .flat_map(|part| order.map(|i| (part, i)))
                .map(|(part, i)| {
                    let len = files[i].len() / 6;
                    Extent::new(&files[i], part * len, len)
                })
                .collect();
            let read = reader.read_blocking(&extents).unwrap();
            assert!(extents.iter().zip(read.iter()).all(|(extent, piece)| piece.len() as u64 == extent.len()));
            let stats = reader.stats();
            assert_eq!((stats.bytes_direct, stats.bytes_buffered), (LEN as u64 / 2, LEN as u64), "{mode:?} {order:?}");
        }
    }
}

/// Others fill the cache with the very file, again and again, while it is read directly.
#[test]
fn what_others_read_through_the_cache_is_not_laid_to_direct_reads() {
    let mount = or_skip!(mounts::ext4());
    let bytes = pattern(LEN);
    let file = cold(&mount.dir, "shard", &bytes);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = fs::read(&file);
                    let _ = data::drop_cache(&file);
                }
            });
        }
        let modes: Vec<Said> = (0..20).map(|_| cat(&file, &bytes, &["--route=bounce"])).collect();
        over.store(true, Ordering::Relaxed);
        for Said { summary, warnings } in modes {
            assert_eq!((&summary["mode"], warnings.len()), (&"direct".into(), 0), "{warnings:?}");
        }
    });
}

#[test]
fn a_dataset_and_a_checkpoint_say_it_too_and_once() {
    let mount = or_skip!(mounts::btrfs_compressed());
    let folder = mount.dir.join("data");
    fs::create_dir(&folder).unwrap();
    let files: Vec<PathBuf> = (0..12).map(|i| cold(&folder, &format!("{i:02}.bin"), &compressible(1 << 20))).collect();
    or_skip!(fills_cache(&files[0]));
    let records = ["--format=records", "--record-bytes=65536", "--batch-size=8", "--json", "--device=host"];
    let read = said(&Answer::of(forebay().arg("read").arg(&folder).args(records)));
    assert_eq!(read.summary["mode"], "buffered", "{}", read.summary);
    assert_eq!(read.warnings.len(), 1, "{:?}", read.warnings);

    let mut tensors = br#"{"t":{"dtype":"U8","shape":[4194304],"data_offsets":[0,4194304]}}"#.to_vec();
    tensors.resize(tensors.len().next_multiple_of(8), b' ');
    let mut model = (tensors.len() as u64).to_le_bytes().to_vec();
    model.extend(tensors);
    model.extend(compressible(4 << 20));
    let model = cold(&mount.dir, "m.safetensors", &model);
    let load = said(&Answer::of(forebay().arg("load").arg(&model).args(["--json", "--device=host"])));
    assert_eq!((&load.summary["routes"]["bounce"], load.warnings.len()), (&Value::Null, 1), "{}", load.summary);
}

#[test]
fn a_benchs_rows_are_direct_only_where_the_cache_stays_empty() {
    let mount = or_skip!(mounts::btrfs_compressed());
    let file = cold(&mount.dir, "shard", &compressible(32 << 20));
    or_skip!(fills_cache(&file));
    let flags = ["--profile=sequential", "--chunk=1MiB", "--depth=4", "--threads=1", "--seconds=2", "--rounds=2"];
    let answer = Answer::of(forebay().arg("bench").arg(&file).args(flags).args(["--json", "--device=host"]));
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let text = String::from_utf8(answer.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Vec<Value> = lines.filter(|line| line["mode"].is_string()).collect();
    assert!(!rows.is_empty(), "{text}");
    for row in rows {
        let share = |key: &str| row[key].as_f64().unwrap_or(0.0);
        if share("cached_share_after") > share("cached_share_before") + 0.05 {
            assert!(row["mode"] != "direct" && row["route"] != "bounce", "{row}");
        }
    }
}

#[test]
fn the_doctor_does_not_call_such_a_file_direct() {
    let mount = or_skip!(mounts::btrfs_compressed());
    let file = cold(&mount.dir, "shard", &compressible(LEN));
    or_skip!(fills_cache(&file));
    // With a cold cache, and with one that holds all of it.
    for _ in 0..2 {
        let answer = Answer::of(forebay().arg("doctor").arg(&file).args(["--json", "--device=host"]));
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
        let text = String::from_utf8(answer.stdout).unwrap();
        let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let direct = all.iter().find(|finding| finding["kind"] == "direct_io").unwrap();
        assert_eq!(direct["verdict"], "no", "{direct}");
        assert!(direct["reason"].as_str().unwrap().contains("compressed"), "{direct}");
        let taken = all.iter().find(|finding| finding["kind"] == "route" && finding["verdict"] == "yes").unwrap();
        assert!(taken["subject"].as_str().unwrap().ends_with("by cached"), "{taken}");
        fs::read(&file).unwrap();
    }
}
