//! The page: what was measured and on what, the plots, the whole table, and how it was measured.

use std::fmt::Write;

use super::bars;
use super::lines;
use super::look::{self, Broken, Drawn, INK};
use super::text::escaped;
use crate::bench::Summary;
use crate::bench::row::Row;
use crate::bench::table::{self, figures};
use crate::byte_count::{counted, rate, shown};

const STYLE: &str = include_str!("style.css");

/// `<` and `&` are markup only where this file writes them: all that comes in from outside is escaped.
pub fn page(rows: &[Row], summary: &Summary) -> Drawn {
    let target = escaped(&summary.target);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{target}: forebay bench</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    );
    page.push_str(&head(rows, summary));
    if !rows.is_empty() {
        page.push_str(&plots(rows, summary)?);
        page.push_str(&table(rows));
    }
    page.push_str(&method(summary));
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

fn head(rows: &[Row], summary: &Summary) -> String {
    let badge = if rows.iter().any(|row| row.emulated) { format!(" {EMULATED}") } else { String::new() };
    let mut head = format!("<header>\n<h1>forebay bench <bdi>{}</bdi>{badge}</h1>\n", escaped(&summary.target));
    for (way, past_cache) in [("Past the page cache", true), ("Through the page cache", false)] {
        let of = rows.iter().filter(|row| (row.mode == "direct") == past_cache);
        if let Some(row) = of.max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second)) {
            let _ = writeln!(
                head,
                "<p class=\"best\">{way} at most <strong>{}</strong>: {} to {} by route {}, {}; bound by {}.</p>",
                rate(row.bytes_per_second),
                escaped(&reads(row)),
                escaped(&row.device),
                escaped(&row.route.replace('_', " ")),
                escaped(&of_cache(row)),
                row.bound.by,
            );
        }
    }
    if rows.is_empty() {
        head.push_str("<p class=\"best\">Nothing was measured.</p>\n");
    }
    let drives = match &summary.drives[..] {
        [] => "none that the kernel names".to_owned(),
        drives => drives.join(", "),
    };
    let ceilings = &summary.ceilings;
    let told = |limit: Option<f64>| limit.map_or("not measured".to_owned(), rate);
    let mut facts = vec![
        ("Target", format!("{}, {} on {}", summary.target, shown(summary.target_bytes), summary.file_system)),
        ("Drive", drives),
        ("Device", summary.device.clone()),
        ("Kernel", format!("Linux {}, {}", summary.kernel, counted(summary.processors as u64, "processor"))),
        ("Rounds", format!("{} of each of {}", summary.rounds, counted(rows.len() as u64, "row"))),
    ];
    facts.extend(summary.peer.as_ref().map(|peer| ("In turns with", peer.clone())));
    facts.push((
        "Ceilings",
        format!(
            "drive {}; page cache {} by one thread; memory copy {} by one thread, {} by all",
            told(ceilings.drive),
            told(ceilings.page_cache_copy),
            rate(ceilings.memory_copy),
            rate(ceilings.memory_copy_all)
        ),
    ));
    facts.push(("Measured by", format!("forebay {}", env!("CARGO_PKG_VERSION"))));
    head.push_str("<dl>\n");
    for (name, fact) in facts {
        let _ = writeln!(head, "<dt>{name}</dt><dd><bdi>{}</bdi></dd>", escaped(&fact));
    }
    head.push_str("</dl>\n");
    let interrupted = summary.interrupted.then_some("Interrupted: this is what was measured until then.");
    let emulated = rows
        .iter()
        .any(|row| row.emulated)
        .then_some("Emulated: there was no GPU, but the tests' stand-in for one. No figure here is one of a GPU's.");
    let wrong = rows
        .iter()
        .any(|row| row.verified == Some(false))
        .then_some("Bytes of some rows were not those of the file: see the table, and report it.");
    let notes: Vec<&str> = [interrupted, emulated, wrong]
        .into_iter()
        .flatten()
        .chain(summary.warnings.iter().map(String::as_str))
        .collect();
    if !notes.is_empty() {
        head.push_str("<div class=\"notes\" role=\"note\">\n<strong>Warnings</strong>\n<ul>\n");
        notes.iter().for_each(|note| head.push_str(&format!("<li>{}</li>\n", escaped(note))));
        head.push_str("</ul>\n</div>\n");
    }
    head.push_str("</header>\n");
    head
}

/// As the table for terminals has it.
pub fn time(seconds: f64) -> String {
    table::time(seconds).replace(" us", " µs")
}

const EMULATED: &str = "<span class=\"badge\">emulated</span>";

fn plots(rows: &[Row], summary: &Summary) -> Drawn {
    let mut page = String::from("<h2>Plots</h2>\n<div class=\"plots\">\n");
    let routes = routes(rows)?;
    let mut roofline = routes.clone();
    if let Some(peer) = rows.iter().find_map(|row| row.peer.as_ref()) {
        roofline.push((look::sample_of_mark(&bars::of_peer())?, peer.name.clone()));
    }
    if rows.iter().any(|row| row.bound.cpu_ceiling.is_some()) {
        roofline.push((look::sample_of_mark(&bars::of_processors())?, "processors could carry at most".into()));
    }
    let about = "Bars against the ceilings of this machine, on a logarithmic scale; beside each what bound it. Numbers are \
                 those of the table; ×8×2 is a depth of 8 in each of 2 threads.";
    figure(&mut page, "Throughput against the ceilings", about, &bars::roofline(rows, &summary.ceilings)?, &roofline);
    for plot in lines::plots(rows)? {
        figure(&mut page, &plot.title, &plot.about, &plot.svg, &plot.legend);
    }
    let names = ["median", "99 of 100 at most", "99.9 of 100 at most"];
    let mut quantiles = Vec::new();
    for (look, name) in bars::of_quantiles(INK).iter().zip(names) {
        quantiles.push((look::sample_of_mark(look)?, name.to_owned()));
    }
    quantiles.extend(routes.iter().cloned());
    let about = "From a read's begin until all of it has landed, as the kernel answered, on a logarithmic scale.";
    figure(&mut page, "Latency", about, &bars::latency(rows)?, &quantiles);
    let about = "Of this process, the kernel's workers for it included, for each gigabyte that came.";
    figure(&mut page, "Processor seconds per GB", about, &bars::processor_time(rows)?, &routes);
    page.push_str("</div>\n");
    Ok(page)
}

