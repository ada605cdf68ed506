//! Whether routes can be told apart by who sees colours otherwise, on paper and in the dark.

use super::*;

const STYLE: &str = include_str!("../style.css");
const ROUTES: [(&str, &str); 4] =
    [("direct", "direct"), ("compat", "direct_compat"), ("bounce", "bounce"), ("cached", "cached")];

type Matrix = [[f64; 3]; 3];

/// What is left of linear RGB where one kind of cone is missing: Machado, Oliveira and Fernandes (2009), severity 1.
const SEEN: [(&str, Matrix); 4] = [
    ("all cones", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    ("protanopia", [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    (
        "deuteranopia",
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ),
    ("tritanopia", [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
];

/// Less is hard to tell apart in things as small as a mark.
const APART: f64 = 10.0;

/// A variable of the style, on paper or in the dark.
fn of_style(name: &str, is_dark: bool) -> [u8; 3] {
    let (paper, dark) = STYLE.split_once("@media screen and (prefers-color-scheme: dark)").unwrap();
    let part = if is_dark { dark } else { paper };
    let digits = part.split(&format!("--{name}: #")).nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    let wide: String =
        if digits.len() == 3 { digits.chars().flat_map(|digit| [digit; 2]).collect() } else { digits.into() };
    [0, 2, 4].map(|at| u8::from_str_radix(&wide[at..at + 2], 16).unwrap())
}

fn linear(color: [u8; 3]) -> [f64; 3] {
    color.map(|value| match f64::from(value) / 255.0 {
        value if value <= 0.04045 => value / 12.92,
        value => ((value + 0.055) / 1.055).powf(2.4),
    })
}

fn times(matrix: &Matrix, vector: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
}

/// CIELAB of linear sRGB, to the white of D65.
fn lab(rgb: [f64; 3]) -> [f64; 3] {
    const XYZ: Matrix =
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]];
    let [x, y, z] = times(&XYZ, rgb);
    let [x, y, z] = [x / 0.95047, y, z / 1.08883].map(|part| match part {
        part if part > 216.0 / 24389.0 => part.cbrt(),
        part => (24389.0 / 27.0 * part + 16.0) / 116.0,
    });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// Delta E (CIE 1976) of two colours as they are seen.
fn apart(a: [u8; 3], b: [u8; 3], seen: &Matrix) -> f64 {
    let seen = |color| lab(times(seen, linear(color)).map(|part| part.clamp(0.0, 1.0)));
    let (a, b) = (seen(a), seen(b));
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
    let luminance = |color| linear(color).iter().zip([0.2126, 0.7152, 0.0722]).map(|(a, b)| a * b).sum::<f64>();
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn the_simulation_takes_for_one_what_the_colour_blind_do() {
    let pairs: [[[u8; 3]; 2]; 3] = [
        [[0xf1, 0x54, 0x0a], [0x0e, 0x86, 0x01]],
        [[0xdf, 0x18, 0x4b], [0x36, 0x93, 0x3c]],
        [[0x18, 0xe6, 0x0b], [0x19, 0xe5, 0xa4]],
    ];
    for ((kind, seen), [a, b]) in SEEN[1..].iter().zip(pairs) {
        assert!(apart(a, b, &SEEN[0].1) > 50.0 && apart(a, b, seen) < APART, "{kind}");
        // Grey is grey to all.
        assert!(apart([0x80; 3], [0x80; 3].map(|value| value + 1), seen) < 1.0, "{kind}");
    }
    // White and black are 100 apart, by definition.
    assert!((apart([255; 3], [0; 3], &SEEN[0].1) - 100.0).abs() < 0.01);
}

/// Bars of two routes stand beside each other, and a bar has no shape: the colour alone has to do.
#[test]
fn every_two_routes_are_apart_however_colours_are_seen_on_paper_and_in_the_dark() {
    for is_dark in [false, true] {
        for (kind, seen) in &SEEN {
            for (number, (a, _)) in ROUTES.iter().enumerate() {
                for (b, _) in &ROUTES[number + 1..] {
                    let apart = apart(of_style(a, is_dark), of_style(b, is_dark), seen);
                    assert!(apart >= APART, "{a} and {b}, dark {is_dark}, {kind}: {apart:.1}");
                }
            }
        }
    }
}

#[test]
fn every_route_stands_out_from_what_it_is_drawn_on() {
    for is_dark in [false, true] {
        for name in ROUTES.map(|(name, _)| name).into_iter().chain(["ink", "axis"]) {
            let contrast = contrast(of_style(name, is_dark), of_style("box", is_dark));
            // WCAG 2.1, 1.4.11: parts of graphics.
            assert!(contrast >= 3.0, "{name}, dark {is_dark}: {contrast:.1}");
        }
    }
}

/// The style finds what is drawn by its colour: one that it does not know would stay as it is on paper.
#[test]
fn what_is_drawn_is_what_the_style_knows() {
    for (name, route) in ROUTES {
        let RGBColor(red, green, blue) = of_route(route, "", 0).color;
        assert_eq!([red, green, blue], of_style(name, false), "{route}");
        for part in ["fill", "stroke"] {
            let rule = format!("svg [{part}=\"#{red:02X}{green:02X}{blue:02X}\"] {{ {part}: var(--{name}); }}");
            assert!(STYLE.contains(&rule), "{rule}");
        }
    }
}

/// Lines of one route have one colour: they differ in their dashes, and cold from warm in being filled.
#[test]
fn series_differ_in_shape_too() {
    for (number, (_, a)) in ROUTES.iter().enumerate() {
        for (_, b) in &ROUTES[number + 1..] {
            assert_ne!(of_route(a, "cold", 0).mark, of_route(b, "cold", 0).mark);
        }
        assert_ne!(of_route(a, "cold", 0).hollow, of_route(a, "warm", 0).hollow);
        for before in 0..DASHES.len() {
            for other in 0..before {
                assert_ne!(of_route(a, "cold", before).dash, of_route(a, "cold", other).dash);
            }
        }
    }
}
