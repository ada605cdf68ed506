//! Axes: what is where, and which figures stand there.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// Figures that fit beside each other on a phone.
const MOST_TICKS: usize = 6;

/// From the least to the most of some numbers, in places of which the distances are what the eye sees.
#[derive(Clone)]
pub struct Axis {
    scale: Scale,
    pub from: f64,
    pub to: f64,
    /// Places.
    pub ticks: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Binary,
    Decimal,
}

impl Axis {
    /// Of doublings: bytes of a read, reads at once.
    pub fn doublings(numbers: impl Iterator<Item = f64> + Clone) -> Self {
        let (least, most) = ends(numbers);
        let (from, to) = (least.log2().floor() as i32, most.log2().ceil() as i32);
        let step = (1..).find(|step| (to - from) / step < MOST_TICKS as i32).unwrap_or(1);
        let ticks = (from..=to).step_by(step as usize).map(f64::from).collect();
        Self { scale: Scale::Binary, from: f64::from(from) - 0.3, to: f64::from(to) + 0.3, ticks }
    }

    /// Of powers of ten: what differs by so much that the least of it would not be seen. `room` is how many figures fit.
    pub fn tens(numbers: impl Iterator<Item = f64> + Clone, room: usize) -> Self {
        let (least, most) = ends(numbers);
        let (from, to) = (below(least.log10()), above(most.log10() + 0.02).max(below(least.log10()) + 0.3));
        let steps: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let within = |steps: &[f64]| -> Vec<f64> {
            let decades = from.floor() as i32..=to.ceil() as i32;
            let all = decades.flat_map(|ten| steps.iter().map(move |step| f64::from(ten) + step.log10()));
            all.filter(|place| *place >= from - 1e-9 && *place <= to + 1e-9).collect()
        };
        let ticks = steps.into_iter().map(within).find(|ticks| ticks.len() <= room);
        let ticks = ticks.unwrap_or_else(|| within(&[1.0]).into_iter().step_by(2).collect());
        Self { scale: Scale::Decimal, from, to, ticks }
    }

    /// From nothing.
    pub fn from_zero(numbers: impl Iterator<Item = f64> + Clone) -> Self {
        let most = numbers.fold(0.0, f64::max).max(1e-9);
        let ten = 10_f64.powf((most / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * ten).into_iter().find(|step| most / step <= 5.0);
        let step = step.unwrap_or(ten);
        let ticks: Vec<f64> = (0..=(most / step).ceil() as i32).map(|number| f64::from(number) * step).collect();
        let to = ticks.last().copied().unwrap_or(most).max(most);
        Self { scale: Scale::Linear, from: 0.0, to, ticks }
    }

    /// As `from_zero` where all can be seen so, else as `tens`.
    pub fn fitting(numbers: impl Iterator<Item = f64> + Clone) -> Self {
        let (least, most) = ends(numbers.clone());
        if most / least < 12.0 { Self::from_zero(numbers) } else { Self::tens(numbers, 8) }
    }

    /// Where a number is.
    pub fn place(&self, number: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => number,
            Scale::Binary => number.log2(),
            Scale::Decimal => number.log10(),
        };
        place.clamp(self.from, self.to)
    }

    /// The number at a place.
    pub fn number(&self, place: f64) -> f64 {
        match self.scale {
            Scale::Linear => place,
            Scale::Binary => place.exp2(),
            Scale::Decimal => 10_f64.powf(place),
        }
    }

    pub fn is_logarithmic(&self) -> bool {
        self.scale != Scale::Linear
    }
}

/// For plots of two axes: values are numbers, not places.
impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, number: &f64, limit: (i32, i32)) -> i32 {
        let share = (self.place(*number) - self.from) / (self.to - self.from);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // No lines but those at figures.
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.iter().map(|tick| self.number(*tick)).collect()
        }
    }

    fn range(&self) -> Range<f64> {
        self.number(self.from)..self.number(self.to)
    }
}

/// The least and the most that have a logarithm.
fn ends(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let positive = numbers.filter(|number| number.is_finite() && *number > 0.0);
    let (least, most) =
        positive.fold((f64::INFINITY, 0.0), |(least, most), number| (f64::min(least, number), f64::max(most, number)));
    if most > 0.0 { (least, most) } else { (1.0, 1.0) }
}

/// The next 1, 2 or 5 of a decade below a logarithm, and above one.
fn below(log: f64) -> f64 {
    let ten = log.floor();
    [5_f64, 2.0, 1.0].map(|digit| ten + digit.log10()).into_iter().find(|place| *place <= log).unwrap_or(ten)
}

fn above(log: f64) -> f64 {
    let ten = log.floor();
    [2_f64, 5.0].map(|digit| ten + digit.log10()).into_iter().find(|place| *place >= log).unwrap_or(ten + 1.0)
}

pub fn bytes(number: f64) -> String {
    crate::byte_count::shown(number.round() as u64)
}

pub fn count(number: f64) -> String {
    format!("{}", number.round())
}

pub fn rate(number: f64) -> String {
    in_units(number, &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "KB/s"), (1.0, "B/s")])
}

pub fn time(number: f64) -> String {
    in_units(number, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")])
}

pub fn plain(number: f64) -> String {
    format!("{}", (number * 1e6).round() / 1e6)
}

fn in_units(number: f64, units: &[(f64, &str)]) -> String {
    // As ticks are computed, 1e-3 may be a little less.
    match units.iter().find(|(unit, _)| number >= unit * 0.999_999) {
        Some((unit, name)) => format!("{} {name}", (number / unit * 1e3).round() / 1e3),
        None => "0".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(axis: &Axis, name: fn(f64) -> String) -> Vec<String> {
        axis.ticks.iter().map(|tick| name(axis.number(*tick))).collect()
    }

    #[test]
    fn figures_are_round_and_few() {
        let axis = Axis::doublings([4096.0, 16384.0, 131072.0].into_iter());
        assert_eq!(told(&axis, bytes), ["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB", "128 KiB"]);
        let axis = Axis::doublings([4096.0, 1048576.0].into_iter());
        assert_eq!(told(&axis, bytes), ["4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"]);
        assert_eq!(told(&Axis::tens([3e-5, 1.2].into_iter(), 6), time), ["100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
        assert_eq!(told(&Axis::tens([4e8, 1.9e9].into_iter(), 6), rate), ["200 MB/s", "500 MB/s", "1 GB/s", "2 GB/s"]);
        assert_eq!(told(&Axis::from_zero([0.7, 2.3].into_iter()), plain), ["0", "0.5", "1", "1.5", "2", "2.5"]);
    }

    #[test]
    fn all_numbers_are_on_the_axis_whatever_they_are() {
        for numbers in [&[][..], &[0.0], &[1.0], &[1e-9, 1e12], &[f64::NAN, 3.0], &[5.0, 5.0], &[152.0 * 1024.0]] {
            let all = || numbers.iter().copied();
            for axis in [Axis::doublings(all()), Axis::tens(all(), 6), Axis::from_zero(all()), Axis::fitting(all())] {
                assert!(axis.from < axis.to && axis.ticks.len() <= 12, "{numbers:?}");
                for tick in &axis.ticks {
                    assert!(*tick >= axis.from - 1e-6 && *tick <= axis.to + 1e-6, "{numbers:?}: {tick}");
                }
            }
        }
    }
}
