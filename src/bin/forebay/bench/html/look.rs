//! What things look like: the same route has the same colour and mark in each plot, and never the colour alone.
//!
//! Colours are written into the SVG as they are on paper; the page's style finds them there by their value and has others in
//! their place where it is dark. They are near the palette of Okabe and Ito (2008); that the colour-blind tell them apart is tested.

use plotters::element::DashedPathElement;
use plotters::prelude::*;

pub const INK: RGBColor = RGBColor(0x1b, 0x1b, 0x1b);
pub const AXIS: RGBColor = RGBColor(0x77, 0x77, 0x77);
pub const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// What a narrow phone has for a plot, so that text there is as large as it says; elsewhere it grows.
pub const WIDTH: u32 = 340;
pub const TEXT: i32 = 12;

pub type Broken = Box<dyn std::error::Error>;
pub type Drawn = Result<String, Broken>;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    pub color: RGBColor,
    pub mark: Mark,
    /// Not filled.
    pub hollow: bool,
    pub dash: Dash,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    Circle,
    Triangle,
    Square,
    Diamond,
    Cross,
}

/// Pixels drawn, and left out.
pub type Dash = Option<(u32, u32)>;

/// In the order in which series of one route take them.
pub const DASHES: [Dash; 5] = [None, Some((7, 4)), Some((2, 3)), Some((12, 4)), Some((4, 7))];

/// Of a row's route, and of how many series of it came before.
pub fn of_route(route: &str, cache: &str, before: usize) -> Look {
    let (color, mark) = match route {
        "direct" => (RGBColor(0x00, 0x72, 0xb2), Mark::Circle),
        "direct_compat" => (RGBColor(0xb3, 0x4d, 0x8a), Mark::Diamond),
        "bounce" => (RGBColor(0xd5, 0x5e, 0x00), Mark::Triangle),
        _ => (RGBColor(0x00, 0x8a, 0x64), Mark::Square),
    };
    Look { color, mark, hollow: cache == "warm", dash: DASHES[before % DASHES.len()] }
}

pub fn text<'a>(size: i32) -> TextStyle<'a> {
    ("sans-serif", size).into_font().color(&INK)
}

/// The corners of a mark around a pixel; of a circle there are none.
pub fn corners(mark: Mark) -> &'static [(i32, i32)] {
    match mark {
        Mark::Circle => &[],
        Mark::Triangle => &[(0, -5), (5, 4), (-5, 4), (0, -5)],
        Mark::Square => &[(-4, -4), (4, -4), (4, 4), (-4, 4), (-4, -4)],
        Mark::Diamond => &[(0, -6), (5, 0), (0, 6), (-5, 0), (0, -6)],
        Mark::Cross => &[(-4, -4), (4, 4), (0, 0), (4, -4), (-4, 4)],
    }
}

/// A mark at a pixel.
pub fn draw_mark(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    at: (i32, i32),
    look: &Look,
) -> Result<(), Broken> {
    // What is behind a hollow mark does not shine through.
    let fill = if look.hollow { WHITE } else { look.color };
    let points: Vec<(i32, i32)> = corners(look.mark).iter().map(|(x, y)| (at.0 + x, at.1 + y)).collect();
    match look.mark {
        Mark::Circle => {
            area.draw(&Circle::new(at, 5, fill.filled()))?;
            area.draw(&Circle::new(at, 5, look.color.stroke_width(2)))?;
        }
        Mark::Cross => area.draw(&PathElement::new(points, look.color.stroke_width(2)))?,
        _ => {
            area.draw(&Polygon::new(points.clone(), fill.filled()))?;
            area.draw(&PathElement::new(points, look.color.stroke_width(2)))?;
        }
    }
    Ok(())
}

/// A line through pixels.
pub fn draw_line(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    points: &[(i32, i32)],
    color: RGBColor,
    dash: Dash,
) -> Result<(), Broken> {
    let style = color.stroke_width(2);
    match dash {
        None => area.draw(&PathElement::new(points.to_vec(), style))?,
        Some((on, off)) => area.draw(&DashedPathElement::new(points.to_vec(), on, off, style))?,
    }
    Ok(())
}

/// A legend's sample.
pub fn sample(look: &Look) -> Drawn {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (44, 16)).into_drawing_area();
        draw_line(&area, &[(2, 8), (42, 8)], look.color, look.dash)?;
        draw_mark(&area, (22, 8), look)?;
        area.present()?;
    }
    Ok(framed(&svg, "class=\"sample\" aria-hidden=\"true\""))
}

/// The same of a mark by itself.
pub fn sample_of_mark(look: &Look) -> Drawn {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (16, 16)).into_drawing_area();
        draw_mark(&area, (8, 8), look)?;
        area.present()?;
    }
    Ok(framed(&svg, "class=\"sample mark\" aria-hidden=\"true\""))
}

/// The same of a bar.
pub fn sample_of_bar(route: &str) -> Drawn {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (24, 16)).into_drawing_area();
        area.draw(&Rectangle::new([(0, 3), (24, 13)], of_route(route, "", 0).color.filled()))?;
        area.present()?;
    }
    Ok(framed(&svg, "class=\"sample bar\" aria-hidden=\"true\""))
}

/// Without the size in pixels and what stands before the first tag: the page says how large it is.
pub fn framed(svg: &str, attributes: &str) -> String {
    let start = svg.find("viewBox").unwrap_or(0);
    format!("<svg {attributes} {}", &svg[start..])
}

#[cfg(test)]
mod tests;
