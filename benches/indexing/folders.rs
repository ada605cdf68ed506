//! Opening a folder of many shards, and an array of many rows: no peer, seconds alone.

use std::fs;
use std::path::Path;
use std::time::Instant;

use forebay::dataset::{self, OpenOptions};

const SHARDS: usize = 2000;
const TENSORS: usize = 16;
const ROWS: usize = 64;

/// A line for each.
pub fn measure(folder: &Path, rounds: u32) -> Result<(), String> {
    let shards = folder.join("shards");
    write_shards(&shards).map_err(|error| format!("{}: {error}", shards.display()))?;
    println!("{SHARDS} shards of {TENSORS} tensors: {:.3} s", least(rounds, &shards, (SHARDS * ROWS) as u64)?);
    let array = folder.join("rows.npy");
    write_rows(&array).map_err(|error| format!("{}: {error}", array.display()))?;
    println!("1000000 rows of an array: {:.6} s", least(rounds, &array, 1_000_000)?);
    Ok(())
}

/// The least seconds of some rounds after a first one: everything is in the page cache then.
fn least(rounds: u32, path: &Path, samples: u64) -> Result<f64, String> {
    let mut least = f64::INFINITY;
    for _ in 0..=rounds {
        let start = Instant::now();
        let opened = dataset::open(&[path], &OpenOptions::new()).map_err(|error| error.to_string())?;
        least = least.min(start.elapsed().as_secs_f64());
        if opened.len() != samples {
            return Err(format!("{} samples in place of {samples}", opened.len()));
        }
    }
    Ok(least)
}

fn write_shards(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let row = 8;
    let tensor = |i: usize| {
        let (from, to) = (i * ROWS * row, (i + 1) * ROWS * row);
        format!(r#""field.{i:02}":{{"dtype":"U8","shape":[{ROWS},{row}],"data_offsets":[{from},{to}]}}"#)
    };
    let header = format!("{{{}}}", (0..TENSORS).map(tensor).collect::<Vec<_>>().join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.resize(file.len() + TENSORS * ROWS * row, 0x5a);
    (0..SHARDS).try_for_each(|i| fs::write(folder.join(format!("shard-{i:06}.safetensors")), &file))
}

fn write_rows(path: &Path) -> std::io::Result<()> {
    let dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 4), }";
    let len = (10 + dict.len() + 1).next_multiple_of(64) - 10;
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend_from_slice(&(len as u16).to_le_bytes());
    file.extend_from_slice(format!("{dict:<width$}\n", width = len - 1).as_bytes());
    file.resize(file.len() + 16_000_000, 0);
    fs::write(path, file)
}
