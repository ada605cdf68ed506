//! Raw records against numpy's `tofile`.
use forebay::dataset::{DType, Dataset, Records, TensorSpec};

use crate::common::folder;
use crate::common::python::Python;
use crate::{bytes, or_skip};

#[test]
fn records_are_the_rows_that_numpy_wrote() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    let said = python.run(
        folder.path(),
        r#"
import numpy as np
a = np.random.default_rng(1).integers(0, 65535, (20, 3, 5), np.uint16)
a[:12].tofile("a.raw")
a[12:].tofile("b.raw")
for row in a: print(row.tobytes().hex())
"#,
    );
    let paths = ["a.raw", "b.raw"].map(|name| folder.path().join(name));
    let records = Records::open(&paths, TensorSpec::new("image", DType::U16, [3, 5])).unwrap();
    let read =
        (0..records.len()).map(|i| bytes::of(&records, i)[0].1.iter().map(|byte| format!("{byte:02x}")).collect());
    assert_eq!(read.collect::<Vec<String>>(), said.lines().collect::<Vec<_>>());
}
