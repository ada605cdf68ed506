use super::super::random::Draws;

/// A part of a picture, in pixels; never empty, and within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// A width and a height.
type Size = (u32, u32);

impl Part {
    pub(super) fn all((width, height): Size) -> Self {
        Self { x: 0, y: 0, width, height }
    }

    /// The largest part of the shape of `target`, to the nearest pixel, from the middle.
    pub(super) fn middle((width, height): Size, target: Size) -> Self {
        let (part_width, part_height) = largest((width, height), target);
        Self { x: (width - part_width) / 2, y: (height - part_height) / 2, width: part_width, height: part_height }
    }

    /// Of `least_area` of the picture's area or more, and of the shape of `target` made up to a third wider or narrower,
    /// from anywhere; from the middle, where ten tries give none that lies within the picture.
    pub(super) fn random((width, height): Size, target: Size, least_area: f64, draws: &mut Draws) -> Self {
        let area = f64::from(width) * f64::from(height);
        for _ in 0..10 {
            let part_area = area * (least_area + (1.0 - least_area) * draws.unit());
            // As often wider as narrower. No logarithm: those differ between machines.
            let stretch = 1.0 + draws.unit() / 3.0;
            let stretch = if draws.next().is_multiple_of(2) { stretch } else { 1.0 / stretch };
            let aspect = f64::from(target.0) / f64::from(target.1) * stretch;
            let side = |squared: f64| squared.sqrt().round().clamp(1.0, f64::from(u32::MAX)) as u32;
            let (part_width, part_height) = (side(part_area * aspect), side(part_area / aspect));
            if let (Some(right), Some(below)) = (width.checked_sub(part_width), height.checked_sub(part_height)) {
                let (x, y) = (draws.up_to(right), draws.up_to(below));
                return Self { x, y, width: part_width, height: part_height };
            }
        }
        Self::middle((width, height), target)
    }
}

/// The largest size of the shape of `target` in that size.
fn largest((width, height): Size, (wide, high): Size) -> Size {
    let scaled = |side: u32, by: u32, of: u32, most: u32| {
        let of = u64::from(of.max(1));
        // Sides are of 32 bits, so nothing overflows.
        let nearest = (u64::from(side) * u64::from(by) + of / 2) / of;
        nearest.clamp(1, u64::from(most.max(1))) as u32
    };
    if u64::from(width) * u64::from(high) > u64::from(height) * u64::from(wide) {
        (scaled(height, wide, high, width), height)
    } else {
        (width, scaled(width, high, wide, height))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_lie_within_the_picture(
            size in (1_u32..=u32::MAX, 1_u32..=u32::MAX),
            small in (1_u32..60, 1_u32..60),
            target in (1_u32..2000, 1_u32..2000),
            least_area in 0.01_f64..=1.0,
            seed in any::<u64>(),
        ) {
            for size in [size, small, (size.0, small.1), (small.0, size.1)] {
                for part in [Part::middle(size, target), Part::random(size, target, least_area, &mut Draws(seed))] {
                    prop_assert!(part.width > 0 && part.height > 0, "{part:?}");
                    prop_assert!(u64::from(part.x) + u64::from(part.width) <= u64::from(size.0), "{part:?}");
                    prop_assert!(u64::from(part.y) + u64::from(part.height) <= u64::from(size.1), "{part:?}");
                }
            }
        }

        /// Either it takes a whole side, and a pixel more of the other would be too much; or it is what was asked for.
        #[test]
        fn the_middle_is_the_largest_part_of_its_shape(
            size in (1_u32..5000, 1_u32..5000),
            target in (1_u32..500, 1_u32..500),
        ) {
            let part = Part::middle(size, target);
            prop_assert!(part.width == size.0 || part.height == size.1);
            let exact = f64::min(f64::from(size.0) / f64::from(target.0), f64::from(size.1) / f64::from(target.1));
            prop_assert!((f64::from(part.width) - (exact * f64::from(target.0)).max(1.0)).abs() <= 0.5 + 1e-6);
            prop_assert!((f64::from(part.height) - (exact * f64::from(target.1)).max(1.0)).abs() <= 0.5 + 1e-6);
            prop_assert!(part.x.abs_diff(size.0 - part.width - part.x) <= 1);
            prop_assert!(part.y.abs_diff(size.1 - part.height - part.y) <= 1);
        }
    }

    #[test]
    fn random_parts_have_the_area_and_shape_that_were_asked_for_and_lie_everywhere() {
        let (mut left, mut top, mut wider, mut shares) = (0, 0, 0, [0; 4]);
        for seed in 0..4000 {
            let part =
                Part::random((1000, 1000), (200, 100), 0.2, &mut Draws(super::super::super::random::mixed(seed)));
            let share = f64::from(part.width) * f64::from(part.height) / 1e6;
            let stretch = f64::from(part.width) / f64::from(part.height) / 2.0;
            // A part of that shape has at most half the area (two thirds, where it is stretched to be less wide).
            assert!((0.199..0.67).contains(&share), "{share}");
            assert!((0.74..1.34).contains(&stretch), "{stretch}");
            left += usize::from(part.x < (1000 - part.width).div_ceil(2));
            top += usize::from(part.y < (1000 - part.height).div_ceil(2));
            wider += usize::from(stretch > 1.0);
            shares[((share - 0.2) * 10.0).clamp(0.0, 3.0) as usize] += 1;
        }
        for half in [left, top] {
            assert!((1700..2300).contains(&half), "{left} {top}");
        }
        assert!((1000..2300).contains(&wider), "{wider}");
        assert!(shares[..3].iter().all(|count| *count > 400), "{shares:?}");
    }
}