/// Each route once, as the bars have it.
fn routes(rows: &[Row]) -> Result<Vec<(String, String)>, Broken> {
    let mut known: Vec<&str> = Vec::new();
    for row in rows {
        if !known.contains(&row.route.as_str()) {
            known.push(&row.route);
        }
    }
    known.into_iter().map(|route| Ok((look::sample_of_bar(route)?, route.replace('_', " ")))).collect()
}

fn figure(page: &mut String, title: &str, about: &str, svg: &str, legend: &[(String, String)]) {
    let _ =
        write!(page, "<figure>\n<h3>{}</h3>\n<p>{}</p>\n{svg}<ul class=\"legend\">\n", escaped(title), escaped(about));
    for (sample, name) in legend {
        let _ = writeln!(page, "<li>{}{}</li>", sample.trim_end(), escaped(name));
    }
    page.push_str("</ul>\n</figure>\n");
}

/// `random reads of 4 KiB, 32 at once in each of 2 threads`.
fn reads(row: &Row) -> String {
    let threads = if row.threads == 1 { String::new() } else { format!(" in each of {} threads", row.threads) };
    format!("{} reads of {}, {} at once{threads}", pattern(row), shown(row.chunk), row.depth)
}

fn pattern(row: &Row) -> String {
    format!("{:?}", row.pattern).to_lowercase()
}

fn of_cache(row: &Row) -> String {
    match row.cache.as_str() {
        "memory" => "of a file system in memory".into(),
        "unproven" => "with a page cache of which nothing is proven".into(),
        cache => format!("with a page cache proven {cache}"),
    }
}

fn table(rows: &[Row]) -> String {
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
        for ((name, is_name), cell) in columns(has_peer).zip(cells(row, has_peer)) {
            let badge = if name == "Route" && row.emulated { format!(" {EMULATED}") } else { String::new() };
            let _ = write!(table, "<td{}>{}{badge}</td>", class(is_name), escaped(&cell));
        }
        let _ = writeln!(
            table,
            "</tr>\n<tr class=\"why\"><td></td><td colspan=\"{}\"><div>Bound by {}: {}. To move it: {}.</div></td></tr></tbody>",
            columns(has_peer).count(),
            row.bound.by,
            escaped(&row.bound.why),
            escaped(&row.bound.fix)
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
fn cells(row: &Row, has_peer: bool) -> Vec<String> {
    let percent = |share: Option<f64>| share.map_or("unknown".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let least = row.runs.iter().copied().fold(f64::INFINITY, f64::min) / 1e9;
    let most = row.runs.iter().copied().fold(0.0, f64::max) / 1e9;
    let mut cells = vec![
        pattern(row),
        shown(row.chunk),
        row.depth.to_string(),
        row.threads.to_string(),
        row.route.replace('_', " "),
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

fn method(summary: &Summary) -> String {
    let mut points = vec![
        format!(
            "All that is compared was measured in turns: each of {} ran every row once, so that what the machine did \
             meanwhile fell on all of them. GB/s is the median of the rounds; least and most are the slowest and the fastest.",
            counted(summary.rounds as u64, "round")
        ),
        "The route is the one that the bytes took by proof, not the one that was asked for. 1 GB is 10^9 bytes, 1 KiB 1024."
            .to_owned(),
        "Page cache: cold and warm are what the kernel itself said of the file before each run: less than 0.1 % of it in the \
         page cache, or more than 99.9 %. Unproven is neither, or a kernel that does not tell; memory is a file system \
         that has no drive, where nothing is cold. Cached before and after are the most of any run."
            .to_owned(),
        "Latency is from a read's begin until all of it has landed. Processor time is that of this process and of the \
         kernel's workers for it."
            .to_owned(),
        "Ceilings: memory copies of 64 MiB to 64 MiB, counted once; the warm file out of the page cache by one thread; and for \
         the drive the most that any row got past the page cache, which is not more than the rows asked for."
            .to_owned(),
        "Bound by names the first of these that a row ran into, with how near it was: a processor, memory, the drive, or too \
         few reads at once."
            .to_owned(),
    ];
    points.extend(summary.peer.as_ref().map(|peer| {
        format!(
            "{peer} did the same beside each run: same file, reads, depth and threads, with registered memory and files. The \
             ratio is the median of ours to its, round by round: above 1 we are faster."
        )
    }));
    points.push("Bytes right: in a pass of its own, bytes that came were held against those of the file.".to_owned());
    let points: String = points.iter().map(|point| format!("<li>{}</li>\n", escaped(point))).collect();
    format!("<h2>How it was measured</h2>\n<ul class=\"method\">\n{points}</ul>\n")
}
