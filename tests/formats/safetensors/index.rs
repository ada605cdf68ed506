//! A model in several files: its index says what is where, and nothing else does.
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use forebay::dataset::{Dataset, Safetensors};
use safetensors::Dtype;

use crate::common::folder;
use crate::common::weights::{Tensor, write, write_index};
use crate::common::work::within;

fn tensor(name: &str, seed: u64) -> Tensor {
    Tensor::new(name, Dtype::F32, &[3], seed)
}

/// The name of the file and the bytes of each tensor, by name.
fn contents(index: &Path) -> Vec<(String, String, Vec<u8>)> {
    let opened = Safetensors::open(&[index]).unwrap_or_else(|error| panic!("{error}"));
    let mut seen: Vec<_> = opened
        .tensors()
        .iter()
        .map(|tensor| {
            let path = opened.files()[tensor.range.file as usize].path();
            let bytes = crate::common::data::oracle(path, tensor.range.offset, tensor.range.len).unwrap();
            (tensor.spec.name.to_string(), path.file_name().unwrap().to_str().unwrap().to_owned(), bytes)
        })
        .collect();
    seen.sort();
    seen
}

fn refused(index: &Path) -> String {
    Safetensors::open(&[index]).unwrap_err().to_string()
}

fn raw_index(folder: &Path, text: &str) -> std::path::PathBuf {
    let path = folder.join("model.safetensors.index.json");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_map_is_the_authority() {
    let folder = folder();
    write(folder.path(), "a.safetensors", &[tensor("t", 1), tensor("u", 2)]);
    write(folder.path(), "b.safetensors", &[tensor("t", 3), tensor("not mapped", 4)]);
    write(folder.path(), "stray.safetensors", &[tensor("t", 5), tensor("stray", 6)]);
    let orders = [[("t", "b.safetensors"), ("u", "a.safetensors")], [("u", "a.safetensors"), ("t", "b.safetensors")]];
    let wanted = vec![
        ("t".to_owned(), "b.safetensors".to_owned(), tensor("t", 3).bytes),
        ("u".to_owned(), "a.safetensors".to_owned(), tensor("u", 2).bytes),
    ];
    let mut prints = Vec::new();
    for order in orders {
        let map: Vec<String> = order.iter().map(|(name, file)| format!("{name:?}:{file:?}")).collect();
        let index = raw_index(folder.path(), &format!("{{\"weight_map\":{{{}}}}}", map.join(",")));
        assert_eq!(contents(&index), wanted);
        let opened = Safetensors::open(&[&index]).unwrap();
        assert!(!opened.is_sharded());
        assert_eq!(opened.files().len(), 2, "the stray file is not opened");
        prints.push(opened.fingerprint());
    }
    assert_eq!(prints[0], prints[1], "the order of the map is nothing");
    // Other tensors of the same files are another dataset.
    write_index(folder.path(), &[("t", "a.safetensors"), ("u", "a.safetensors")]);
    let both = raw_index(
        folder.path(),
        r#"{"weight_map":{"t":"b.safetensors","u":"a.safetensors","not mapped":"b.safetensors"}}"#,
    );
    assert_ne!(Safetensors::open(&[both]).unwrap().fingerprint(), prints[0]);
}

#[test]
fn files_that_are_missing_are_all_named() {
    let folder = folder();
    write(folder.path(), "1.safetensors", &[tensor("a", 1)]);
    symlink("nowhere", folder.path().join("4.safetensors")).unwrap();
    let index = write_index(
        folder.path(),
        &[("a", "1.safetensors"), ("b", "2.safetensors"), ("c", "3.safetensors"), ("d", "4.safetensors")],
    );
    let said = refused(&index);
    assert!(said.starts_with(&index.display().to_string()), "{said}");
    assert!(said.contains("2.safetensors, 3.safetensors, 4.safetensors") && !said.contains("1.safetensors"), "{said}");
}

#[test]
fn a_tensor_that_is_not_in_its_file_is_an_error_with_both_names() {
    let folder = folder();
    write(folder.path(), "a.safetensors", &[tensor("t", 1)]);
    let file = write(folder.path(), "b.safetensors", &[tensor("u", 2)]);
    let index = write_index(folder.path(), &[("t", "a.safetensors"), ("u", "b.safetensors"), ("v", "b.safetensors")]);
    let said = refused(&index);
    assert!(said.contains("\"v\"") && said.contains(&file.display().to_string()), "{said}");
    assert!(said.contains(&index.display().to_string()), "{said}");
}

/// Not as many looks as the product of the tensors in the map and in the file.
#[test]
fn a_tensor_that_is_not_in_its_file_is_found_soon_among_many() {
    let folder = folder();
    let tensors: Vec<Tensor> = (0..30_000).map(|i| Tensor::new(format!("t{i:06}"), Dtype::U8, &[1], i)).collect();
    write(folder.path(), "a.safetensors", &tensors);
    let mut map: Vec<(&str, &str)> = tensors.iter().map(|tensor| (tensor.name.as_str(), "a.safetensors")).collect();
    map.push(("z", "a.safetensors"));
    let index = write_index(folder.path(), &map);
    // The square of them would be a thousand units of steps alone.
    let said = within(300, "30,000 tensors", || refused(&index));
    assert!(said.contains("\"z\""));
}

#[test]
fn no_path_leaves_the_folder() {
    let folder = folder();
    let model = folder.path().join("model");
    let secret = write(folder.path(), "secret.safetensors", &[tensor("t", 1)]);
    fs::create_dir_all(model.join("sub")).unwrap();
    symlink("../secret.safetensors", model.join("link.safetensors")).unwrap();
    symlink(&secret, model.join("absolute.safetensors")).unwrap();
    symlink("..", model.join("up")).unwrap();
    let absolute = secret.to_str().unwrap();
    for name in [
        "../secret.safetensors",
        "sub/../../secret.safetensors",
        "./../secret.safetensors",
        absolute,
        "/proc/self/mem",
        "link.safetensors",
        "absolute.safetensors",
        "up/secret.safetensors",
        "",
        "nul\0",
    ] {
        let said = refused(&write_index(&model, &[("t", name)]));
        assert!(
            said.starts_with(&format!("{} at 0: ", model.join("model.safetensors.index.json").display())),
            "{said}"
        );
        assert!(said.contains("outside the folder") || said.contains("no name of a file"), "{name:?}: {said}");
    }
    // Below the folder is inside, and so is a link that stays there.
    write(&model.join("sub"), "in.safetensors", &[tensor("t", 2)]);
    symlink("sub/in.safetensors", model.join("near.safetensors")).unwrap();
    for name in ["sub/in.safetensors", "./sub/in.safetensors", "near.safetensors"] {
        assert_eq!(contents(&write_index(&model, &[("t", name)]))[0].2, tensor("t", 2).bytes, "{name}");
    }
}

#[test]
fn the_cache_of_hugging_face_is_read_as_it_lies() {
    let folder = folder();
    let model = folder.path().join("models--org--name");
    let (blobs, snapshot) = (model.join("blobs"), model.join("snapshots/0a1b2c"));
    fs::create_dir_all(&blobs).unwrap();
    fs::create_dir_all(snapshot.join("transformer")).unwrap();
    write(&blobs, "deadbeef", &[tensor("t", 1)]);
    // Models of several parts have an index in a folder of each.
    for (place, up) in [(snapshot.clone(), "../.."), (snapshot.join("transformer"), "../../..")] {
        write_index(&place, &[("t", "model-00001-of-00001.safetensors")]);
        fs::rename(place.join("model.safetensors.index.json"), blobs.join("index")).unwrap();
        symlink(format!("{up}/blobs/index"), place.join("model.safetensors.index.json")).unwrap();
        symlink(format!("{up}/blobs/deadbeef"), place.join("model-00001-of-00001.safetensors")).unwrap();
        let index = place.join("model.safetensors.index.json");
        assert_eq!(contents(&index)[0].2, tensor("t", 1).bytes);
    }
    // Another model's blobs are outside.
    let other = folder.path().join("models--org--other/blobs");
    fs::create_dir_all(&other).unwrap();
    write(&other, "cafe", &[tensor("t", 2)]);
    fs::remove_file(snapshot.join("model-00001-of-00001.safetensors")).unwrap();
    symlink("../../../models--org--other/blobs/cafe", snapshot.join("model-00001-of-00001.safetensors")).unwrap();
    assert!(refused(&snapshot.join("model.safetensors.index.json")).contains("outside the folder"));
}

#[test]
fn an_index_that_is_none_is_refused_with_its_path() {
    let folder = folder();
    write(folder.path(), "a.safetensors", &[tensor("t", 1)]);
    let deep = format!("{{\"metadata\":{}", "[".repeat(100_000));
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        r#"{"weight_map":null}"#,
        r#"{"weight_map":[]}"#,
        r#"{"weight_map":{"t":1}}"#,
        r#"{"weight_map":{"t":["a.safetensors"]}}"#,
        r#"{"weight_map":{"t":"a.safetensors"},"weight_map":{}}"#,
        r#"{"weight_map":{"t":"a.safetensors"}} x"#,
        &deep,
    ] {
        let said = refused(&raw_index(folder.path(), text));
        assert!(said.contains("index.json at 0: it is no index"), "{text:.40}: {said}");
    }
    let index = raw_index(folder.path(), "{\"weight_map\":{\"t\":\"\u{fffd}\"}}");
    assert!(refused(&index).contains("not there"), "{}", refused(&index));
    fs::write(&index, b"{\"weight_map\":{\"t\":\"\xff\"}}").unwrap();
    assert!(refused(&index).contains("it is no index"), "{}", refused(&index));
}

