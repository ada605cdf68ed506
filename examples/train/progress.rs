//! What became of the training so far, a line every two seconds.

use std::time::{Duration, Instant};

use forebay::loader::LoaderStats;

const EVERY: Duration = Duration::from_secs(2);

pub struct Progress {
    begun: Instant,
    said: Instant,
    time: Duration,
    losses: Vec<f32>,
    losses_said: usize,
    tokens: usize,
}

impl Progress {
    pub fn start(time: Duration) -> Self {
        let now = Instant::now();
        Self { begun: now, said: now, time, losses: Vec::new(), losses_said: 0, tokens: 0 }
    }

    /// What part of the time is left, from 1 to 0.
    pub fn left(&self) -> f64 {
        (1.0 - self.seconds() / self.time.as_secs_f64()).max(0.0)
    }

    /// After a step; whether there is time for another.
    pub fn step(&mut self, loss: f32, tokens: usize) -> bool {
        self.losses.push(loss);
        self.tokens += tokens;
        let done = self.begun.elapsed() >= self.time;
        if done || self.said.elapsed() >= EVERY || self.losses.len() == 1 {
            let loss = mean(&self.losses[self.losses_said..]);
            println!("step {:>5}   loss {loss:.3}   {:>6.0} tokens/s", self.losses.len(), self.tokens_a_second());
            (self.said, self.losses_said) = (Instant::now(), self.losses.len());
        }
        !done
    }

    /// How training went, and what it waited for.
    pub fn sum_up(&self, loader: &LoaderStats) {
        let some = self.losses.len().min(20);
        let (first, last) = (mean(&self.losses[..some]), mean(&self.losses[self.losses.len() - some..]));
        let stalled = loader.stalls.total().as_secs_f64();
        println!("\nloss: {first:.3} nats a byte at first, {last:.3} at last (means of {some} steps)");
        println!("speed: {:.0} tokens/s", self.tokens_a_second());
        println!(
            "stalled for data: {stalled:.3} s of {:.1}, {:.2} %",
            self.seconds(),
            100.0 * stalled / self.seconds()
        );
        println!("bytes by route: {}", loader.routes);
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn tokens_a_second(&self) -> f64 {
        self.tokens as f64 / self.seconds()
    }
}

fn mean(losses: &[f32]) -> f32 {
    losses.iter().sum::<f32>() / losses.len() as f32
}
