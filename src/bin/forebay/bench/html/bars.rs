//! What each row came to, one below the other: throughput against the ceilings, latency, processor time.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{self, Axis};
use super::look::{self, AXIS, Broken, Drawn, GRID, INK, Look, Mark, WIDTH};
use super::rows::time;
use crate::bench::ceilings::Ceilings;
use crate::bench::pcie::{self, What};
use crate::bench::row::Row;
use crate::byte_count::{rate, shown};

/// Pixels of a row, of a ceiling's name, and of the figures of the axis.
const ROW: i32 = 36;
const CEILING: i32 = 18;
const FIGURES: i32 = 26;
/// On both sides, so that the first and the last figure are whole.
const MARGIN: i32 = 22;
const SMALL: i32 = 11;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Each row against what the machine can do at most.
pub fn roofline(rows: &[Row], ceilings: &Ceilings) -> Drawn {
    let limits = limits(ceilings);
    let rates =
        rows.iter().flat_map(|row| [Some(row.bytes_per_second), row.peer.as_ref().map(|peer| peer.bytes_per_second)]);
    // So that the least is a bar, too.
    let rates = rates.flatten().flat_map(|rate| [rate / 1.5, rate]);
    let rates = rates.chain(rows.iter().filter_map(|row| row.bound.cpu_ceiling));
    let x = Axis::tens(rates.chain(limits.iter().map(|limit| limit.1)), 5);
    let head = limits.len() as i32 * CEILING;
    let label = "bytes per second of each row (bars, logarithmic) against the machine's ceilings (upright lines)";
    draw(
        rows,
        head,
        &x,
        axis::rate,
        label,
        &|area, places| {
            for (number, (name, limit, dash)) in limits.iter().enumerate() {
                let (at, y) = (places.x(&x, *limit), number as i32 * CEILING + CEILING / 2);
                look::draw_line(area, &[(at, y - 7), (at, places.bottom)], INK, *dash)?;
                let told = format!("{name} {}", rate(*limit));
                let (side, offset) = if at > WIDTH as i32 / 2 { (HPos::Right, -6) } else { (HPos::Left, 6) };
                area.draw(&Text::new(told, (at + offset, y), anchored(side)))?;
            }
            Ok(())
        },
        &|row| format!("{} · {}", rate(row.bytes_per_second), row.bound.by),
        &|area, places, row, y| {
            bar(area, &row.route, (MARGIN, places.x(&x, row.bytes_per_second)), y)?;
            if let Some(most) = row.bound.cpu_ceiling {
                look::draw_mark(area, (places.x(&x, most), y), &of_processors())?;
            }
            if let Some(peer) = &row.peer {
                look::draw_mark(area, (places.x(&x, peer.bytes_per_second), y), &of_peer())?;
            }
            Ok(())
        },
    )
}

/// What another program got, on our bar.
pub fn of_peer() -> Look {
    Look { color: INK, mark: Mark::Diamond, hollow: true, dash: None }
}

/// What the processors could carry at most at what a row took of them.
pub fn of_processors() -> Look {
    Look { color: INK, mark: Mark::Cross, hollow: false, dash: None }
}

fn limits(ceilings: &Ceilings) -> Vec<(&'static str, f64, look::Dash)> {
    let pcie = |what| pcie::together(&ceilings.pcie, what, 0.0).map(|link| link.bytes_per_second);
    let all = [
        ("drive", ceilings.drive, None),
        ("drive's PCIe", pcie(What::Drive), Some((14, 3))),
        ("copies to the GPU", ceilings.to_device, Some((4, 4))),
        ("GPU's PCIe", pcie(What::Gpu), Some((10, 2))),
        ("page cache, one thread", ceilings.page_cache_copy, Some((8, 4))),
        ("memory copy, one thread", Some(ceilings.memory_copy), Some((2, 3))),
        ("memory copy, all threads", Some(ceilings.memory_copy_all), Some((12, 5))),
    ];
    let told =
        all.into_iter().filter_map(|(name, limit, dash)| Some((name, limit.filter(|limit| *limit > 0.0)?, dash)));
    told.collect()
}

/// Median, 99 and 99.9 of a hundred reads of each row.
pub fn latency(rows: &[Row]) -> Drawn {
    let all = |row: &Row| row.latency_seconds.map_or([0.0; 3], |latency| [latency.p50, latency.p99, latency.p999]);
    let x = Axis::tens(rows.iter().flat_map(all), 6);
    let label =
        "seconds of a read in each row (logarithmic): the median, and what 99 and 99.9 of 100 reads take at most";
    draw(
        rows,
        0,
        &x,
        axis::time,
        label,
        &|_, _| Ok(()),
        &|row| row.latency_seconds.map_or("not counted".into(), |latency| format!("p99 {}", time(latency.p99))),
        &|area, places, row, y| {
            if row.latency_seconds.is_none() {
                return Ok(());
            }
            let at = all(row).map(|time| (places.x(&x, time), y));
            let color = look::of_route(&row.route, &row.cache, 0).color;
            look::draw_line(area, &[at[0], at[2]], color, None)?;
            // The median last: where all three are one place it is seen.
            for (at, look) in at.into_iter().zip(of_quantiles(color)).rev() {
                look::draw_mark(area, at, &look)?;
            }
            Ok(())
        },
    )
}

