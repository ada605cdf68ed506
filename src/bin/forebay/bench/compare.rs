//! Two reports of the same rows, before and after.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::row::{Row, VERSION, way};
use crate::byte_count::{rate, shown};
use crate::failure::{Failure, Outcome};
use crate::json;
use crate::stdout::Stdout;

/// Less likely by chance than this is told as a change.
pub const SIGNIFICANT: f64 = 0.05;

#[derive(Serialize)]
struct Change<'a> {
    pattern: super::case::Pattern,
    route: &'a str,
    engine: &'a str,
    device: &'a str,
    cache: &'a str,
    chunk: u64,
    depth: u32,
    threads: u32,
    iopoll: bool,
    before: f64,
    after: f64,
    ratio: f64,
    /// How likely so great a difference of the runs is by chance; `null` with too few runs to tell.
    p: Option<f64>,
    verdict: &'static str,
}

#[derive(Serialize)]
struct Summary {
    rows: usize,
    faster: usize,
    slower: usize,
    same: usize,
    only_before: usize,
    only_after: usize,
}

#[derive(Serialize)]
struct Last {
    summary: Summary,
}

pub fn run(as_json: bool, before: &Path, after: &Path) -> Outcome {
    let (before, after) = (rows(before)?, rows(after)?);
    let mut stdout = Stdout::open()?;
    let mut summary = Summary {
        rows: 0,
        faster: 0,
        slower: 0,
        same: 0,
        only_before: before.keys().filter(|key| !after.contains_key(*key)).count(),
        only_after: after.keys().filter(|key| !before.contains_key(*key)).count(),
    };
    for (key, old) in &before {
        let Some(new) = after.get(key) else { continue };
        let p = likely(&old.runs, &new.runs);
        let ratio = if old.bytes_per_second > 0.0 { new.bytes_per_second / old.bytes_per_second } else { 0.0 };
        let verdict = match p {
            None => "too few runs to tell",
            Some(p) if p >= SIGNIFICANT => "no change",
            Some(_) if ratio >= 1.0 => "faster",
            Some(_) => "slower",
        };
        summary.rows += 1;
        match verdict {
            "faster" => summary.faster += 1,
            "slower" => summary.slower += 1,
            _ => summary.same += 1,
        }
        let change = Change {
            pattern: new.pattern,
            route: &new.route,
            engine: &new.engine,
            device: &new.device,
            cache: &new.cache,
            chunk: new.chunk,
            depth: new.depth,
            threads: new.threads,
            iopoll: new.iopoll,
            before: old.bytes_per_second,
            after: new.bytes_per_second,
            ratio,
            p,
            verdict,
        };
        let line = if as_json { json::line(&change)? } else { in_words(&change) };
        stdout.write(format!("{line}\n").as_bytes())?;
    }
    let line = match as_json {
        true => json::line(&Last { summary })?,
        false => format!(
            "{} rows in both: {} faster, {} slower, {} not told apart; {} only before, {} only after",
            summary.rows, summary.faster, summary.slower, summary.same, summary.only_before, summary.only_after
        ),
    };
    stdout.write(format!("{line}\n").as_bytes())
}

fn in_words(change: &Change<'_>) -> String {
    let p = change.p.map_or(String::new(), |p| format!(" (p = {p:.3})"));
    format!(
        "{:10} {:>8} x {}x{} {:13} {:8} {:>12} -> {:>12}  {:.3}  {}{p}",
        format!("{:?}", change.pattern).to_lowercase(),
        shown(change.chunk),
        change.depth,
        change.threads,
        way(change.route, change.iopoll),
        change.cache,
        rate(change.before),
        rate(change.after),
        change.ratio,
        change.verdict,
    )
}

