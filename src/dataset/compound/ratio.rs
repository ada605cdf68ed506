//! Weights as whole numbers: how often each child comes in a period.

use crate::dataset::DatasetError;

/// Steps of the longest period: its table is 8 MiB.
pub(super) const LONGEST: u32 = 1 << 20;

/// Weights are the numbers that they are written as to within this share of all: `0.1`, of which there is no `f64`, is a
/// tenth. A million million samples are off by less than a hundredth of a sample for it.
const EXACT: f64 = 1.0 / (1_u64 << 48) as f64;

/// Weights are added up in units of the largest's 2^-100: of fewer than 2^28, the sum is in a `u128`.
const UNIT: f64 = (1_u128 << 100) as f64;

/// For each weight how often its child comes in a period: the shortest period of these proportions, or the longest with
/// the nearest ones.
pub(super) fn counts(weights: &[f64]) -> Result<Vec<u32>, DatasetError> {
    let scaled = scaled(weights)?;
    let sum: u128 = scaled.iter().sum();
    let counts = exact(&scaled, sum).unwrap_or_else(|| nearest(&scaled, sum));
    match weights.iter().zip(&counts).position(|(&weight, &count)| weight > 0.0 && count == 0) {
        None => Ok(counts),
        Some(child) => {
            let what =
                format!("dataset {child} of a mixture would not come once in {LONGEST} samples, so low is its weight");
            Err(DatasetError::setting("", what, "give it more, or leave it out"))
        }
    }
}

fn scaled(weights: &[f64]) -> Result<Vec<u128>, DatasetError> {
    let wrong = |what: String, fix| Err(DatasetError::setting("", what, fix));
    if let Some(child) = weights.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
        let what = format!("dataset {child} of a mixture has the weight {}", weights[child]);
        return wrong(what, "give numbers from 0 on, such as each dataset's share");
    }
    let largest = weights.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return wrong("no dataset of a mixture has a weight above 0".into(), "give at least one of them one");
    }
    if weights.len() > LONGEST as usize {
        return wrong(format!("a mixture of more than {LONGEST} datasets"), "concatenate some of them first");
    }
    // A power of two times a number between 0 and 1: rounded once, by the division.
    Ok(weights.iter().map(|weight| (weight / largest * UNIT) as u128).collect())
}

fn exact(scaled: &[u128], sum: u128) -> Option<Vec<u32>> {
    let shares: Vec<f64> = scaled.iter().map(|&weight| weight as f64 / sum as f64).collect();
    let whole = |times: f64, steps: f64| (times - times.round()).abs() <= steps * EXACT;
    // Nothing is a whole number of times there, however often it is looked at.
    let some: Vec<f64> = shares.iter().copied().filter(|share| *share > 0.0).collect();
    let steps = (1..=LONGEST).map(f64::from).find(|&steps| some.iter().all(|share| whole(share * steps, steps)))?;
    Some(shares.iter().map(|share| (share * steps).round() as u32).collect())
}

/// Largest remainders: each is off by less than one in the longest period.
fn nearest(scaled: &[u128], sum: u128) -> Vec<u32> {
    let parts = scaled.iter().map(|weight| weight * u128::from(LONGEST));
    let (mut counts, rests): (Vec<u32>, Vec<u128>) = parts.map(|part| ((part / sum) as u32, part % sum)).unzip();
    let missing = LONGEST - counts.iter().sum::<u32>();
    let mut order: Vec<usize> = (0..scaled.len()).collect();
    order.sort_by_key(|&child| std::cmp::Reverse(rests[child]));
    order.iter().take(missing as usize).for_each(|&child| counts[child] += 1);
    counts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::work::within;

    #[test]
    fn decimals_and_whole_numbers_are_exact() {
        let third = 1.0 / 3.0;
        let cases: [(&[f64], &[u32]); 8] = [
            (&[0.7, 0.2, 0.1], &[7, 2, 1]),
            (&[1.0], &[1]),
            (&[4.0, 2.0, 0.0], &[2, 1, 0]),
            (&[third, third, third], &[1, 1, 1]),
            (&[1.0 - 0.7, 0.7], &[3, 7]),
            (&[1e308, 1e308], &[1, 1]),
            (&[5e-324, 5e-324], &[1, 1]),
            (&[0.123456, 0.876544], &[1929, 13696]),
        ];
        for (weights, expected) in cases {
            assert_eq!(counts(weights).unwrap(), expected, "{weights:?}");
        }
        assert_eq!(counts(&vec![0.001; 1000]).unwrap(), vec![1; 1000]);
    }

    #[test]
    fn weights_of_nothing_cost_nothing() {
        let mut weights = vec![0.0; 10_000];
        weights.extend([1.0, std::f64::consts::PI]);
        let counts = within(500, "weights of nothing", || counts(&weights).unwrap());
        assert_eq!(counts.iter().sum::<u32>(), LONGEST);
    }

    #[test]
    fn what_is_no_weight_is_refused() {
        let cases: [&[f64]; 7] = [
            &[],
            &[0.0, 0.0],
            &[1.0, -0.5],
            &[f64::NAN],
            &[f64::INFINITY, 1.0],
            &[1.0, 1e-9],
            &[1.0, f64::MIN_POSITIVE],
        ];
        for weights in cases {
            let error = counts(weights).unwrap_err();
            assert!(matches!(error.fault, crate::dataset::DatasetFault::Setting { .. }), "{weights:?}: {error}");
        }
    }

    #[test]
    fn weights_of_no_short_period_are_off_by_less_than_one_in_the_longest() {
        let weights = [std::f64::consts::PI, std::f64::consts::E, std::f64::consts::SQRT_2, 1e-3];
        let counts = counts(&weights).unwrap();
        assert_eq!(counts.iter().sum::<u32>(), LONGEST);
        let sum: f64 = weights.iter().sum();
        for (weight, count) in weights.iter().zip(counts) {
            assert!((weight / sum * f64::from(LONGEST) - f64::from(count)).abs() < 1.0, "{weight}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Numbers written with six digits behind the point are those numbers.
        #[test]
        fn shares_of_a_million_come_back(parts in prop::collection::vec(1_u32..100_000, 1..10)) {
            let million: Vec<f64> = parts.iter().map(|&part| f64::from(part) / 1e6).collect();
            let counts = counts(&million).unwrap();
            // In the same proportion, crosswise.
            for (i, count) in counts.iter().enumerate() {
                prop_assert_eq!(u64::from(*count) * u64::from(parts[0]), u64::from(counts[0]) * u64::from(parts[i]));
            }
        }
    }
}
