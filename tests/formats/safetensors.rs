//! Safetensors files: accepted and refused as the safetensors crate does it, and said better.
mod index;
mod limits;
mod mutations;
mod python;
mod rows;
mod verdicts;

use std::path::{Path, PathBuf};

use forebay::dataset::{Dataset, DatasetError, Safetensors};

use crate::common::weights::{self, Seen};

/// What we make of a file, by name, the bytes read with `std::fs` from the places that we name.
fn ours(path: &Path) -> Result<Vec<Seen>, DatasetError> {
    let opened = Safetensors::open(&[path])?;
    let whole = std::fs::read(path).unwrap();
    let mut seen = Vec::new();
    for tensor in opened.tensors() {
        let (from, len) = (tensor.range.offset as usize, tensor.range.len as usize);
        assert_eq!(opened.files()[tensor.range.file as usize].path(), path);
        let name = tensor.spec.name.to_string();
        seen.push((name, tensor.spec.dtype.to_string(), tensor.spec.shape.to_vec(), whole[from..from + len].to_vec()));
    }
    assert!(opened.tensors().is_sorted_by_key(|tensor| tensor.range.offset), "by offset");
    seen.sort();
    Ok(seen)
}

/// Writes the bytes and sees that our verdict on them is the oracle's, with the same tensors or with path and offset.
fn agree(path: &Path, bytes: &[u8]) -> Result<Vec<Seen>, String> {
    std::fs::write(path, bytes).unwrap();
    match (ours(path), weights::oracle(bytes)) {
        (Ok(ours), Ok(theirs)) => {
            assert_eq!(ours, theirs);
            Ok(ours)
        }
        (Err(error), Err(_)) => {
            let said = error.to_string();
            assert!(said.starts_with(&format!("{} at ", path.display())), "{said}");
            assert!(error.offset.is_some() && !said.contains('\n'), "{said}");
            Err(said)
        }
        // The one place where we are stricter.
        (Err(error), Ok(_)) if error.to_string().contains("there are two tensors called ") => Err(error.to_string()),
        (ours, theirs) => panic!("we say {ours:?}, the crate says {theirs:?}"),
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = crate::common::folder();
    let path = folder.path().join("model.safetensors");
    (folder, path)
}
