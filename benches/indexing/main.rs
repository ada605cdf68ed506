//! Opening datasets: a folder of many shards and an array of many rows; and indexing a tar archive by its headers, ours
//! against Python's tarfile, on the same archive, in the same run.
//!
//! The archive is in the page cache for both, so that what is compared is the work and not the disk. Rounds alternate, and
//! the median of their ratios is shown with the least and the greatest. The index kept beside the archive is timed too, as
//! it is made and as it is read.

mod archive;
mod args;
mod folders;

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use forebay::dataset::{Dataset, TarIndex, WebDataset};

use args::Args;

/// An archive: what it is called, its members, and bytes of each but a small one for every sample.
const CASES: [(&str, u64, u64); 2] = [("small members", 1, 1000), ("large members", 10, 100_000)];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // `cargo test --benches` starts this program too, without cargo bench's `--bench`.
    if arguments.is_empty() {
        println!("nothing measured: run by `cargo bench --bench indexing`");
        return ExitCode::SUCCESS;
    }
    match Args::parse(arguments.into_iter()).and_then(|args| bench(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}\n{}", args::USAGE);
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &Args) -> Result<(), String> {
    let folder = tempfile::tempdir_in(&args.dir).map_err(|error| format!("{}: {error}", args.dir.display()))?;
    folders::measure(folder.path(), args.rounds)?;
    let path = folder.path().join("shard.tar");
    println!(
        "{:<14} {:>9}  {:>9}  {:>9}  {:>20}  {:>9}  {:>9}",
        "archive", "members", "ours s", "tarfile s", "ratio", "kept s", "read s"
    );
    for (name, fewer, bytes) in CASES {
        let members = (args.members / fewer).max(2);
        archive::write(&path, members, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{name:<14} {members:>9}  {}", compare(args, &path, members)?);
    }
    Ok(())
}

/// The figures of one archive.
fn compare(args: &Args, path: &Path, members: u64) -> Result<String, String> {
    let [mut ours, mut theirs, mut ratios, mut kept, mut read] = [(); 5].map(|()| Vec::new());
    ours_seconds(path, TarIndex::Memory, members)?;
    for _ in 0..args.rounds {
        let mine = ours_seconds(path, TarIndex::Memory, members)?;
        let peer = peer_seconds(args, path, members)?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".forebay-index");
        // There is none the first time.
        let _ = std::fs::remove_file(beside);
        kept.push(ours_seconds(path, TarIndex::Beside, members)?);
        read.push(ours_seconds(path, TarIndex::Beside, members)?);
        ours.push(mine);
        theirs.push(peer);
        ratios.push(peer / mine);
    }
    let [ours, theirs, kept, read] = [ours, theirs, kept, read].map(|seconds| spread(seconds)[1]);
    let [least, ratio, most] = spread(ratios);
    let ratio = format!("{ratio:.1} ({least:.1}…{most:.1})");
    Ok(format!("{ours:>9.3}  {theirs:>9.3}  {ratio:>20}  {kept:>9.3}  {read:>9.3}"))
}

fn ours_seconds(path: &Path, index: TarIndex, members: u64) -> Result<f64, String> {
    let start = Instant::now();
    let dataset = WebDataset::open(&[path.to_owned()], index).map_err(|error| error.to_string())?;
    let seconds = start.elapsed().as_secs_f64();
    match dataset.len() == members / 2 {
        true => Ok(seconds),
        false => Err(format!("{} samples of {members} members", dataset.len())),
    }
}

fn peer_seconds(args: &Args, path: &Path, members: u64) -> Result<f64, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/tarfile_index.py");
    let output = Command::new(&args.python).arg(script).arg(path).output();
    let output = output.map_err(|error| format!("{}: {error}", args.python.display()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    match printed.trim().split_once(' ').map(|(count, seconds)| (count.parse::<u64>(), seconds.parse::<f64>())) {
        Some((Ok(count), Ok(seconds))) if count == members / 2 * 2 => Ok(seconds),
        _ => Err(format!("tarfile said {printed:?} {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// The least, the median and the greatest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |i: usize| values.get(i).copied().unwrap_or(f64::NAN);
    [at(0), at(values.len() / 2), at(values.len().saturating_sub(1))]
}
