//! The index of a model in several files, `*.safetensors.index.json`, as Hugging Face writes it: which file each tensor is
//! in. It is the authority: what files hold beside it does not count.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, BufReader};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};

use crate::dataset::error::{DatasetError, DatasetFault};
use crate::dataset::foreign;
use crate::dataset::open::{HEAD, others_of_sets};
use crate::dataset::source::Source;
use crate::dataset::text::{in_message, shown};
use crate::sys::text::{WITHOUT_MARK, byte_order_mark};

/// Bytes of the longest index that is read: some two million tensors.
const CAP: u64 = 256 << 20;

#[derive(Deserialize)]
struct Json {
    weight_map: WeightMap,
}

/// The names of the tensors of each file.
struct WeightMap(BTreeMap<String, Vec<String>>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = WeightMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors and files")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
                // What stands there again is looked up as it is read, and nothing is allocated for it.
                let (mut tensors, mut files) = (Names::default(), Names::default());
                let mut places: Vec<usize> = Vec::new();
                while let Some(tensor) = map.next_key_seed(&mut tensors)? {
                    let file = map.next_value_seed(&mut files)?;
                    match places.get(tensor) {
                        None => places.push(file),
                        Some(&before) if before == file => {}
                        // Readers differ on which of two counts.
                        Some(&before) => {
                            let [before, now] = [before, file].map(|file| in_message(files.list[file].as_bytes()));
                            return Err(A::Error::custom(format_args!(
                                "tensor {} is said to be in {before} and in {now}",
                                in_message(tensors.list[tensor].as_bytes())
                            )));
                        }
                    }
                }
                let mut by_file = vec![Vec::new(); files.list.len()];
                tensors.list.iter().zip(&places).for_each(|(tensor, &file)| by_file[file].push(tensor.to_string()));
                by_file.iter_mut().for_each(|tensors| tensors.sort_unstable());
                let files = files.list.iter().map(|file| file.to_string());
                Ok(WeightMap(files.zip(by_file).collect()))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// Names, each once and with its number, in the order in which they came first.
#[derive(Default)]
struct Names {
    list: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, usize>,
}

/// Reads a name, and gives its number.
impl<'de> DeserializeSeed<'de> for &mut Names {
    type Value = usize;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for &mut Names {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<usize, E> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        let name: Rc<str> = name.into();
        self.numbers.insert(Rc::clone(&name), self.list.len());
        self.list.push(name);
        Ok(self.list.len() - 1)
    }
}

/// Each file's path and the names of the tensors that count of it, both in byte order.
pub(super) fn read(path: &Path) -> Result<Vec<(PathBuf, Vec<String>)>, DatasetError> {
    let source = Source::open(path)?;
    if source.len() > CAP {
        return Err(source.malformed(0, format!("it has more than {CAP} bytes"), "check that it is an index"));
    }
    let files = parse(&source)?;
    if files.is_empty() {
        let fix = "get the index again, or give the files themselves";
        return Err(source.malformed(0, "it is an index that names no tensor", fix));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real_folder = fs::canonicalize(folder).map_err(|error| unreadable(folder, error))?;
    let mut found = Vec::with_capacity(files.len());
    let mut missing = Vec::new();
    for (name, tensors) in files {
        check_name(&source, &name)?;
        let file = folder.join(&name);
        match fs::canonicalize(&file) {
            Ok(real) => check_place(&source, &real_folder, &name, &real)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                missing.push(name);
                if missing.len() == MOST_MISSING {
                    break;
                }
                continue;
            }
            Err(error) => return Err(unreadable(&file, error)),
        }
        found.push((file, tensors));
    }
    if !missing.is_empty() {
        let what = format!("files that the index names are not there: {}", first_of(&missing));
        return Err(source.malformed(0, what, "get them, or the whole model again"));
    }
    warn_of_unnamed(path, &found);
    Ok(found)
}

/// Of files beside those that the index names, and whose names say that they are of the same set: an index of another
/// download, or one that was cut, leaves them out.
fn warn_of_unnamed(index: &Path, found: &[(PathBuf, Vec<String>)]) {
    let mut by_directory: BTreeMap<&Path, HashSet<&OsStr>> = BTreeMap::new();
    for (file, _) in found {
        if let (Some(directory), Some(name)) = (file.parent(), file.file_name()) {
            by_directory.entry(directory).or_default().insert(name);
        }
    }
    let unnamed: Vec<String> =
        by_directory.into_iter().flat_map(|(directory, names)| others_of_sets(directory, &names)).collect();
    if !unnamed.is_empty() {
        tracing::warn!(
            "{}: the index names {} files, and of their set there are more, which are not read: {}; get the index again if it \
             should name them",
            shown(index),
            found.len(),
            first_of(&unnamed)
        );
    }
}

/// The text is parsed while it is read, so that one that breaks off, or goes on and on, takes no memory.
fn parse(source: &Source) -> Result<BTreeMap<String, Vec<String>>, DatasetError> {
    let parsed = serde_json::from_reader(BufReader::with_capacity(256 << 10, source.reading()));
    let Json { weight_map: WeightMap(files) } = parsed.map_err(|error: serde_json::Error| match error.is_io() {
        true => {
            let error = io::Error::from(error).downcast::<DatasetError>();
            error.unwrap_or_else(|error| source.fault(0, DatasetFault::Io(error)))
        }
        false => not_an_index(source, &error),
    })?;
    Ok(files)
}

fn not_an_index(source: &Source, error: &serde_json::Error) -> DatasetError {
    let mut head = [0; HEAD];
    let read = source.read_up_to(0, &mut head).unwrap_or_default();
    let head = &head[..read];
    if let Some(mark) = byte_order_mark(head) {
        return source.malformed(0, format!("it is no index of tensors that can be read: {mark}"), WITHOUT_MARK);
    }
    foreign::instead(source, head).unwrap_or_else(|| {
        let fix = "check the file, or give the files themselves";
        source.malformed(0, format!("it is no index of tensors: {error}"), fix)
    })
}

/// Whether a file of JSON, which may be called anything, says which tensors are in which safetensors files.
pub(crate) fn is_index_by_content(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
        && map_of(path).is_some_and(|files| files.keys().any(|file| file.ends_with(".safetensors")))
}

/// Whether two indices map the same tensors to the same files.
pub(crate) fn say_the_same(one: &Path, other: &Path) -> bool {
    map_of(one).is_some_and(|map| map_of(other) == Some(map))
}

/// The names of the tensors of each file; `None` where it is no such index.
fn map_of(path: &Path) -> Option<BTreeMap<String, Vec<String>>> {
    /// What stands before the map is short: the sum of the sizes, and perhaps a line or two more.
    const BEGINNING: usize = 64 << 10;
    const KEY: &[u8] = b"\"weight_map\"";
    let source = Source::open(path).ok().filter(|source| source.len() <= CAP)?;
    let mut head = vec![0; BEGINNING.min(source.len() as usize)];
    source.read_at(0, &mut head, "the index").ok()?;
    head.windows(KEY.len()).any(|bytes| bytes == KEY).then(|| parse(&source).ok())?
}

fn unreadable(path: &Path, error: io::Error) -> DatasetError {
    DatasetError::new(path, None, DatasetFault::Io(error))
}

/// Of more missing files nobody wants to hear.
const MOST_MISSING: usize = 1000;

fn first_of(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let some: Vec<String> = names.iter().take(SHOWN).map(|name| in_message(name.as_bytes())).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => some.join(", "),
        more => format!(
            "{} and {more} more{}",
            some.join(", "),
            if names.len() < MOST_MISSING { "" } else { ", or yet more" }
        ),
    }
}