fn rows(path: &Path) -> Result<BTreeMap<String, Row>, Failure> {
    let wrong = |what: String| {
        Failure::Error(format!("{}: {what}; give what `forebay bench --json` has written", path.display()))
    };
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let mut rows = BTreeMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let value: serde_json::Value = serde_json::from_str(line).map_err(|error| {
            let why = json::fault(line.as_bytes(), &error);
            wrong(format!("line {}: no JSON: {why}", number + 1))
        })?;
        if value.get("summary").is_some() {
            continue;
        }
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            version => {
                let version = version.map_or("none".to_owned(), |version| version.to_string());
                return Err(wrong(format!("line {}: version {version}, and this reads {VERSION}", number + 1)));
            }
        }
        let row: Row = serde_json::from_value(value).map_err(|error| wrong(format!("line {}: {error}", number + 1)))?;
        rows.insert(format!("{:?}", row.key()), row);
    }
    if rows.is_empty() {
        return Err(wrong("has no rows".into()));
    }
    Ok(rows)
}

/// The exact two-sided test of Mann and Whitney (1947): how likely, with no difference, the ranks of two lists of runs lie as
/// far apart as they do. `None` where no lists of their lengths could lie far enough apart to tell.
pub fn likely(before: &[f64], after: &[f64]) -> Option<f64> {
    /// All ways to choose so many of so many are gone through.
    const MOST: usize = 10;
    let (before, after) = (&before[..before.len().min(MOST)], &after[..after.len().min(MOST)]);
    let (n, m) = (before.len(), after.len());
    let ways = ways(n, m);
    let all: u64 = ways.iter().sum();
    if n == 0 || m == 0 || 2.0 / all as f64 >= SIGNIFICANT {
        return None;
    }
    // How often one of before is above one of after; a tie is half of it.
    let above = |a: f64, b: f64| if a > b { 2 } else { usize::from(a.total_cmp(&b).is_eq()) };
    let twice: usize = before.iter().flat_map(|&a| after.iter().map(move |&b| above(a, b))).sum();
    let least = twice.min(2 * n * m - twice) / 2;
    let tail: u64 = ways[..=least].iter().sum();
    Some((2.0 * tail as f64 / all as f64).min(1.0))
}

/// In how many of the orders of `n` and `m` things a pair is the wrong way round so many times.
fn ways(n: usize, m: usize) -> Vec<u64> {
    let mut table = vec![vec![vec![0_u64; n * m + 1]; m + 1]; n + 1];
    for i in 0..=n {
        for j in 0..=m {
            for u in 0..=i * j {
                table[i][j][u] = match (i, j) {
                    (0, _) | (_, 0) => u64::from(u == 0),
                    _ => (if u >= j { table[i - 1][j][u - j] } else { 0 }) + table[i][j - 1][u],
                };
            }
        }
    }
    table[n][m].clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the tables of the test: 5 and 5 runs, U = 2 is 0.032, U = 3 is 0.056; 4 and 4, U = 0 is 0.029.
    #[test]
    fn likelihoods_are_those_of_the_published_tables() {
        let ranks = |list: &[i32]| list.iter().map(|&n| f64::from(n)).collect::<Vec<_>>();
        let close = |told: Option<f64>, table: f64| assert!((told.unwrap() - table).abs() < 6e-4, "{told:?} {table}");
        close(likely(&ranks(&[1, 2, 3, 4]), &ranks(&[5, 6, 7, 8])), 0.0286);
        close(likely(&ranks(&[1, 2, 3, 4, 7]), &ranks(&[5, 6, 8, 9, 10])), 0.0317);
        close(likely(&ranks(&[1, 2, 3, 4, 8]), &ranks(&[5, 6, 7, 9, 10])), 0.0556);
        close(likely(&ranks(&[1, 1, 1, 1]), &ranks(&[1, 1, 1, 1])), 1.0);
    }

    #[test]
    fn three_runs_each_can_never_tell() {
        assert_eq!(likely(&[1.0, 2.0, 3.0], &[7.0, 8.0, 9.0]), None);
        assert_eq!(likely(&[], &[7.0, 8.0, 9.0]), None);
    }

    #[test]
    fn every_order_is_counted_once() {
        assert_eq!(ways(5, 5).iter().sum::<u64>(), 252);
        assert_eq!(ways(4, 6).iter().sum::<u64>(), 210);
    }
}
