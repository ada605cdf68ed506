use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::super::error::DatasetError;

/// The `.idx` and `.bin` of each pair that a path belongs to, in the order of the paths; each pair once.
pub(super) fn pairs(paths: &[PathBuf]) -> Result<Vec<(PathBuf, PathBuf)>, DatasetError> {
    let mut seen = HashSet::with_capacity(paths.len());
    let mut pairs = Vec::with_capacity(paths.len());
    for path in paths {
        let idx = index_of(path)?;
        if seen.insert(idx.clone()) {
            let bin = idx.with_extension("bin");
            pairs.push((idx, bin));
        }
    }
    Ok(pairs)
}

fn index_of(path: &Path) -> Result<PathBuf, DatasetError> {
    match path.extension() {
        Some(extension) if extension == "idx" || extension == "bin" => Ok(path.with_extension("idx")),
        _ if index_of_prefix(path).is_some() => Ok(with_ending(path, ".idx")),
        _ => {
            let what = "the name ends neither with .idx nor with .bin, so the other file of the pair has no name";
            Err(DatasetError::setting(path, what, "call the pair NAME.idx and NAME.bin"))
        }
    }
}

/// The index of the pair `PREFIX.idx` and `PREFIX.bin`, as Megatron's own scripts name it, where either is there.
pub(crate) fn index_of_prefix(prefix: &Path) -> Option<PathBuf> {
    prefix.file_name()?;
    let (idx, bin) = (with_ending(prefix, ".idx"), with_ending(prefix, ".bin"));
    (idx.is_file() || bin.is_file()).then_some(idx)
}

/// The name and `ending`: names have dots of their own.
fn with_ending(prefix: &Path, ending: &str) -> PathBuf {
    let mut path = prefix.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn either_file_names_the_pair_and_both_name_it_once() {
        let odd = PathBuf::from(OsStr::from_bytes(b"x/\xff.y.bin"));
        let given = ["b.bin".into(), "a.idx".into(), "a.bin".into(), odd, "b.idx".into()];
        let found = pairs(&given).unwrap();
        let names: Vec<&[u8]> = found.iter().map(|(idx, _)| idx.as_os_str().as_bytes()).collect();
        assert_eq!(names, [&b"b.idx"[..], b"a.idx", b"x/\xff.y.idx"]);
        assert_eq!(found[2].1.as_os_str().as_bytes(), b"x/\xff.y.bin");
        for path in ["a", "a.npy", "idx", ".idx"] {
            assert!(pairs(&[path.into()]).is_err(), "{path}");
        }
    }
}
