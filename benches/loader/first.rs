//! How soon the first batch is there, with a warm index and cold data.

use std::time::Instant;

use forebay::sampler::Shuffle;

use crate::figures::Figures;
use crate::order::Order;
use crate::ours;

pub fn run(order: &Order) -> Result<Figures, String> {
    let milliseconds = |since: Instant| since.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    let dataset = ours::open(&order.case, &order.files)?;
    let opened = milliseconds(start);
    let start = Instant::now();
    let builder = ours::builder(&dataset, order).shuffle(Shuffle::Full).endless();
    let mut loader = builder.build().map_err(|e| e.to_string())?;
    let built = milliseconds(start);
    let start = Instant::now();
    let batch = ours::next(&mut loader)?;
    let first = milliseconds(start);
    let start = Instant::now();
    let second = ours::next(&mut loader)?;
    let next = milliseconds(start);
    ours::check(&batch, &dataset)?;
    ours::check(&second, &dataset)?;
    Ok(vec![
        ("dataset, ms".into(), opened),
        ("build, ms".into(), built),
        ("first batch, ms".into(), first),
        ("second batch, ms".into(), next),
        ("batch, MB".into(), batch.bytes() as f64 / 1e6),
    ])
}
