//! Trains a small classifier of handwritten digits, from arrays on disk through the loader, and tries it on images that it
//! has not seen.
//!
//! `cargo run --release --example digits [FOLDER]`, where FOLDER is what `datasets/prepare digits FOLDER` makes; without, it
//! is made anew, which needs python3.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, VarBuilder, VarMap, linear, loss, seq};
use forebay::dataset::{self, Dataset, OpenOptions, Subset};
use forebay::loader::transform::{Cast, ToFloat};
use forebay::{Batch, Loader, LoaderBuilder, Shuffle};

/// So many of the images are learned, the first ones; the others are not seen.
const LEARNED: u64 = 1500;
const EPOCHS: u64 = 30;

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let made = tempfile::tempdir()?;
    let folder = match std::env::args_os().nth(1) {
        Some(folder) => PathBuf::from(folder),
        None => prepare(made.path())?,
    };
    // An archive of two arrays: a sample is a row of each, an image and its label.
    let digits: Arc<dyn Dataset> = dataset::open(&[folder.join("digits.npz")], &OpenOptions::new())?.into();
    let learned = Subset::slice(Arc::clone(&digits), 0..LEARNED, 1)?;
    let unseen = Subset::slice(Arc::clone(&digits), LEARNED..digits.len(), 1)?;

    let weights = VarMap::new();
    let vars = VarBuilder::from_varmap(&weights, DType::F32, &Device::Cpu);
    let model = seq()
        .add_fn(|images| images.flatten_from(1))
        .add(linear(64, 64, vars.pp("hidden"))?)
        .add_fn(Tensor::relu)
        .add(linear(64, 10, vars.pp("scores"))?);
    let mut optimizer = AdamW::new(weights.all_vars(), ParamsAdamW { lr: 3e-3, ..Default::default() })?;

    let mut loader = transformed(learned).batch_size(50).shuffle(Shuffle::Full).epochs(EPOCHS).build()?;
    for batch in loader.blocking() {
        let batch = batch?;
        let (images, labels) = tensors(&batch)?;
        let loss = loss::cross_entropy(&model.forward(&images)?, &labels)?;
        optimizer.backward_step(&loss)?;
        if batch.number() == 0 && batch.epoch() % 10 == 0 {
            println!("epoch {:>2}   loss {:.3}", batch.epoch(), loss.to_scalar::<f32>()?);
        }
    }

    let mut right = 0;
    for batch in transformed(unseen).build()?.blocking() {
        let (images, labels) = tensors(&batch?)?;
        let guesses = model.forward(&images)?.argmax(1)?;
        right += guesses.eq(&labels)?.to_dtype(DType::U32)?.sum_all()?.to_scalar::<u32>()?;
    }
    println!("{right} of {} unseen digits are told", digits.len() - LEARNED);
    println!("bytes by route: {}", loader.stats().routes);
    Ok(())
}

/// Images as floats from 0 to 1, labels as numbers that candle takes for places.
fn transformed(digits: Subset) -> LoaderBuilder {
    let images = ToFloat::new().scale(1.0 / 16.0).fields(["image"]);
    Loader::builder(digits).budget(16 << 20).map(images).map(Cast::to(dataset::DType::U32).fields(["label"]))
}

/// `[batch, 8, 8]` and `[batch]`.
fn tensors(batch: &Batch) -> Result<(Tensor, Tensor), Box<dyn Error>> {
    let images = batch.tensor("image").and_then(|images| images.slice::<f32>()).ok_or("there is no image of F32")?;
    let labels = batch.tensor("label").and_then(|labels| labels.slice::<u32>()).ok_or("there is no label of U32")?;
    let images = Tensor::from_slice(images, (batch.len(), 8, 8), &Device::Cpu)?;
    Ok((images, Tensor::from_slice(labels, batch.len(), &Device::Cpu)?))
}

fn prepare(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/prepare");
    let made = Command::new("python3").arg(script).arg("digits").arg(folder).output();
    let made = made.map_err(|error| format!("python3: {error}; install it, or give a folder of datasets/prepare"))?;
    match made.status.success() {
        true => Ok(folder.to_owned()),
        false => Err(String::from_utf8_lossy(&made.stderr).into()),
    }
}
