//! What is wrong with the tensors of a header: which ones by name, and the rule that they break. The rules are those of the
//! safetensors crate, and one more: a name may stand there twice only for the same tensor.

use std::collections::HashSet;

use safetensors::tensor::TensorInfo;

/// `tensors` are by offset. `None` where nothing is wrong.
pub(super) fn of(tensors: &[(String, TensorInfo)]) -> Option<String> {
    let mut names = HashSet::with_capacity(tensors.len());
    // Before anything else, since the crate looks at one of the two alone.
    if let Some((name, _)) = tensors.iter().find(|(name, _)| !names.insert(name)) {
        return Some(format!("there are two tensors called {name:?}"));
    }
    if let Some((name, what)) = tensors.iter().find_map(|(name, info)| Some((name, of_one(info)?))) {
        return Some(format!("tensor {name:?}{what}"));
    }
    let (mut end, mut last) = (0, None);
    for (name, TensorInfo { data_offsets: (from, to), .. }) in tensors {
        if *from > end {
            return Some(format!("{} bytes of data before tensor {name:?} belong to no tensor", from - end));
        }
        if *from < end {
            let before = last.map_or(String::new(), |last: &String| format!(" and {last:?}"));
            return Some(format!("tensors {name:?}{before} share bytes of the data"));
        }
        (end, last) = (*to, Some(name));
    }
    None
}

fn of_one(TensorInfo { dtype, shape, data_offsets: (from, to) }: &TensorInfo) -> Option<String> {
    let Some(len) = to.checked_sub(*from) else {
        return Some(format!(" ends at {to} of the data, before it begins at {from}"));
    };
    let elements = shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
    match elements.and_then(|elements| elements.checked_mul(dtype.bitsize())) {
        Some(bits) if bits == len.saturating_mul(8) => None,
        Some(bits) if bits % 8 != 0 => Some(format!(": {dtype} {shape:?} does not fill whole bytes")),
        Some(bits) => Some(format!(": {dtype} {shape:?} takes {} bytes, and its place has {len}", bits / 8)),
        None => Some(format!(": {dtype} {shape:?} has more bytes than can be counted")),
    }
}
