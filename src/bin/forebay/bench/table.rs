//! The report for people.

use std::fmt::Write;

use super::ceilings::Ceilings;
use super::pcie::{self, What};
use super::row::{self, Row};
use crate::byte_count::{rate, shown};

/// Rows, one line each, and below them what bounded them.
pub fn table(rows: &[Row], ceilings: &Ceilings) -> String {
    let peer = row::peers(rows);
    let mut head: Vec<String> =
        ["read", "chunk", "depth", "route", "cache", "GB/s", "[least-most]", "reads/s"].map(str::to_owned).to_vec();
    head.extend(["p50", "p99", "p99.9", "CPU s/GB"].map(str::to_owned));
    head.extend(peer.map(|name| format!("to {name}")));
    head.push("bound by".into());
    let mut lines = vec![head];
    let has_peer = rows.iter().any(|row| row.peer.is_some());
    for row in rows {
        let least = row.runs.iter().copied().fold(f64::INFINITY, f64::min) / 1e9;
        let most = row.runs.iter().copied().fold(0.0, f64::max) / 1e9;
        let mut line = vec![
            format!("{:?}", row.pattern).to_lowercase(),
            shown(row.chunk),
            if row.threads == 1 { row.depth.to_string() } else { format!("{}x{}", row.depth, row.threads) },
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
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut shown_line = String::new();
        for (i, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Names to the left, numbers to the right.
            let left = matches!(i, 0 | 3 | 4) || i + 1 == columns;
            let _ = if left { write!(shown_line, "{cell:<width$}  ") } else { write!(shown_line, "{cell:>width$}  ") };
        }
        text.push_str(shown_line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    let mut said: Vec<String> = Vec::new();
    for row in rows {
        let what = format!("{}: {}; {}", row.bound.by, row.bound.why, row.bound.fix);
        if !said.contains(&what) {
            said.push(what);
        }
    }
    said.iter().for_each(|line| text.push_str(&format!("{line}\n")));
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
