//! The page: what was measured and on what, the plots, the whole table, and how it was measured.

use std::fmt::Write;

use super::bars;
use super::lines;
use super::look::{self, Broken, Drawn, INK};
use super::rows::{self, pattern};
use super::text::escaped;
use super::{EMULATED, method};
use crate::bench::Summary;
use crate::bench::ceilings::LINK_CHUNK;
use crate::bench::row::{self, Row};
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
    page.push_str(&plots(rows, summary)?);
    page.push_str(&rows::table(rows, &summary.lost));
    page.push_str(&method::method(summary));
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
                escaped(&row.way(rows)),
                escaped(&of_cache(row)),
                row.bound.by,
            );
        }
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
    facts.extend(ceilings.to_device.zip(ceilings.to_host).map(|(to, from)| {
        ("Copies", format!("to the GPU {}, back {}, of {} each", rate(to), rate(from), shown(LINK_CHUNK)))
    }));
    let links: Vec<String> = ceilings.pcie.iter().map(ToString::to_string).collect();
    if !links.is_empty() {
        facts.push(("PCIe", links.join("; ")));
    }
    facts.extend(
        summary
            .tuned
            .as_ref()
            .map(|tuned| ("Tuned", format!("best for {}: {}; {}", tuned.profile(), tuned.in_words(), tuned.kept()))),
    );
    facts.push(("Began", summary.began.clone()));
    facts.push(("Command", summary.command.clone()));
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

fn plots(rows: &[Row], summary: &Summary) -> Drawn {
    let mut page = String::from("<h2>Plots</h2>\n<div class=\"plots\">\n");
    let routes = routes(rows)?;
    let mut roofline = routes.clone();
    if let Some(peers) = row::peers(rows) {
        roofline.push((look::sample_of_mark(&bars::of_peer())?, peers));
    }
    if rows.iter().any(|row| row.bound.cpu_ceiling.is_some()) {
        roofline.push((look::sample_of_mark(&bars::of_processors())?, "processors could carry at most".into()));
    }
    let about = "Bars against the ceilings of this machine, on a logarithmic scale; beside each what bound it. Numbers are \
                 those of the table; ×8×2 is a depth of 8 in each of 2 threads.";
    let drawn = bars::roofline(rows, &summary.ceilings)?;
    figure(&mut page, BARS, "Throughput against the ceilings", about, &drawn, &roofline);
    for plot in lines::plots(rows)?.into_iter().chain(lines::link(&summary.ceilings.link)?) {
        figure(&mut page, LINES, &plot.title, &plot.about, &plot.svg, &plot.legend);
    }
    let names = ["median", "99 of 100 at most", "99.9 of 100 at most"];
    let mut quantiles = Vec::new();
    for (look, name) in bars::of_quantiles(INK).iter().zip(names) {
        quantiles.push((look::sample_of_mark(look)?, name.to_owned()));
    }
    quantiles.extend(routes.iter().cloned());
    let about = "From a read's begin until all of it has landed, as the kernel answered, on a logarithmic scale.";
    figure(&mut page, BARS, "Latency", about, &bars::latency(rows)?, &quantiles);
    let about = "Of this process, the kernel's workers for it included, for each gigabyte that came.";
    figure(&mut page, BARS, "Processor seconds per GB", about, &bars::processor_time(rows)?, &routes);
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

/// Classes of figures: as tall as there are rows, or all of one height.
const BARS: &str = "bars";
const LINES: &str = "lines";

fn figure(page: &mut String, class: &str, title: &str, about: &str, svg: &str, legend: &[(String, String)]) {
    let (title, about) = (escaped(title), escaped(about));
    let _ = write!(page, "<figure class=\"{class}\">\n<h3>{title}</h3>\n<p>{about}</p>\n{svg}<ul class=\"legend\">\n");
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

fn of_cache(row: &Row) -> String {
    match row.cache.as_str() {
        "memory" => "of a file system in memory".into(),
        "unproven" => "with a page cache of which nothing is proven".into(),
        cache => format!("with a page cache proven {cache}"),
    }
}
