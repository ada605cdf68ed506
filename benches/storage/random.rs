//! Random numbers: bytes that do not compress, and offsets.

use std::fs::File;
use std::io::{self, Write};

/// SplitMix64: fast, and good enough to defeat a compressor and to choose blocks uniformly.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, each as likely as the others to within bound / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Writes `len` bytes that do not compress, a multiple of 1 MiB, and makes them durable.
pub fn fill(file: &mut File, len: u64) -> io::Result<()> {
    let mut random = Random::new(len);
    let mut block = vec![0u8; 1 << 20];
    for _ in 0..len >> 20 {
        for word in block.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        file.write_all(&block)?;
    }
    file.sync_all()
}
