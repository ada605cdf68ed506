//! The whole table: a row for each row, and below it what bounded it.

use std::fmt::Write;

use super::EMULATED;
use super::text::escaped;
use crate::bench::lost::Lost;
use crate::bench::row::{Row, cache_name, way};
use crate::bench::table::{self, figures};
use crate::byte_count::shown;

pub fn table(rows: &[Row], lost: &[Lost]) -> String {
    let has_peer = rows.iter().any(|row| row.peer.is_some());
    let mut table = String::from(
        "<section class=\"rows\">\n<h2>All rows</h2>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"All rows\">\n<table>\n\
         <thead><tr><th scope=\"col\">#</th>",
    );
    let class = |is_name| if is_name { " class=\"name\"" } else { "" };
    for (name, is_name) in columns(has_peer) {
        let _ = write!(table, "<th scope=\"col\"{}>{name}</th>", class(is_name));
    }
    table.push_str("</tr></thead>\n");
    for (number, row) in rows.iter().enumerate() {
        let _ = write!(table, "<tbody id=\"row-{0}\"><tr><td>{0}</td>", number + 1);
        for ((name, is_name), cell) in columns(has_peer).zip(cells(row, rows, has_peer)) {
            let badge = if name == "Route" && row.emulated { format!(" {EMULATED}") } else { String::new() };
            let _ = write!(table, "<td{}>{}{badge}</td>", class(is_name), escaped(&cell));
        }
        let _ = writeln!(
            table,
            "</tr>\n<tr class=\"why\"><td></td><td colspan=\"{}\"><div>Bound by {}: {}. To move it: {}.</div></td></tr></tbody>",
            columns(has_peer).count(),
            row.bound.by,
            escaped(&row.bound.why.to_string()),
            escaped(&row.bound.fix)
        );
    }
    for lost in lost {
        let _ = writeln!(
            table,
            "<tbody class=\"lost\"><tr><td></td><td colspan=\"{}\"><div>{}</div></td></tr></tbody>",
            columns(has_peer).count(),
            escaped(&of_lost(lost))
        );
    }
    table.push_str("</table>\n</div>\n</section>\n");
    table
}

/// Names of columns, and whether what stands there is a name.
fn columns(has_peer: bool) -> impl Iterator<Item = (&'static str, bool)> {
    let all = [
        ("Read", true),
        ("Chunk", false),
        ("Depth", false),
        ("Threads", false),
        ("Route", true),
        ("Engine", true),
        ("Mode", true),
        ("Page cache", true),
        ("GB/s", false),
        ("Least to most", false),
        ("Reads/s", false),
        ("p50", false),
        ("p99", false),
        ("p99.9", false),
        ("CPU s/GB", false),
        ("CPU could GB/s", false),
        ("Peer GB/s", false),
        ("Ratio to peer", false),
        ("Bytes read", false),
        ("Seconds", false),
        ("Cached before", false),
        ("Cached after", false),
        ("Bytes right", true),
        ("Bound by", true),
    ];
    all.into_iter().filter(move |(name, _)| has_peer || !PEER.contains(name))
}

const PEER: [&str; 2] = ["Peer GB/s", "Ratio to peer"];

/// In the order of `columns`.
fn cells(row: &Row, rows: &[Row], has_peer: bool) -> Vec<String> {
    let percent = |share: Option<f64>| share.map_or("unknown".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let least = row.runs.iter().copied().fold(f64::INFINITY, f64::min) / 1e9;
    let most = row.runs.iter().copied().fold(0.0, f64::max) / 1e9;
    let mut cells = vec![
        pattern(row),
        shown(row.chunk),
        row.depth.to_string(),
        row.threads.to_string(),
        row.way(rows),
        row.engine.clone(),
        row.mode.clone(),
        row.cache.clone(),
        figures(row.bytes_per_second / 1e9),
        format!("{}–{}", figures(least), figures(most)),
        format!("{:.0}", row.bytes_per_second / row.chunk.max(1) as f64),
    ];
    match row.latency_seconds {
        Some(latency) => cells.extend([latency.p50, latency.p99, latency.p999].map(time)),
        None => cells.extend(["–", "–", "–"].map(str::to_owned)),
    }
    cells.push(format!("{:.3}", row.cpu_seconds_per_gb));
    cells.push(row.bound.cpu_ceiling.map_or("–".into(), |most| figures(most / 1e9)));
    if has_peer {
        let peer = row.peer.as_ref();
        cells.push(peer.map_or("–".into(), |peer| figures(peer.bytes_per_second / 1e9)));
        cells.push(peer.map_or("–".into(), |peer| format!("{:.2}", peer.ratio)));
    }
    let verified = match row.verified {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "not looked at",
    };
    let near = row.bound.share.map_or(String::new(), |share| format!(" {:.0} %", share * 100.0));
    cells.extend([
        shown(row.bytes),
        format!("{:.2}", row.seconds),
        percent(row.cached_share_before),
        percent(row.cached_share_after),
        verified.into(),
        format!("{}{near}", row.bound.by),
    ]);
    cells
}

fn of_lost(lost: &Lost) -> String {
    let Lost { engine, device, depth, threads, runs, lost: count, why, .. } = lost;
    let pattern = format!("{:?}", lost.pattern).to_lowercase();
    let (chunk, way, cache) = (shown(lost.chunk), way(&lost.route, lost.iopoll), cache_name(lost.cache));
    format!(
        "Lost: {count} of {} runs, {pattern}, {chunk}, depth {depth}×{threads}, {way}, {engine}, {device}, {cache}: {why}.",
        runs + count
    )
}

pub fn pattern(row: &Row) -> String {
    format!("{:?}", row.pattern).to_lowercase()
}

/// As the table for terminals has it.
pub fn time(seconds: f64) -> String {
    table::time(seconds).replace(" us", " µs")
}
