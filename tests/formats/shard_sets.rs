//! Files whose names say of how many they are one: all of them are there, or it is an error.
use std::path::{Path, PathBuf};

use forebay::dataset::{OpenOptions, open, open_stored};

use crate::common::folder;
use crate::open::{opened, refused, safetensors, write};
use crate::told::{megatron, npy, tar, tfrecord};

/// A sound file of each format, by the name that its shards have, with `#` where the numbers are.
fn formats() -> Vec<(&'static str, Vec<u8>, OpenOptions)> {
    vec![
        ("model-#.safetensors", safetensors(b"ab"), OpenOptions::new()),
        ("train-#.tar", tar(&[("0.a", b"1")]), OpenOptions::new()),
        ("x-#.npy", npy(), OpenOptions::new()),
        ("train.tfrecord-#", tfrecord(&[b"1"]), OpenOptions::new()),
        ("train-#.tfrecord", tfrecord(&[b"1"]), OpenOptions::new()),
        ("c4-train.#.tfrecord", tfrecord(&[b"1"]), OpenOptions::new()),
        ("r-#.bin", vec![7; 16], OpenOptions::new().record_bytes(8)),
        ("t-#.bin", vec![7; 16], OpenOptions::new().seq_len(2)),
        ("text-#.idx", megatron(), OpenOptions::new()),
    ]
}

fn shard(folder: &Path, name: &str, number: usize, total: usize, bytes: &[u8]) -> PathBuf {
    let name = name.replace('#', &format!("{number:05}-of-{total:05}"));
    if let Some(pair) = name.strip_suffix(".idx") {
        write(folder, format!("{pair}.bin"), [1; 10]);
    }
    write(folder, name, bytes)
}

#[test]
fn a_set_that_lacks_files_is_refused_with_their_names() {
    for (name, bytes, options) in formats() {
        for first in [0, 1] {
            let folder = folder();
            let whole: Vec<PathBuf> = (first..first + 4).map(|i| shard(folder.path(), name, i, 4, &bytes)).collect();
            assert!(open(&whole, &options).is_ok() && open(&[folder.path()], &options).is_ok(), "{name}");
            // The last one alone does not say whether numbers begin with 0 or with 1.
            for lacking in [&[0][..], &[1], &[2], &[3], &[1, 2], &[0, 1]] {
                let (gone, left): (Vec<_>, Vec<_>) = whole.iter().enumerate().partition(|(i, _)| lacking.contains(i));
                gone.iter().for_each(|(_, path)| std::fs::remove_file(path).unwrap());
                let left: Vec<&PathBuf> = left.into_iter().map(|(_, path)| path).collect();
                for error in [refused(&left, &options), refused(&[folder.path()], &options)] {
                    let said = error.to_string();
                    for (_, path) in &gone {
                        let name = path.file_name().unwrap().to_str().unwrap();
                        assert!(said.contains(name), "{lacking:?} of {name} from {first}: {said}");
                    }
                    assert!(said.contains("allow_incomplete") && said.contains("--allow-incomplete"), "{said}");
                }
                (first..first + 4).for_each(|i| drop(shard(folder.path(), name, i, 4, &bytes)));
            }
        }
    }
}

#[test]
fn each_set_in_a_folder_is_whole() {
    let folder = folder();
    for i in 0..2 {
        shard(folder.path(), "a-#.npy", i, 2, &npy());
        shard(folder.path(), "b-#.npy", i, 3, &npy());
    }
    let said = refused(&[folder.path()], &OpenOptions::new()).to_string();
    assert!(said.contains("b-00002-of-00003.npy") && !said.contains("a-0"), "{said}");
    shard(folder.path(), "b-#.npy", 2, 3, &npy());
    // Files of no set do not count.
    write(folder.path(), "c.npy", npy());
    write(folder.path(), "d-1.npy", npy());
    assert_eq!(opened(&[folder.path()]).files().len(), 7);
}

#[test]
fn totals_that_disagree_are_refused_even_where_each_set_is_whole() {
    let folder = folder();
    (1..=2).for_each(|i| drop(shard(folder.path(), "m-#.safetensors", i, 2, &safetensors(b"a"))));
    (1..=3).for_each(|i| drop(shard(folder.path(), "m-#.safetensors", i, 3, &safetensors(b"a"))));
    let said = refused(&[folder.path()], &OpenOptions::new()).to_string();
    assert!(said.contains("of-00002") && said.contains("of-00003"), "{said}");
}

