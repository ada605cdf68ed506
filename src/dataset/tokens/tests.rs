use std::fs;
use std::path::Path;

use super::*;
use crate::dataset::error::DatasetFault;
use crate::dataset::mutants::{assert_damage_is_survived, assert_no_beginning_opens, assert_sound};
use std::path::PathBuf;

fn llm_c(magic: u32, version: u32, count: u32, data: &[u8]) -> Vec<u8> {
    let mut file: Vec<u8> = [magic, version, count].iter().flat_map(|number| number.to_le_bytes()).collect();
    file.resize(1024, 0);
    file.extend(data);
    file
}

fn gpt_2(tokens: u32) -> Vec<u8> {
    llm_c(20_240_520, 1, tokens, &vec![1; tokens as usize * 2])
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn opened(bytes: &[u8], dtype: Option<DType>, seq_len: u64) -> Result<Tokens, DatasetError> {
    let folder = tempfile::tempdir().unwrap();
    Tokens::open(&[written(folder.path(), "tokens.bin", bytes)], dtype, Split::windows(seq_len))
}

#[test]
fn windows_have_one_token_more_and_go_on_over_files() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [written(folder.path(), "a.bin", &[0; 18]), written(folder.path(), "b.bin", &gpt_2(10))];
    let tokens = Tokens::open(&paths, None, Split::Windows { seq_len: 4, stride: 2 }).unwrap();
    // 9 tokens: from 0, 2 and 4. 10 tokens: the same, and one is left over.
    assert_eq!(tokens.len(), 6);
    let places: Vec<_> = (0..6).map(|i| tokens.sample(i).unwrap().ranges()[0]).collect();
    let at = |file, offset| FileRange { file, offset, len: 10 };
    assert_eq!(places, [at(0, 0), at(0, 4), at(0, 8), at(1, 1024), at(1, 1028), at(1, 1032)]);
    assert_eq!(tokens.sample(5).unwrap().tensors(), [TensorSpec::new("tokens", DType::U16, [5])]);
    let stored: Vec<_> = tokens.stored().map(Result::unwrap).collect();
    assert_eq!(stored[1].spec, TensorSpec::new("b", DType::U16, [10]));
    assert_sound(&tokens);
}

#[test]
fn a_file_that_is_too_short_for_a_window_is_an_error() {
    for (tokens, windows) in [(0, None), (1, None), (4, None), (5, Some(1)), (8, Some(1)), (9, Some(2))] {
        let opened = opened(&vec![0; tokens * 2], None, 4);
        assert_eq!(opened.as_ref().ok().map(Dataset::len), windows, "{tokens}: {opened:?}");
    }
    for len in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << 32] {
        assert!(opened(&[0; 100], None, len).is_err());
    }
}

#[test]
fn half_a_token_is_an_error() {
    let error = opened(&[0; 101], None, 4).unwrap_err();
    assert_eq!(error.offset, Some(100));
    assert!(opened(&[0; 101], Some(DType::U8), 4).is_ok());
    assert!(opened(&[0; 102], Some(DType::U32), 4).unwrap_err().to_string().contains("2 bytes of a token of 4"));
}

#[test]
fn a_header_tells_the_type_and_how_many_there_are() {
    let llama = llm_c(20_240_801, 7, 6, &[0; 24]);
    assert_eq!(opened(&llama, None, 5).unwrap().sample(0).unwrap().ranges()[0].len, 24);
    assert!(opened(&llama, Some(DType::U32), 5).is_ok());
    let error = opened(&llama, Some(DType::U16), 5).unwrap_err();
    assert!(error.to_string().contains("of U32, and not of U16"), "{error}");

    let cut = opened(&llm_c(20_240_520, 1, 6, &[0; 11]), None, 5).unwrap_err();
    assert!(matches!(cut.fault, DatasetFault::Truncated { missing: 1, .. }) && cut.offset == Some(1024), "{cut}");
    for (bytes, offset) in [
        (llm_c(20_240_520, 1, 6, &[0; 13]), 1036),
        (llm_c(20_240_520, 1, u32::MAX, &[0; 12]), 8),
        (llm_c(20_240_520, 2, 6, &[0; 12]), 4),
        (llm_c(20_240_801, 1, 6, &[0; 24]), 4),
        (llm_c(20_240_522, 1, 6, &[0; 12]), 0),
    ] {
        assert_eq!(opened(&bytes, None, 5).unwrap_err().offset, Some(offset));
    }
    let most = opened(&llm_c(20_240_801, 7, i32::MAX as u32, &[0; 12]), None, 5).unwrap_err();
    assert!(matches!(most.fault, DatasetFault::Truncated { .. }), "{most}");
    assert!(looks_like(&gpt_2(1)) && !looks_like(&[0; 512]) && !looks_like(&[0x98, 0xd8, 0x34]));
}

#[test]
fn files_of_two_types_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let llama = llm_c(20_240_801, 7, 6, &[0; 24]);
    let paths = [written(folder.path(), "a.bin", &gpt_2(9)), written(folder.path(), "b.bin", &llama)];
    let error = Tokens::open(&paths, None, Split::windows(4)).unwrap_err();
    assert_eq!(error.path, paths[1]);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(100).unwrap();
    let paths = [file.path().to_owned()];
    for (dtype, split) in [
        (None, Split::Documents),
        (None, Split::windows(0)),
        (None, Split::Windows { seq_len: 4, stride: 0 }),
        (Some(DType::F32), Split::windows(4)),
        (Some(DType::F4), Split::windows(4)),
    ] {
        let error = Tokens::open(&paths, dtype, split).unwrap_err();
        assert!(matches!(error.fault, DatasetFault::Setting { .. }), "{error}");
    }
}

/// Three shards of 1.5 G tokens: sums of 32 bits are too small for them.
#[test]
fn tokens_beyond_4_gib_are_found_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..3).map(|i| folder.path().join(format!("{i}.bin"))).collect();
    let count = 1_500_000_000_u64;
    for path in &paths {
        fs::File::create(path).unwrap().set_len(count * 4).unwrap();
    }
    let tokens = Tokens::open(&paths, Some(DType::U32), Split::windows(1)).unwrap();
    assert_eq!(tokens.len(), 3 * (count - 1));
    let last = tokens.sample(tokens.len() - 1).unwrap().ranges()[0];
    assert_eq!(last, FileRange { file: 2, offset: count * 4 - 8, len: 8 });
    assert_eq!(tokens.stored().map(|it| it.unwrap().spec.shape[0]).sum::<u64>(), 3 * count);
    assert_sound(&tokens);
}

#[test]
fn no_beginning_of_a_file_with_a_header_opens() {
    // Less than the four bytes that a header is told by is a file of tokens, but too short for a window.
    assert_no_beginning_opens(&gpt_2(9), "tokens.bin", |paths| Tokens::open(paths, None, Split::windows(4)));
}

#[test]
fn damaged_files_are_refused_or_sound() {
    let sound = [gpt_2(20), llm_c(20_240_801, 7, 20, &[0; 80]), vec![1; 60]];
    assert_damage_is_survived(&sound, "tokens.bin", 2000, |paths| Tokens::open(paths, None, Split::windows(4)));
}
