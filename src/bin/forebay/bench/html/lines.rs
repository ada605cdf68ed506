//! Throughput by bytes of a read, and by reads at once.

use std::collections::BTreeMap;

use plotters::prelude::*;

use super::axis::{self, Axis};
use super::look::{self, Broken, Drawn, Look};
use crate::bench::case::Pattern;
use crate::bench::ceilings::LinkRate;
use crate::bench::row::Row;
use crate::byte_count::shown;

const HEIGHT: u32 = 270;

pub struct Plot {
    pub title: String,
    pub about: String,
    pub svg: String,
    /// Samples with their names.
    pub legend: Vec<(String, String)>,
}

/// One line.
struct Series {
    name: String,
    look: Look,
    /// By what is across; the best where several rows are there.
    points: BTreeMap<u64, f64>,
}

pub fn plots(rows: &[Row]) -> Result<Vec<Plot>, Broken> {
    let mut plots = Vec::new();
    for pattern in Pattern::ALL {
        let of = rows.iter().filter(|row| row.pattern == pattern);
        let order = pattern.in_words();
        let chunks = series(of.clone(), |row| (way(row, rows), row.chunk));
        if let Some(svg) = plot(&chunks, "bytes of a read", axis::bytes)? {
            let title = format!("Throughput by size of read, {order}");
            let about = "The best of all depths and threads that were measured.";
            plots.push(Plot { title, about: about.into(), svg, legend: legend(&chunks)? });
        }
        let depths = series(of, |row| (format!("{}, {}", way(row, rows), shown(row.chunk)), in_flight(row)));
        if let Some(svg) = plot(&depths, "reads under way at once, of all threads together", axis::count)? {
            let title = format!("Throughput by depth, {order}");
            plots.push(Plot { title, about: "One line for each size of read.".into(), svg, legend: legend(&depths)? });
        }
    }
    Ok(plots)
}

/// Copies between pinned memory and the GPU, where there is one.
pub fn link(rates: &[LinkRate]) -> Result<Option<Plot>, Broken> {
    let series = |name: &str, mark, dash, rate: fn(&LinkRate) -> f64| Series {
        name: name.into(),
        // A colour would be a route's.
        look: Look { color: look::INK, mark, hollow: dash != look::DASHES[0], dash },
        points: rates.iter().map(|rates| (rates.chunk, rate(rates))).collect(),
    };
    let all = [
        series("to the GPU", look::Mark::Circle, look::DASHES[0], |rates| rates.to_device),
        series("back to the host", look::Mark::Diamond, look::DASHES[1], |rates| rates.to_host),
    ];
    let all = if rates.is_empty() { &[][..] } else { &all[..] };
    let Some(svg) = plot(all, "bytes of a copy", axis::bytes)? else { return Ok(None) };
    let about = "Copies between pinned memory and the GPU by themselves: what no route through the host can exceed.";
    Ok(Some(Plot { title: "The link by size of copy".into(), about: about.into(), svg, legend: legend(all)? }))
}

fn way(row: &Row, rows: &[Row]) -> String {
    format!("{}, {}", row.way(rows), row.cache)
}

fn in_flight(row: &Row) -> u64 {
    u64::from(row.depth) * u64::from(row.threads)
}

/// Those that have at least two points, by name.
fn series<'a>(rows: impl Iterator<Item = &'a Row>, key: impl Fn(&Row) -> (String, u64)) -> Vec<Series> {
    let mut found: Vec<(String, &Row, BTreeMap<u64, f64>)> = Vec::new();
    for row in rows.filter(|row| row.bytes_per_second > 0.0) {
        let (name, across) = key(row);
        let at = found.iter().position(|(known, ..)| *known == name).unwrap_or_else(|| {
            found.push((name, row, BTreeMap::new()));
            found.len() - 1
        });
        let best = found[at].2.entry(across).or_default();
        *best = best.max(row.bytes_per_second);
    }
    found.retain(|(.., points)| points.len() >= 2);
    let mut before: BTreeMap<String, usize> = BTreeMap::new();
    found
        .into_iter()
        .map(|(name, row, points)| {
            let number = before.entry(row.route.clone()).or_default();
            let look = look::of_route(&row.route, &row.cache, *number);
            *number += 1;
            Series { name, look, points }
        })
        .collect()
}

/// `None` where there is no line.
fn plot(all: &[Series], across: &str, name: fn(f64) -> String) -> Result<Option<String>, Broken> {
    if all.is_empty() {
        return Ok(None);
    }
    let x = Axis::doublings(all.iter().flat_map(|series| series.points.keys().map(|at| *at as f64)));
    let y = Axis::fitting(all.iter().flat_map(|series| series.points.values().copied()));
    let scale = if y.is_logarithmic() { "logarithmic" } else { "linear, from 0" };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (look::WIDTH, HEIGHT)).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin_top(10)
            .margin_right(20)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .bold_line_style(look::GRID)
            .axis_style(look::AXIS)
            .label_style(look::text(look::TEXT))
            .axis_desc_style(look::text(look::TEXT))
            .x_desc(across)
            .x_label_formatter(&|number| name(*number))
            .y_label_formatter(&|number| axis::rate(*number))
            .draw()?;
        for series in all {
            let pixels: Vec<(i32, i32)> =
                series.points.iter().map(|(at, rate)| chart.backend_coord(&(*at as f64, *rate))).collect();
            look::draw_line(&area, &pixels, series.look.color, series.look.dash)?;
            for pixel in pixels {
                look::draw_mark(&area, pixel, &series.look)?;
            }
        }
        area.present()?;
    }
    let label = format!("bytes per second ({scale}) by {across}; the figures are in the table");
    Ok(Some(look::framed(&svg, &format!("role=\"img\" aria-label=\"{label}\""))))
}

fn legend(all: &[Series]) -> Result<Vec<(String, String)>, Broken> {
    let sampled = |series: &Series| -> Result<(String, String), Broken> {
        let svg: Drawn = look::sample(&series.look);
        Ok((svg?, series.name.clone()))
    };
    all.iter().map(sampled).collect()
}
