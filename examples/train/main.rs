//! Trains a small language model on a text, from disk through the loader: by default for 40 seconds on the King James Bible,
//! which is enough for lines that look like verses.
//!
//! `cargo run --release --example train -- [--seconds S] [TEXT]`
//!
//! candle computes on the CPU, and on the first GPU where it is built for CUDA, which needs the CUDA toolkit:
//! `cargo run --release --example train --features candle-core/cuda`. Where other programs keep the cores busy,
//! `RAYON_NUM_THREADS=1` is faster: candle's threads wait for one another at every step.

mod args;
mod batches;
mod model;
mod progress;

use std::error::Error;

use args::{Args, USAGE};
use candle_core::{Device, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use model::Model;
use progress::Progress;

const SEQ_LEN: usize = 128;
const BATCH: usize = 8;
const LEARNING_RATE: f64 = 5e-3;

fn main() {
    let outcome = match Args::parse(std::env::args_os().skip(1)) {
        Ok(Some(args)) => train(&args).map_err(|error| error.to_string()),
        Ok(None) => return println!("{USAGE}"),
        Err(mistake) => Err(mistake),
    };
    if let Err(error) = outcome {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn train(args: &Args) -> Result<(), Box<dyn Error>> {
    let device = Device::cuda_if_available(0)?;
    let mut batches = batches::Batches::new(&args.text, SEQ_LEN as u64, BATCH)?;
    let model = Model::new(&device)?;
    let mut optimizer = AdamW::new(model.weights(), ParamsAdamW { lr: LEARNING_RATE, ..Default::default() })?;
    let mut progress = Progress::start(args.time);
    loop {
        batches.next()?;
        let inputs = Tensor::from_slice(&batches.inputs, (BATCH, SEQ_LEN), &device)?;
        let targets = Tensor::from_slice(&batches.targets, (BATCH, SEQ_LEN), &device)?;
        let loss = model.loss(&inputs, &targets)?;
        optimizer.set_learning_rate(LEARNING_RATE * progress.left());
        optimizer.backward_step(&loss)?;
        if !progress.step(loss.to_scalar()?, inputs.elem_count()) {
            break;
        }
    }
    let (first, last) = progress.first_and_last();
    println!("\nloss: {first:.3} nats a byte at first, {last:.3} at last; {:.0} tokens/s", progress.tokens_a_second());
    println!("a line of its own: {}", model.line(200)?);
    Ok(())
}
