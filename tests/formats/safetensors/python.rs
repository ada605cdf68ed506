//! Files that the Python package writes, and files of ours that it reads.
use safetensors::Dtype;

use super::ours;
use crate::common::folder;
use crate::common::python::Python;
use crate::common::weights::{Tensor, write};
use crate::or_skip;

#[test]
fn what_python_writes_is_read_back_equal() {
    let python = or_skip!(Python::with(&["numpy", "safetensors"]));
    let folder = folder();
    let said = python.run(
        folder.path(),
        r#"
import numpy as np
from safetensors.numpy import save_file
rng = np.random.default_rng(7)
dtypes = [np.bool_, np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64,
          np.float16, np.float32, np.float64]
tensors = {}
for i, dtype in enumerate(dtypes):
    for j, shape in enumerate([(), (0,), (3,), (2, 3, 5), (1, 0, 4)]):
        raw = rng.integers(0, 2 if dtype is np.bool_ else 256, int(np.prod(shape)) * np.dtype(dtype).itemsize, dtype=np.uint8)
        tensors[f"größe.{i}.{j}"] = np.frombuffer(raw.tobytes(), dtype=dtype).reshape(shape)
save_file(tensors, "model.safetensors", metadata={"format": "np", "note": "ä\n"})
for name, tensor in sorted(tensors.items()):
    print(name, list(tensor.shape), tensor.tobytes().hex(), sep="|")
"#,
    );
    let seen = ours(&folder.path().join("model.safetensors")).unwrap();
    let said: Vec<String> = said.lines().map(str::to_owned).collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let got: Vec<String> =
        seen.iter().map(|(name, _, shape, bytes)| format!("{name}|{shape:?}|{}", hex(bytes))).collect();
    assert_eq!(got.len(), 60);
    assert_eq!(got, said);
    let dtype_of = |name: &str| seen.iter().find(|seen| seen.0 == name).unwrap().1.clone();
    assert_eq!([dtype_of("größe.0.0"), dtype_of("größe.9.2"), dtype_of("größe.10.2")], ["BOOL", "F16", "F32"]);
}

/// Keeps the other tests' files honest: what they write, Python reads.
#[test]
fn what_the_tests_write_python_reads() {
    let python = or_skip!(Python::with(&["numpy", "safetensors"]));
    let folder = folder();
    let tensor = Tensor::new("a", Dtype::I32, &[2, 3], 5);
    write(folder.path(), "a.safetensors", std::slice::from_ref(&tensor));
    let script = "from safetensors.numpy import load_file\na = load_file('a.safetensors')['a']\nprint(a.shape, a.tobytes().hex())";
    let hex: String = tensor.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(python.run(folder.path(), script).trim(), format!("(2, 3) {hex}"));
}
