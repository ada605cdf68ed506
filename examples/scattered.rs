//! Carries ten thousand random verses of a text to the GPU, or to host memory where there is none, in one call, and prints
//! a few.
//!
//! `cargo run --release --example scattered [FILE]`, where FILE has a sample a line.

use std::time::Instant;

use forebay::{Carrier, Device, Extent};

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "datasets/kjv.txt".into());
    let device = Device::auto();
    let carrier = Carrier::builder().device(&device).budget(64 << 20).device_budget(64 << 20).build()?;
    let file = carrier.open(&path)?;

    // What a sample is: a line. A dataset would know this without reading the text.
    let mut lines = Vec::new();
    let (mut start, mut at) = (0, 0);
    for part in carrier.reader().stream([Extent::new(&file, 0, file.len())]).blocking() {
        for &byte in &part? {
            at += 1;
            if byte == b'\n' {
                lines.push(Extent::new(&file, start, at - 1 - start));
                start = at;
            }
        }
    }
    if lines.is_empty() {
        return Err("the file has no line".into());
    }

    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let picked: Vec<Extent> = (0..10_000)
        .map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            lines[(random >> 33) as usize % lines.len()].clone()
        })
        .collect();
    let begun = Instant::now();
    let landed = carrier.carry_blocking(&picked)?;
    let took = begun.elapsed();

    for i in 0..3 {
        println!("{}", String::from_utf8_lossy(&landed.to_host(i)?));
    }
    let bytes = landed.carried().total();
    println!("… {} lines of {}, {bytes} bytes in {took:?} to {device}, {}", landed.len(), lines.len(), device.name());
    println!("bytes by route: {}", landed.carried());
    if let Some(decision) = carrier.decision(&file) {
        println!("the route of what is not in the page cache: {decision}");
    }
    Ok(())
}