#[test]
fn a_pattern_that_stands_for_a_part_of_a_set_is_one_too() {
    let folder = folder();
    (0..3).for_each(|i| drop(shard(folder.path(), "x-#.npy", i, 3, &npy())));
    assert_eq!(opened(&[folder.path().join("x-{00000..00002}-of-00003.npy")]).files().len(), 3);
    let part = refused(&[folder.path().join("x-{00000..00001}-of-00003.npy")], &OpenOptions::new()).to_string();
    assert!(part.contains("x-00002-of-00003.npy"), "{part}");
}

/// Shards of one set may lie on several drives, in any order; whole sets of one name in two folders are two.
#[test]
fn a_set_may_lie_in_several_folders() {
    let (a, b) = (folder(), folder());
    let first = shard(a.path(), "x-#.npy", 0, 2, &npy());
    let second = shard(b.path(), "x-#.npy", 1, 2, &npy());
    assert_eq!(opened(&[&second, &first]).files().len(), 2);
    let third = shard(a.path(), "x-#.npy", 1, 2, &npy());
    let said = refused(&[&first, &third, &second], &OpenOptions::new()).to_string();
    assert!(said.contains("x-00000-of-00002.npy"), "{said}");
    shard(b.path(), "x-#.npy", 0, 2, &npy());
    assert_eq!(opened(&[a.path(), b.path()]).files().len(), 4);
}

/// As splits are saved that share the names of their shards.
#[test]
fn sets_of_one_name_in_two_folders_are_two() {
    let (train, test) = (folder(), folder());
    let mut files: Vec<PathBuf> = (0..2).map(|i| shard(train.path(), "data-#.npy", i, 2, &npy())).collect();
    files.push(shard(test.path(), "data-#.npy", 0, 1, &npy()));
    assert_eq!(opened(&[train.path(), test.path()]).files().len(), 3);
    assert_eq!(opened(&files).files().len(), 3);
    let half = folder();
    shard(half.path(), "data-#.npy", 1, 2, &npy());
    std::fs::remove_file(train.path().join("data-00001-of-00002.npy")).unwrap();
    // Each folder is given as one split, and what one lacks the other has not.
    let said = refused(&[train.path(), half.path()], &OpenOptions::new()).to_string();
    assert!(said.contains("data-00001-of-00002.npy"), "{said}");
}

/// As the hub of Hugging Face names them.
#[test]
fn files_of_a_set_may_each_have_a_hash_in_their_names() {
    let folder = folder();
    write(folder.path(), "train-00000-of-00002-0a1b2c3d4e5f6789.npy", npy());
    let said = refused(&[folder.path()], &OpenOptions::new()).to_string();
    assert!(said.contains("train-00001-of-00002-*.npy"), "{said}");
    write(folder.path(), "train-00001-of-00002-ffeeddccbbaa9988.npy", npy());
    assert_eq!(opened(&[folder.path()]).files().len(), 2);
}

#[test]
fn a_number_beyond_the_total_is_no_file_of_the_set() {
    let folder = folder();
    for i in [1, 2, 7] {
        shard(folder.path(), "x-#.npy", i, 2, &npy());
    }
    let said = refused(&[folder.path()], &OpenOptions::new()).to_string();
    assert!(said.contains("x-00007-of-00002.npy"), "{said}");
}

#[test]
fn of_many_missing_files_the_first_are_named_and_all_are_counted() {
    let folder = folder();
    shard(folder.path(), "x-#.npy", 0, 99_999, &npy());
    let said = refused(&[folder.path()], &OpenOptions::new()).to_string();
    assert!(said.contains("99998") && said.contains("x-00001-of-99999.npy") && said.len() < 1500, "{said}");
    // A name takes no memory by what it says.
    let folder = crate::common::folder();
    write(folder.path(), "x-0-of-18446744073709551615.npy", npy());
    write(folder.path(), "y-0-of-99999999999999999999999999.npy", npy());
    assert!(refused(&[folder.path()], &OpenOptions::new()).to_string().contains("18446744073709551614"));
}

