//! Stand-in for the loader: random windows, read when they are asked for.
use forebay::dataset::{self, DType, Dataset, OpenOptions};
use forebay::{Carrier, Device, File};
use std::error::Error;

pub struct Batches {
    text: Box<dyn Dataset>,
    carrier: Carrier,
    files: Vec<File>,
    random: u64,
    batch: usize,
    pub inputs: Vec<u32>,
    pub targets: Vec<u32>,
}

impl Batches {
    pub fn new(path: &std::path::Path, seq_len: u64, batch: usize) -> Result<Self, Box<dyn Error>> {
        let text = dataset::open(&[path], &OpenOptions::new().seq_len(seq_len).dtype(DType::U8))?;
        let carrier = Carrier::builder().device(&Device::host()).budget(16 << 20).build()?;
        let files = text.open_files(&carrier)?;
        Ok(Self { text, carrier, files, random: 7, batch, inputs: vec![], targets: vec![] })
    }
    pub fn next(&mut self) -> Result<(), Box<dyn Error>> {
        self.inputs.clear();
        self.targets.clear();
        for _ in 0..self.batch {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let sample = self.text.sample((self.random >> 33) % self.text.len())?;
            let landed = self.carrier.carry_blocking(&sample.extents(&self.files))?;
            let bytes = landed.to_host(0)?;
            self.inputs.extend(bytes[..bytes.len() - 1].iter().map(|&b| u32::from(b)));
            self.targets.extend(bytes[1..].iter().map(|&b| u32::from(b)));
        }
        Ok(())
    }
}
