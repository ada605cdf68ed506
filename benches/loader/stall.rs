//! A training loop that is slower than storage: how much of its time it waits.

use std::hint;
use std::thread;
use std::time::{Duration, Instant};

use forebay::sampler::Shuffle;

use crate::figures::Figures;
use crate::order::Order;
use crate::ours;

/// Steps take so many times as long as a batch from storage does.
const SLOWER: f64 = 2.0;

/// Finds out how long a batch takes when nothing holds it up, then takes batches at half that rate: in between the loop
/// sleeps, as one whose device computes, or spins, as one that computes itself.
pub fn run(order: &Order, spin: bool) -> Result<Figures, String> {
    let dataset = ours::open(&order.case, &order.files)?;
    let build = || ours::builder(&dataset, order).shuffle(Shuffle::Full).endless().build().map_err(|e| e.to_string());

    let mut loader = build()?;
    let start = Instant::now();
    let mut batches = 0;
    while start.elapsed().as_secs_f64() < order.seconds / 3.0 || batches < 8 {
        ours::next(&mut loader)?;
        batches += 1;
    }
    let alone = start.elapsed() / batches;
    drop(loader);

    let step = alone.mul_f64(SLOWER);
    let mut loader = build()?;
    let start = Instant::now();
    let (mut waited, mut first, mut longest, mut steps) = (Duration::ZERO, Duration::ZERO, Duration::ZERO, 0_u32);
    while start.elapsed().as_secs_f64() < order.seconds || steps < 8 {
        let asked = Instant::now();
        let batch = ours::next(&mut loader)?;
        let wait = asked.elapsed();
        match steps {
            0 => first = wait,
            _ => longest = longest.max(wait),
        }
        waited += wait;
        steps += 1;
        let done = Instant::now() + step;
        match spin {
            true => {
                while Instant::now() < done {
                    hint::spin_loop();
                }
            }
            false => thread::sleep(step),
        }
        drop(batch);
    }
    let seconds = start.elapsed().as_secs_f64();
    let told = loader.stats().stalls;
    let share = |time: Duration| time.as_secs_f64() / seconds * 100.0;
    let mut figures: Figures = vec![
        ("storage ms/batch".into(), alone.as_secs_f64() * 1e3),
        ("training ms/batch".into(), step.as_secs_f64() * 1e3),
        ("steps".into(), f64::from(steps)),
        ("% waited, by the clock".into(), share(waited)),
        ("% waited, first batch left out".into(), share(waited.saturating_sub(first))),
        ("% waited, by stats".into(), share(told.total())),
        ("first wait, ms".into(), first.as_secs_f64() * 1e3),
        ("longest other wait, ms".into(), longest.as_secs_f64() * 1e3),
    ];
    for (what, time) in told.by_name() {
        figures.push((format!("% waited for {what}, by stats"), share(time)));
    }
    Ok(figures)
}
