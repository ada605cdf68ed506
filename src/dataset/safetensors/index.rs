//! The index of a model in several files, `*.safetensors.index.json`, as Hugging Face writes it: which file each tensor is
//! in. It is the authority: what files hold beside it does not count.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::dataset::error::{DatasetError, DatasetFault};
use crate::dataset::source::Source;

/// Bytes of the longest index that is read.
const CAP: u64 = 1 << 30;

#[derive(Deserialize)]
struct Json {
    weight_map: HashMap<String, String>,
}

/// Each file's path and the names of the tensors that count of it; the files in byte order of their names.
pub(super) fn read(path: &Path) -> Result<Vec<(PathBuf, BTreeSet<String>)>, DatasetError> {
    let source = Source::open(path)?;
    if source.len() > CAP {
        return Err(source.malformed(0, format!("it has more than {CAP} bytes"), "check that it is an index"));
    }
    let text = source.read_vec(0, source.len(), "the index")?;
    let Json { weight_map } = serde_json::from_slice(&text).map_err(|error| {
        source.malformed(
            0,
            format!("it is no index of tensors: {error}"),
            "check the file, or give the files themselves",
        )
    })?;
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (tensor, file) in weight_map {
        files.entry(file).or_default().insert(tensor);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::with_capacity(files.len());
    let mut missing = Vec::new();
    for (name, tensors) in files {
        check_name(&source, &name)?;
        let file = folder.join(&name);
        match fs::canonicalize(&file) {
            Ok(real) => check_place(&source, folder, &name, &real)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => missing.push(name),
            Err(error) => {
                return Err(DatasetError::new(file, None, DatasetFault::Io(error)));
            }
        }
        found.push((file, tensors));
    }
    if !missing.is_empty() {
        let what = format!("files that the index names are not there: {}", missing.join(", "));
        return Err(source.malformed(0, what, "get them, or the whole model again"));
    }
    Ok(found)
}

fn check_name(source: &Source, name: &str) -> Result<(), DatasetError> {
    if name.contains('\0') {
        return Err(source.malformed(0, format!("{name:?} is no name of a file"), "write the index anew"));
    }
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if name.is_empty() || !Path::new(name).components().all(plain) {
        let what = format!("the file {name:?} would be outside the folder of the index");
        return Err(source.malformed(0, what, "an index may name files beside it and below only"));
    }
    Ok(())
}

/// Links may not lead out of the folder either, but for the one place where Hugging Face's cache keeps files: the
/// model's `blobs`, of which each folder in `snapshots`, and those below it, hold links.
fn check_place(source: &Source, folder: &Path, name: &str, real: &Path) -> Result<(), DatasetError> {
    let io = |error| DatasetError::new(folder, None, DatasetFault::Io(error));
    let folder = fs::canonicalize(folder).map_err(io)?;
    let snapshots = folder.ancestors().skip(1).find(|above| above.file_name().is_some_and(|name| name == "snapshots"));
    let cache = snapshots.and_then(Path::parent).map(|model| model.join("blobs"));
    if real.starts_with(&folder) || cache.is_some_and(|blobs| real.starts_with(blobs)) {
        return Ok(());
    }
    let what = format!("the file {name:?} is a link to {}, outside the folder of the index", real.display());
    Err(source.malformed(0, what, "put the file itself there, or give the files by their names"))
}
