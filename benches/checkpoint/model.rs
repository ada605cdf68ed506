//! The checkpoints that are loaded: bytes that do not compress, under headers as models have them.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::random::Random;

/// A checkpoint of one or several files.
#[derive(Debug)]
pub struct Model {
    pub files: Vec<PathBuf>,
    /// Bytes of its tensors.
    pub bytes: u64,
    pub tensors: u64,
}

impl Model {
    /// What a loader is given: the file, or the folder of the files.
    pub fn path(&self) -> &Path {
        match &self.files[..] {
            [file] => file,
            files => files[0].parent().unwrap_or(Path::new(".")),
        }
    }

    /// One file of bf16 tensors as a language model has them: layers of a few large matrices and small vectors.
    pub fn mixed(dir: &Path, bytes: u64) -> Result<Self, String> {
        const WIDTH: u64 = 2048;
        let mut shapes = vec![vec![16_000, WIDTH]];
        let mut left = bytes.saturating_sub(2 * 16_000 * WIDTH);
        while left > 0 {
            for (rows, columns) in [(1, WIDTH), (WIDTH, WIDTH), (WIDTH / 4, WIDTH), (1, WIDTH), (3 * WIDTH, WIDTH)] {
                let rows = rows.min((left / 2).div_ceil(columns));
                if rows > 0 {
                    shapes.push(if rows == 1 { vec![columns] } else { vec![rows, columns] });
                    left = left.saturating_sub(2 * rows * columns);
                }
            }
        }
        Self::write(dir, "model", vec![shapes])
    }

    /// `tensors` small ones over `shards` files of a folder of their own.
    pub fn small(dir: &Path, bytes: u64, tensors: u64, shards: u64) -> Result<Self, String> {
        let folder = dir.join("shards");
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let elements = bytes / tensors / 2;
        let of_shard = |shard| {
            let first = shard * tensors / shards;
            let next = (shard + 1) * tensors / shards;
            (first..next).map(|i| vec![elements - 64 + i % 129]).collect()
        };
        Self::write(&folder, "model", (0..shards).map(of_shard).collect())
    }

    /// One file of one tensor.
    pub fn one(dir: &Path, bytes: u64) -> Result<Self, String> {
        Self::write(dir, "one", vec![vec![vec![bytes / 2]]])
    }

    /// Writes a file for each list of shapes, unless it is there.
    fn write(dir: &Path, name: &str, files: Vec<Vec<Vec<u64>>>) -> Result<Self, String> {
        let count = files.len();
        let mut model = Self { files: Vec::with_capacity(count), bytes: 0, tensors: 0 };
        for (i, shapes) in files.into_iter().enumerate() {
            let file = match count {
                1 => format!("{name}.safetensors"),
                _ => format!("{name}-{i:05}-of-{count:05}.safetensors"),
            };
            let path = dir.join(file);
            model.tensors += shapes.len() as u64;
            model.bytes += write_file(&path, i as u64, &shapes).map_err(|e| format!("{}: {e}", path.display()))?;
            model.files.push(path);
        }
        Ok(model)
    }

    pub fn remove(self) {
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
        if self.files.len() > 1 {
            let _ = fs::remove_dir(self.path());
        }
    }
}

fn write_file(path: &Path, number: u64, shapes: &[Vec<u64>]) -> std::io::Result<u64> {
    let mut header = Map::new();
    let mut end = 0;
    for (i, shape) in shapes.iter().enumerate() {
        let start = end;
        end += 2 * shape.iter().product::<u64>();
        let tensor = json!({"dtype": "BF16", "shape": shape, "data_offsets": [start, end]});
        header.insert(format!("model.files.{number}.tensors.{i}.weight"), tensor);
    }
    let mut header = Value::Object(header).to_string();
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut file = std::io::BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut random = Random::new(number);
    let mut left = end;
    while left > 0 {
        let word = random.next().to_le_bytes();
        let len = left.min(8);
        file.write_all(&word[..len as usize])?;
        left -= len;
    }
    file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
    Ok(end)
}