/// How the median and the two others are marked.
pub fn of_quantiles(color: RGBColor) -> [Look; 3] {
    [(Mark::Circle, false), (Mark::Diamond, true), (Mark::Cross, false)].map(|(mark, hollow)| Look {
        color,
        mark,
        hollow,
        dash: None,
    })
}

/// Processor seconds for a gigabyte.
pub fn processor_time(rows: &[Row]) -> Drawn {
    let x = Axis::from_zero(rows.iter().map(|row| row.cpu_seconds_per_gb));
    let label = "processor seconds for a gigabyte in each row, from 0";
    draw(
        rows,
        0,
        &x,
        axis::plain,
        label,
        &|_, _| Ok(()),
        &|row| format!("{:.3} s/GB", row.cpu_seconds_per_gb),
        &|area, places, row, y| bar(area, &row.route, (MARGIN, places.x(&x, row.cpu_seconds_per_gb)), y),
    )
}

/// Pixels across, and where rows end.
struct Places {
    bottom: i32,
}

impl Places {
    fn x(&self, axis: &Axis, number: f64) -> i32 {
        let width = f64::from(WIDTH as i32 - 2 * MARGIN);
        MARGIN + ((axis.place(number) - axis.from) / (axis.to - axis.from) * width).round() as i32
    }
}

type Head<'a> = &'a dyn Fn(&Area<'_>, &Places) -> Result<(), Broken>;
type Body<'a> = &'a dyn Fn(&Area<'_>, &Places, &Row, i32) -> Result<(), Broken>;

/// Rows below each other, each with its name and its figure above what `body` draws of it.
#[allow(clippy::too_many_arguments)]
fn draw(
    rows: &[Row],
    head: i32,
    x: &Axis,
    figure: fn(f64) -> String,
    label: &str,
    before: Head<'_>,
    told: &dyn Fn(&Row) -> String,
    body: Body<'_>,
) -> Drawn {
    let bottom = head + rows.len() as i32 * ROW + 6;
    let places = Places { bottom };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, (bottom + FIGURES) as u32)).into_drawing_area();
        for tick in &x.ticks {
            let at = places.x(x, x.number(*tick));
            area.draw(&PathElement::new(vec![(at, head), (at, bottom)], GRID.stroke_width(1)))?;
            let style = look::text(look::TEXT).pos(Pos::new(HPos::Center, VPos::Top));
            area.draw(&Text::new(figure(x.number(*tick)), (at, bottom + 6), style))?;
        }
        area.draw(&PathElement::new(vec![(MARGIN, bottom), (WIDTH as i32 - MARGIN, bottom)], AXIS.stroke_width(1)))?;
        before(&area, &places)?;
        for (number, row) in rows.iter().enumerate() {
            let top = head + number as i32 * ROW;
            area.draw(&Text::new(name(number, row, rows), (4, top + 12), anchored(HPos::Left)))?;
            area.draw(&Text::new(told(row), (WIDTH as i32 - 4, top + 12), anchored(HPos::Right)))?;
            // Over what keeps lines away from the text.
            body(&area, &places, row, top + 26)?;
        }
        area.present()?;
    }
    Ok(look::framed(&svg, &format!("role=\"img\" aria-label=\"{label}; the figures are in the table\"")))
}

fn anchored<'a>(side: HPos) -> TextStyle<'a> {
    look::text(SMALL).pos(Pos::new(side, VPos::Center))
}

fn bar(area: &Area<'_>, route: &str, (from, to): (i32, i32), y: i32) -> Result<(), Broken> {
    let look = look::of_route(route, "", 0);
    area.draw(&Rectangle::new([(from, y - 5), (to.max(from + 1), y + 5)], look.color.filled()))?;
    Ok(())
}

/// So short that it fits beside a figure.
fn name(number: usize, row: &Row, rows: &[Row]) -> String {
    let route = if row.route == "direct_compat" { "compat".into() } else { row.way(rows) };
    let threads = if row.threads == 1 { String::new() } else { format!("×{}", row.threads) };
    let pattern = format!("{:?}", row.pattern).to_lowercase();
    let (chunk, depth, cache) = (shown(row.chunk), row.depth, &row.cache);
    format!("{}. {pattern} {chunk} ×{depth}{threads} {route} {cache}", number + 1)
}