fn check_name(source: &Source, name: &str) -> Result<(), DatasetError> {
    /// Of Linux, with the zero behind it.
    const LONGEST: usize = 4095;
    let quoted = || format!("'{}'", in_message(name.as_bytes()));
    if name.contains('\0') || name.len() > LONGEST {
        return Err(source.malformed(0, format!("{} is no name of a file", quoted()), "write the index anew"));
    }
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if name.is_empty() || !Path::new(name).components().all(plain) {
        let what = format!("the file {} would be outside the folder of the index", quoted());
        return Err(source.malformed(0, what, "an index may name files beside it and below only"));
    }
    Ok(())
}

/// Links may not lead out of the folder either, but for the one place where Hugging Face's cache keeps files: the
/// model's `blobs`, of which each folder in `snapshots`, and those below it, hold links.
fn check_place(source: &Source, folder: &Path, name: &str, real: &Path) -> Result<(), DatasetError> {
    let snapshots = folder.ancestors().skip(1).find(|above| above.file_name().is_some_and(|name| name == "snapshots"));
    let cache = snapshots.and_then(Path::parent).map(|model| model.join("blobs"));
    if real.starts_with(folder) || cache.is_some_and(|blobs| real.starts_with(blobs)) {
        return Ok(());
    }
    let what = format!(
        "the file '{}' is a link to {}, outside the folder of the index",
        in_message(name.as_bytes()),
        shown(real)
    );
    Err(source.malformed(0, what, "put the file itself there, or give the files by their names"))
}