fn indexed(folder: &Path, index: &str, map: &[(&str, &str)]) {
    let map: Vec<String> = map.iter().map(|(tensor, file)| format!("{tensor:?}:{file:?}")).collect();
    write(folder, index, format!(r#"{{"metadata":{{"total_size":1}},"weight_map":{{{}}}}}"#, map.join(",")));
}

fn names(path: &Path) -> Vec<String> {
    let stored = open_stored(&[path], &OpenOptions::new()).unwrap_or_else(|error| panic!("{error}"));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    stored.dataset.files().iter().map(|file| name(file.path())).collect()
}

#[test]
fn an_index_is_known_by_what_it_says() {
    for name in [
        "model.safetensors.index.json",
        "model.safetensors.index.fp16.json",
        "diffusion_pytorch_model.safetensors.index.json",
        "diffusion_pytorch_model.fp16.safetensors.index.json",
        "weights.json",
    ] {
        let folder = folder();
        write(folder.path(), "m-00001-of-00001.safetensors", safetensors(b"ab"));
        write(folder.path(), "stray.safetensors", safetensors(b"cd"));
        write(folder.path(), "config.json", r#"{"model_type":"x","weight_map":"none"}"#);
        write(folder.path(), "tokenizer.json", r#"{"a":{"weight_map":{"x":"stray.safetensors"}}}"#);
        write(folder.path(), "broken.json", r#"{"weight_map": "#);
        write(folder.path(), "pytorch_model.bin.index.fp16.json", r#"{"weight_map":{"x":"pytorch_model-1.bin"}}"#);
        indexed(folder.path(), name, &[("x", "m-00001-of-00001.safetensors")]);
        for path in [folder.path().to_owned(), folder.path().join(name)] {
            assert_eq!(names(&path), ["m-00001-of-00001.safetensors"], "{name}");
        }
    }
}

#[test]
fn of_two_indices_that_differ_none_is_taken() {
    let folder = folder();
    write(folder.path(), "a.safetensors", safetensors(b"ab"));
    write(folder.path(), "b.safetensors", safetensors(b"ab"));
    indexed(folder.path(), "model.safetensors.index.json", &[("x", "a.safetensors")]);
    indexed(folder.path(), "other.safetensors.index.json", &[("x", "b.safetensors")]);
    let said = refused(&[folder.path()], &OpenOptions::new()).to_string();
    assert!(said.contains("model.safetensors.index.json") && said.contains("other.safetensors.index.json"), "{said}");
    // Two that say the same are one.
    indexed(folder.path(), "other.safetensors.index.json", &[("x", "a.safetensors")]);
    assert_eq!(names(folder.path()), ["a.safetensors"]);
    // A variant's is another model's; beside the plain one it has to be asked for.
    indexed(folder.path(), "model.safetensors.index.fp16.json", &[("x", "b.safetensors")]);
    assert_eq!(names(folder.path()), ["a.safetensors"]);
    assert_eq!(names(&folder.path().join("model.safetensors.index.fp16.json")), ["b.safetensors"]);
}

#[test]
fn an_index_of_nothing_is_no_model() {
    let folder = folder();
    write(folder.path(), "a.safetensors", safetensors(b"ab"));
    indexed(folder.path(), "model.safetensors.index.json", &[]);
    for path in [folder.path().to_owned(), folder.path().join("model.safetensors.index.json")] {
        let said = open_stored(&[path], &OpenOptions::new()).unwrap_err().to_string();
        assert!(said.contains("names no tensor") && said.contains("; "), "{said}");
    }
}

#[test]
fn a_byte_order_mark_in_an_index_is_named() {
    let folder = folder();
    write(folder.path(), "a.safetensors", safetensors(b"ab"));
    let text = r#"{"weight_map":{"x":"a.safetensors"}}"#;
    let wide: Vec<u8> = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    for (bytes, word) in [([b"\xef\xbb\xbf", text.as_bytes()].concat(), "UTF-8"), (wide, "UTF-16")] {
        write(folder.path(), "model.safetensors.index.json", bytes);
        let said = refused(&[folder.path()], &OpenOptions::new()).to_string();
        assert!(said.contains("byte order mark") && said.contains(word) && said.contains("; "), "{said}");
    }
}

#[test]
fn folders_that_are_called_as_data_is_are_no_data() {
    for (name, bytes) in
        [("old.safetensors", safetensors(b"a")), ("old.npy", npy()), ("old.tar", tar(&[("0.a", b"1")]))]
    {
        let folder = folder();
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::create_dir(folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", folder.path().join(format!("link-{name}"))).unwrap();
        write(folder.path(), name.replace("old", "new"), bytes);
        assert_eq!(opened(&[folder.path()]).files().len(), 1, "{name}");
    }
}

/// What is asked for is given, and nothing is said of it.
#[test]
fn a_part_of_a_set_may_be_asked_for() {
    for (name, bytes, options) in formats() {
        let folder = folder();
        let paths = [1, 3].map(|i| shard(folder.path(), name, i, 4, &bytes));
        let options = options.allow_incomplete(true);
        assert_eq!(open(&paths, &options).unwrap().files().len(), 2, "{name}");
        assert_eq!(open(&[folder.path()], &options).unwrap().files().len(), 2, "{name}");
    }
}
