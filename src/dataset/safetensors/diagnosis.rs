//! What is wrong with a header that the safetensors crate refuses: the tensors by name, and the rule that they break.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use crate::dataset::dtype::DType;
use crate::dataset::error::DatasetError;
use crate::dataset::shape::Shape;
use crate::dataset::source::Source;

const FIX: &str = "get the file again, or write it anew";

/// A header with nothing checked, and every name as often as it stands there.
struct Entries(Vec<(String, Entry)>);

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Header;
        impl<'de> Visitor<'de> for Header {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let entry = map.next_value();
                    entries.push((
                        name.clone(),
                        entry.map_err(|error| serde::de::Error::custom(format_args!("tensor {name:?}: {error}")))?,
                    ));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Header)
    }
}

/// Says why the crate answered `refusal`.
pub(super) fn of(source: &Source, json: &[u8], refusal: &serde_json::Error) -> DatasetError {
    const AT: u64 = 8;
    if let Some(at) = json.iter().position(|&byte| byte == 0) {
        return source.malformed(AT + at as u64, "the header holds a NUL; the format pads with spaces", FIX);
    }
    let entries = match serde_json::from_slice::<Entries>(json) {
        Ok(Entries(entries)) => entries,
        Err(error) => return source.malformed(AT, format!("the header is no list of tensors: {error}"), FIX),
    };
    match broken_rule(&entries) {
        Some(what) => source.malformed(AT, what, FIX),
        None => source.malformed(AT, format!("the header is not valid: {refusal}"), FIX),
    }
}

fn broken_rule(entries: &[(String, Entry)]) -> Option<String> {
    let mut names = HashMap::new();
    for (name, entry) in entries {
        if let Some(other) = names.insert(name, entry.data_offsets)
            && other != entry.data_offsets
        {
            return Some(format!("there are two tensors called {name:?}"));
        }
        if let Some(what) = broken_tensor(name, entry) {
            return Some(what);
        }
    }
    let mut order: Vec<_> = names.into_iter().collect();
    order.sort_by_key(|&(_, offsets)| offsets);
    let (mut end, mut last) = (0, None);
    for (name, (from, to)) in order {
        if from > end {
            return Some(format!("{} bytes of data before tensor {name:?} belong to no tensor", from - end));
        }
        if from < end {
            let before = last.map_or(String::new(), |last: &String| format!(" and {last:?}"));
            return Some(format!("tensors {name:?}{before} share bytes of the data"));
        }
        (end, last) = (to, Some(name));
    }
    None
}

fn broken_tensor(name: &str, Entry { dtype, shape, data_offsets: (from, to) }: &Entry) -> Option<String> {
    let dtype: DType = match dtype.parse() {
        Ok(dtype) => dtype,
        Err(unknown) => return Some(format!("tensor {name:?}: {unknown}")),
    };
    let Some(len) = to.checked_sub(*from) else {
        return Some(format!("tensor {name:?} ends at {to} of the data, before it begins at {from}"));
    };
    let shape = Shape::new(shape);
    match shape.bytes(dtype) {
        Some(bytes) if bytes == len => None,
        Some(bytes) => Some(format!("tensor {name:?}: {dtype} {shape} takes {bytes} bytes, and its place has {len}")),
        None if shape.elements().and_then(|elements| elements.checked_mul(8)).is_some() => {
            Some(format!("tensor {name:?}: {dtype} {shape} does not fill whole bytes"))
        }
        None => Some(format!("tensor {name:?}: {dtype} {shape} has more bytes than can be counted")),
    }
}
