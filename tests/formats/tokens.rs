//! Files of tokens against numpy, by which nanoGPT and llm.c write them.
use forebay::dataset::{DType, Dataset, Split, Tokens};

use crate::common::folder;
use crate::common::python::Python;
use crate::{bytes, or_skip};

#[test]
fn windows_are_the_slices_that_training_scripts_take() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    // By the rules of llm.c's data files: 256 numbers of 32 bits, of which the first three tell of the tokens behind them.
    let said = python.run(
        folder.path(),
        r#"
import numpy as np
rng = np.random.default_rng(1)
def write(name, dtype, count, magic=None, version=None):
    tokens = rng.integers(0, np.iinfo(dtype).max, count, dtype)
    with open(name, "wb") as f:
        if magic:
            header = np.zeros(256, np.int32)
            header[:3] = magic, version, count
            header.tofile(f)
        tokens.tofile(f)
    for seq_len, stride in [(8, 8), (16, 5), (99, 99), (1, 1), (3, 200)]:
        for number, start in enumerate(range(0, count - seq_len, stride)):
            print(name, seq_len, stride, number, tokens[start:start + seq_len + 1].tobytes().hex())
write("u8.bin", np.uint8, 100)
write("u16.bin", np.uint16, 107)
write("u32.bin", np.uint32, 100)
write("gpt2.bin", np.uint16, 100, 20240520, 1)
write("llama3.bin", np.uint32, 103, 20240801, 7)
"#,
    );
    let mut expected: Vec<(String, u64, u64, Vec<&str>)> = Vec::new();
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let key = (words[0].to_owned(), words[1].parse().unwrap(), words[2].parse().unwrap());
        match expected.last_mut() {
            Some(last) if (&last.0, last.1, last.2) == (&key.0, key.1, key.2) => last.3.push(words[4]),
            _ => expected.push((key.0, key.1, key.2, vec![words[4]])),
        }
    }
    assert_eq!(expected.len(), 25);
    for (name, seq_len, stride, windows) in expected {
        let dtype = match &*name {
            "u8.bin" => Some(DType::U8),
            "u32.bin" => Some(DType::U32),
            _ => None,
        };
        let tokens = Tokens::open(&[folder.path().join(&name)], dtype, Split::Windows { seq_len, stride }).unwrap();
        let read: Vec<String> = (0..tokens.len()).map(|i| hex(&bytes::of(&tokens, i)[0].1)).collect();
        assert_eq!(read, windows, "{name} {seq_len} {stride}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
