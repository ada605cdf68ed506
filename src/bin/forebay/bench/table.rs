//! The report for people.

use std::fmt::Write;

use super::lost::{self, Lost};
use super::pcie::{self, What};
use super::row::{self, Row};
use super::sentence;
use super::summary::Summary;
use crate::byte_count::{rate, shown};

/// Rows, one line each, those that were lost last, and below them what bounded them.
pub fn table(rows: &[Row], summary: &Summary) -> String {
    let ceilings = &summary.ceilings;
    let peer = row::peers(rows);
    let mut head: Vec<String> = ["#", "read", "chunk", "depth", "route", "cache", "GB/s", "[least-most]", "reads/s"]
        .map(str::to_owned)
        .to_vec();
    head.extend(["p50", "p99", "p99.9", "CPU s/GB"].map(str::to_owned));
    head.extend(peer.map(|name| format!("to {name}")));
    head.push("bound by".into());
    let mut lines = vec![head];
    let has_peer = rows.iter().any(|row| row.peer.is_some());
    for (number, row) in rows.iter().enumerate() {
        let least = row.runs.iter().copied().fold(f64::INFINITY, f64::min) / 1e9;
        let most = row.runs.iter().copied().fold(0.0, f64::max) / 1e9;
        let mut line = vec![
            (number + 1).to_string(),
            format!("{:?}", row.pattern).to_lowercase(),
            shown(row.chunk),
            depth(row.depth, row.threads),
            format!("{}{}", row.way(rows), if row.emulated { " (emulated)" } else { "" }),
            row.cache.clone(),
            figures(row.bytes_per_second / 1e9),
            format!("[{}-{}]", figures(least), figures(most)),
            format!("{:.0}", row.bytes_per_second / row.chunk as f64),
        ];
        match row.latency_seconds {
            Some(latency) => line.extend([latency.p50, latency.p99, latency.p999].map(time)),
            None => line.extend(["-", "-", "-"].map(str::to_owned)),
        }
        line.push(format!("{:.3}", row.cpu_seconds_per_gb));
        if has_peer {
            line.push(row.peer.as_ref().map_or("-".into(), |peer| format!("{:.2}", peer.ratio)));
        }
        line.push(row.bound.by.to_string());
        lines.push(line);
    }
    let columns = lines[0].len();
    lines.extend(summary.lost.iter().filter(|lost| lost.is_whole()).map(|lost| of_lost(lost, columns)));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut shown_line = String::new();
        for (i, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Names to the left, numbers to the right.
            let left = matches!(i, 1 | 4 | 5) || i + 1 == columns;
            let _ = if left { write!(shown_line, "{cell:<width$}  ") } else { write!(shown_line, "{cell:>width$}  ") };
        }
        text.push_str(shown_line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    for (numbers, what) in bounds(rows) {
        text.push_str(&format!("{what} ({})\n", sentence::rows(&numbers)));
    }
    if summary.lost.iter().any(Lost::is_whole) {
        let reasons = lost::reasons(summary.lost.iter().filter(|lost| lost.is_whole()));
        text.push_str(&format!("lost: {reasons}\n"));
    }
    text.push_str(&format!(
        "\nceilings: memory copy {} by one thread, {} by all{}{}{}{}\n",
        rate(ceilings.memory_copy),
        rate(ceilings.memory_copy_all),
        ceilings.page_cache_copy.map_or(String::new(), |best| format!("; page cache {} by one thread", rate(best))),
        ceilings.drive.map_or(String::new(), |best| format!("; drive {}", rate(best))),
        ceilings
            .to_device
            .zip(ceilings.to_host)
            .map_or(String::new(), |(to, from)| { format!("; to the GPU {}, back {}", rate(to), rate(from)) }),
        [What::Drive, What::Gpu]
            .map(|what| pcie::together(&ceilings.pcie, what, 0.0).map_or(String::new(), |of| format!("; {}", of.name)))
            .concat(),
    ));
    text
}

fn depth(depth: u32, threads: u32) -> String {
    if threads == 1 { depth.to_string() } else { format!("{depth}x{threads}") }
}

fn of_lost(lost: &Lost, columns: usize) -> Vec<String> {
    let engine = if lost.engine == "pread" { " pread" } else { "" };
    let mut line = vec![
        "-".into(),
        format!("{:?}", lost.pattern).to_lowercase(),
        shown(lost.chunk),
        depth(lost.depth, lost.threads),
        format!("{}{engine}", row::way(&lost.route, lost.iopoll)),
        row::cache_name(lost.cache).into(),
    ];
    line.resize(columns - 1, "-".into());
    line.push("lost".into());
    line
}

/// What bounded which rows, each once.
fn bounds(rows: &[Row]) -> Vec<(Vec<usize>, String)> {
    let mut kinds: Vec<(row::By, &str)> = Vec::new();
    for row in rows {
        let kind = (row.bound.by, row.bound.fix.as_str());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let of_kind = |(by, fix): (row::By, &str)| {
        let alike = (1..).zip(rows).filter(|(_, row)| row.bound.by == by && row.bound.fix == fix);
        let groups = sentence::grouped(alike.map(|(number, row)| (number, &row.bound.why)));
        groups.into_iter().map(|(numbers, why)| (numbers, format!("{by}: {why}; {fix}"))).collect::<Vec<_>>()
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

pub fn figures(number: f64) -> String {
    match number {
        number if number >= 10.0 => format!("{number:.1}"),
        number if number >= 0.1 => format!("{number:.2}"),
        number => format!("{number:.4}"),
    }
}

pub fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{:.0} us", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::tests::row;
    use crate::bench::sentence::{Figure, Sentence};

    #[test]
    fn what_holds_for_several_rows_is_said_once_and_of_which() {
        let busy = |share| Sentence::new("other programs had ").with(Figure::Percent(share)).and(" of the processors");
        let fix = "measure again when the machine is quiet";
        let rows = [
            row(row::By::Cpu, busy(0.21), fix),
            row(row::By::Cpu, busy(0.48), fix),
            row(row::By::Drive, "the drive".into(), "a faster drive"),
            row(row::By::Cpu, busy(0.3), fix),
        ];
        let told = bounds(&rows);
        let busy = "cpu: other programs had 21 % to 48 % of the processors; measure again when the machine is quiet";
        let drive = "drive: the drive; a faster drive";
        assert_eq!(told, [(vec![1, 2, 4], busy.to_owned()), (vec![3], drive.to_owned())]);
    }
}