#[test]
fn a_file_that_is_not_sound_is_named_by_its_own_path() {
    let folder = folder();
    let file = write(folder.path(), "b.safetensors", &[tensor("t", 1)]);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let said = refused(&write_index(folder.path(), &[("t", "b.safetensors")]));
    assert!(said.starts_with(&file.display().to_string()) && said.contains("needs 1 bytes more"), "{said}");
}

#[test]
fn an_index_of_nothing_is_refused() {
    let folder = folder();
    assert!(refused(&raw_index(folder.path(), r#"{"weight_map":{}}"#)).contains("names no tensor"));
}

/// Which of two places counts, readers do not agree on.
#[test]
fn an_index_says_of_each_tensor_once_where_it_is() {
    let folder = folder();
    write(folder.path(), "a.safetensors", &[tensor("t", 1)]);
    write(folder.path(), "b.safetensors", &[tensor("t", 3)]);
    let said = refused(&raw_index(folder.path(), r#"{"weight_map":{"t":"b.safetensors","t":"a.safetensors"}}"#));
    assert!(said.contains("tensor t is said to be in b.safetensors and in a.safetensors"), "{said}");
    let same = raw_index(folder.path(), r#"{"weight_map":{"t":"b.safetensors","t":"b.safetensors"}}"#);
    assert_eq!(contents(&same), [("t".into(), "b.safetensors".into(), tensor("t", 3).bytes)]);
    let missing = refused(&raw_index(folder.path(), r#"{"weight_map":{"t":"c\nd.safetensors"}}"#));
    assert!(missing.contains(r"c\nd.safetensors"), "{missing}");
}

#[test]
fn files_of_the_set_that_the_index_does_not_name_are_in_one_warning() {
    let folder = folder();
    let names: Vec<String> = (1..=3).map(|i| format!("m-0000{i}-of-00003.safetensors")).collect();
    for (name, tensor_name) in names.iter().zip(["a", "b", "c"]) {
        write(folder.path(), name, &[tensor(tensor_name, 1)]);
    }
    write(folder.path(), "other-00001-of-00001.safetensors", &[tensor("o", 1)]);
    write(folder.path(), "m.safetensors", &[tensor("m", 1)]);
    let index = write_index(folder.path(), &[("a", &names[0]), ("b", &names[1])]);
    let (opened, heard) = crate::heard::warnings(|| Safetensors::open(std::slice::from_ref(&index)).unwrap());
    assert_eq!(opened.files().len(), 2);
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].starts_with(index.to_str().unwrap()) && heard[0].contains(&names[2]), "{heard:?}");
    assert!(![&names[0], &names[1]].iter().any(|name| heard[0].contains(*name)), "{heard:?}");
    assert!(!heard[0].contains("other") && !heard[0].contains("m.safetensors"), "{heard:?}");
    let whole = write_index(folder.path(), &[("a", &names[0]), ("b", &names[1]), ("c", &names[2])]);
    assert_eq!(crate::heard::warnings(|| Safetensors::open(&[whole]).unwrap()).1, Vec::<String>::new());
}
