//! Trains a small language model on a text, from disk through the loader: by default for 40 seconds on the King James Bible,
//! which is enough for lines that look like verses.
//!
//! `cargo run --release --example train -- [--seconds S] [TEXT]`
//!
//! candle computes on the CPU, and on the first GPU where it is built for CUDA, which needs the CUDA toolkit:
//! `cargo run --release --example train --features candle-core/cuda`. Where other programs keep the cores busy,
//! `RAYON_NUM_THREADS=1` is faster: candle's threads wait for one another at every step.

mod args;
mod model;
mod progress;

use std::error::Error;

use args::{Args, USAGE};
use candle_core::{Device, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use forebay::dataset::{self, DType, OpenOptions};
use forebay::loader::transform::ShiftTokens;
use forebay::{Batch, Loader, Shuffle};
use model::Model;
use progress::Progress;

/// Bytes of a sample.
const SEQ_LEN: u64 = 128;
/// Samples of a batch.
const BATCH: u64 = 8;
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
    let model = Model::new(&device)?;
    let mut optimizer = AdamW::new(model.weights(), ParamsAdamW { lr: LEARNING_RATE, ..Default::default() })?;

    // Bytes are the tokens, and a sample is a window of them. Every epoch has them all, each time in another order.
    let text = dataset::open(&[&args.text], &OpenOptions::new().seq_len(SEQ_LEN).dtype(DType::U8))?;
    let loader = Loader::builder(text).batch_size(BATCH).shuffle(Shuffle::Full).seed(7).endless();
    let mut loader = loader.map(ShiftTokens::new()).build()?;

    let mut progress = Progress::start(args.time);
    for batch in loader.blocking() {
        let batch = batch?;
        let inputs = tensor(&batch, "inputs", &device)?;
        let targets = tensor(&batch, "targets", &device)?;
        let loss = model.loss(&inputs, &targets)?;
        optimizer.set_learning_rate(LEARNING_RATE * progress.left());
        optimizer.backward_step(&loss)?;
        if !progress.step(loss.to_scalar()?, inputs.elem_count()) {
            break;
        }
    }

    progress.sum_up(&loader.stats());
    println!("a line of its own: {}", model.line(200)?);
    Ok(())
}

/// A tensor of the batch, `[BATCH, SEQ_LEN]`, as one of candle's on its device.
fn tensor(batch: &Batch, name: &str, device: &Device) -> Result<Tensor, Box<dyn Error>> {
    let tensor = batch.tensor(name).ok_or("the batch has no such tensor")?;
    let tokens = tensor.slice::<u32>().ok_or("the tokens are not of U32 in host memory")?;
    Ok(Tensor::from_slice(tokens, (batch.len(), tokens.len() / batch.len()), device)?)
}
