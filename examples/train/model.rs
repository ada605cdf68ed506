//! A small language model over bytes: an embedding, causal convolutions of widening reach, and a score for each byte that
//! may come next.

use candle_core::{DType, Device, Module, Result, Tensor, Var};
use candle_nn::{Embedding, Init, Linear, VarBuilder, VarMap, init};

/// Bytes are the tokens.
const VOCABULARY: usize = 256;
/// How many numbers stand for what is known at a position.
const WIDTH: usize = 64;
const HIDDEN: usize = 128;
/// How far back each layer looks: 31 bytes in all.
const REACH: [usize; 5] = [1, 2, 4, 8, 16];

pub struct Model {
    weights: VarMap,
    embedding: Embedding,
    layers: Vec<Layer>,
    scores: Linear,
    device: Device,
}

/// Adds to what is known at each position something of that and of what was known `reach` positions before.
struct Layer {
    reach: usize,
    hidden: Linear,
    out: Linear,
}

impl Model {
    pub fn new(device: &Device) -> Result<Self> {
        let weights = VarMap::new();
        let vars = VarBuilder::from_varmap(&weights, DType::F32, device);
        let small = Init::Randn { mean: 0.0, stdev: 0.5 };
        let embedding = vars.get_with_hints((VOCABULARY, WIDTH), "embedding", small)?;
        let layers = REACH.iter().map(|&reach| Layer::new(reach, &vars.pp(reach))).collect::<Result<_>>()?;
        let scores = candle_nn::linear(WIDTH, VOCABULARY, vars.pp("scores"))?;
        Ok(Self { weights, embedding: Embedding::new(embedding, WIDTH), layers, scores, device: device.clone() })
    }

    pub fn weights(&self) -> Vec<Var> {
        self.weights.all_vars()
    }

    /// The mean cross entropy, in nats a byte, of `targets` given `inputs`: both `[batch, time]` of U32.
    pub fn loss(&self, inputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        candle_nn::loss::cross_entropy(&self.scores(inputs)?.flatten_to(1)?, &targets.flatten_all()?)
    }

    /// A line as the model would write it, of `most` bytes or fewer.
    pub fn line(&self, most: usize) -> Result<String> {
        let mut text = vec![b'\n'];
        while text.len() <= most {
            let seen = Tensor::new(&text[..], &self.device)?.unsqueeze(0)?.to_dtype(DType::U32)?;
            let scores = self.scores(&seen)?.squeeze(0)?.get(text.len() - 1)?;
            match candle_nn::sampling::gumbel_softmax(&scores, 0.7, 0)?.to_scalar::<u32>()? as u8 {
                b'\n' => break,
                byte => text.push(byte),
            }
        }
        // What it has not learned yet to leave out must not reach a terminal.
        Ok(String::from_utf8_lossy(&text[1..]).replace(|letter: char| letter.is_control(), "·"))
    }

    /// `[batch, time]` to `[batch, time, VOCABULARY]`.
    fn scores(&self, inputs: &Tensor) -> Result<Tensor> {
        let mut known = self.embedding.forward(inputs)?;
        for layer in &self.layers {
            known = (&known + layer.forward(&known)?)?;
        }
        self.scores.forward(&known)
    }
}

impl Layer {
    fn new(reach: usize, vars: &VarBuilder) -> Result<Self> {
        let hidden = candle_nn::linear(2 * WIDTH, HIDDEN, vars.pp("hidden"))?;
        // Zeros: a layer adds nothing until it has learned what.
        let out = Linear::new(vars.get_with_hints((WIDTH, HIDDEN), "out", init::ZERO)?, None);
        Ok(Self { reach, hidden, out })
    }
}

impl Module for Layer {
    /// `[batch, time, WIDTH]` to the same.
    fn forward(&self, known: &Tensor) -> Result<Tensor> {
        let before = known.pad_with_zeros(1, self.reach, 0)?.narrow(1, 0, known.dim(1)?)?;
        let both = Tensor::cat(&[known, &before], 2)?;
        self.out.forward(&self.hidden.forward(&both)?.relu()?)
    }
}
