//! The text of a header: tensors in the order in which they stand there, and as often. One pass, into no more memory than
//! what is said needs; the crate's own reading keeps the whole text as a tree first.

use std::collections::HashMap;
use std::fmt::{self, Display};

use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::Deserialize;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};

pub(super) struct Listing {
    pub(super) metadata: Option<HashMap<String, String>>,
    pub(super) tensors: Vec<(String, TensorInfo)>,
}

impl<'de> Deserialize<'de> for Listing {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Header)
    }
}

struct Header;

impl<'de> Visitor<'de> for Header {
    type Value = Listing;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Listing, A::Error> {
        const METADATA: &str = "__metadata__";
        let within = |what: &dyn Display, error: A::Error| A::Error::custom(format_args!("{what}: {error}"));
        let mut listing = Listing { metadata: None, tensors: Vec::new() };
        while let Some(name) = map.next_key::<String>()? {
            if name == METADATA {
                if listing.metadata.is_some() {
                    return Err(A::Error::duplicate_field(METADATA));
                }
                listing.metadata = map.next_value().map_err(|error| within(&METADATA, error))?;
                continue;
            }
            let entry = map.next_value();
            let Entry { dtype, shape: Dims(shape), data_offsets } =
                entry.map_err(|error| within(&format_args!("tensor {name:?}"), error))?;
            listing.tensors.push((name, TensorInfo { dtype, shape, data_offsets }));
        }
        Ok(listing)
    }
}

/// As the crate's.
#[derive(Deserialize)]
struct Entry {
    dtype: Dtype,
    shape: Dims,
    data_offsets: (usize, usize),
}

/// No more of them than anybody has use for, lest a list of them without end become one in memory.
struct Dims(Vec<usize>);

const MOST_DIMS: usize = 1024;

impl<'de> Deserialize<'de> for Dims {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = Dims;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut dims: A) -> Result<Dims, A::Error> {
                let mut shape = Vec::new();
                while let Some(dim) = dims.next_element()? {
                    if shape.len() == MOST_DIMS {
                        return Err(A::Error::custom(format_args!("more than {MOST_DIMS} dimensions are not read")));
                    }
                    shape.push(dim);
                }
                shape.shrink_to_fit();
                Ok(Dims(shape))
            }
        }
        deserializer.deserialize_seq(Shape)
    }
}
