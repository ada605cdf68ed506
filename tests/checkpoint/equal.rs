//! On the host, whole or in part, what was loaded is what the safetensors crate sees.
use forebay::checkpoint::{LoadOptions, load};
use forebay::{Carrier, Device, EngineChoice, Reader, Route};
use safetensors::Dtype;

use crate::common::weights::{Tensor, write};
use crate::common::{folder, reader};
use crate::model::{Model, check, mixed};

fn host() -> Device {
    Device::host()
}

/// With each engine, by each route of the host.
fn ways() -> Vec<(String, LoadOptions)> {
    let mut ways = Vec::new();
    for engine in reader::engines() {
        for route in [None, Some(Route::Bounce), Some(Route::Cached)] {
            let builder = Carrier::builder().reader(Reader::builder().engine(engine));
            let builder = route.into_iter().fold(builder, |builder, route| builder.route(route));
            ways.push((format!("{engine:?}/{route:?}"), LoadOptions::new().carrier(builder)));
        }
    }
    ways
}

#[test]
fn a_file_a_folder_and_an_index_are_loaded_whole() {
    let one = Model::of(&[mixed("", 1)]);
    let three = Model::of(&[mixed("a.", 2), mixed("b.", 3), mixed("c.", 4)]);
    let oracles = (one.oracle(), three.oracle());
    for (way, options) in ways() {
        eprintln!("{way}");
        for path in [one.files[0].as_path(), one.path()] {
            let loaded = load(path, &host(), &options).unwrap();
            check(&loaded, &oracles.0);
            assert_eq!((loaded.files(), loaded.device().to_string()), (1, "host".to_owned()));
        }
        let loaded = load(three.path(), &host(), &options).unwrap();
        check(&loaded, &oracles.1);
        assert_eq!(loaded.files(), 3);
    }
    let index = three.index();
    for path in [index.as_path(), three.path()] {
        check(&load(path, &host(), &LoadOptions::new()).unwrap(), &oracles.1);
    }
}

#[test]
fn a_folder_with_an_index_holds_what_the_index_says() {
    let model = Model::of(&[mixed("a.", 2), mixed("b.", 3)]);
    model.index();
    let wanted = model.oracle();
    // Tensors that are in the map already, and such as nobody mapped.
    write(model.path(), "consolidated.safetensors", &[mixed("a.", 5), mixed("stray.", 6)].concat());
    write(model.path(), ".hidden.safetensors", &mixed("hidden.", 7));
    check(&load(model.path(), &host(), &LoadOptions::new()).unwrap(), &wanted);
    std::fs::remove_file(model.path().join("model.safetensors.index.json")).unwrap();
    let error = load(model.path(), &host(), &LoadOptions::new()).unwrap_err().to_string();
    assert!(error.contains("consolidated") && error.contains("model-0000") && error.contains("\"a."), "{error}");
}

#[test]
fn folders_that_are_no_checkpoint_are_refused() {
    let folder = folder();
    let error = load(folder.path(), &host(), &LoadOptions::new()).unwrap_err().to_string();
    assert!(error.contains(&folder.path().display().to_string()) && error.contains("no files"), "{error}");
    for name in ["a", "b"] {
        std::fs::write(folder.path().join(format!("{name}.safetensors.index.json")), "{}").unwrap();
    }
    let error = load(folder.path(), &host(), &LoadOptions::new()).unwrap_err().to_string();
    assert!(error.contains("a.safetensors.index.json") && error.contains("b.safetensors.index.json"), "{error}");
    let missing = folder.path().join("missing.safetensors");
    let error = load(&missing, &host(), &LoadOptions::new()).unwrap_err().to_string();
    assert!(error.starts_with(&missing.display().to_string()), "{error}");
}

#[test]
fn names_and_predicates_select() {
    let model = Model::of(&[mixed("a.", 2), mixed("b.", 3)]);
    let oracle = model.oracle();
    let by = |options: &LoadOptions, holds: &dyn Fn(&str) -> bool| {
        let wanted: Vec<_> = oracle.iter().filter(|(name, ..)| holds(name)).cloned().collect();
        let loaded = load(model.path(), &host(), options).unwrap();
        check(&loaded, &wanted);
        loaded.files()
    };
    for (_, options) in ways() {
        let names = ["a.large", "b.layers.3.größe", "b.scalar", "a.none", "a.layers.7.größe"];
        assert_eq!(by(&options.clone().names(names), &|name| names.contains(&name)), 2);
        assert_eq!(by(&options.clone().names(["b.large"]), &|name| name == "b.large"), 1);
        by(&options.clone().filter(|spec| spec.shape.len() == 2), &|name| {
            oracle.iter().any(|seen| seen.0 == name && seen.2.len() == 2)
        });
        // Every second one: as many pieces as there can be.
        let even: Vec<String> = oracle.iter().step_by(2).map(|seen| seen.0.clone()).collect();
        by(&options.clone().names(even.clone()), &|name| even.iter().any(|even| even == name));
        assert_eq!(
            by(&options.clone().names(names).filter(|spec| &*spec.name == "a.none"), &|name| name == "a.none"),
            0
        );
        assert_eq!(by(&options.clone().filter(|_| false), &|_| false), 0);
    }
    let error = load(model.path(), &host(), &LoadOptions::new().names(["a.large", "q"])).unwrap_err().to_string();
    assert!(error.contains("\"q\"") && error.contains(&model.path().display().to_string()), "{error}");
}

#[test]
fn tensors_of_no_bytes_are_loaded_and_a_checkpoint_without_tensors_is_refused() {
    let none = Tensor::new("none", Dtype::F32, &[0, 5], 1);
    let flat = Tensor::new("flat", Dtype::F64, &[3, 0], 1);
    let (model, empty) = (Model::of(&[vec![none, flat]]), Model::of(&[vec![]]));
    for (_, options) in ways() {
        let loaded = load(model.path(), &host(), &options).unwrap();
        check(&loaded, &model.oracle());
        assert_eq!(loaded.files(), 0);
        let error = load(empty.path(), &host(), &options).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("holds no tensor"), "{error}");
    }
}

#[test]
fn twenty_thousand_small_tensors_of_forty_files() {
    let files: Vec<Vec<Tensor>> = (0..40)
        .map(|file| {
            let tensor =
                |i: u64| Tensor::new(format!("{file}.{i}"), Dtype::BF16, &[1 + (i % 13) as usize, 3], file * 1000 + i);
            (0..500).map(tensor).collect()
        })
        .collect();
    let model = Model::of(&files);
    let oracle = model.oracle();
    let start = std::time::Instant::now();
    let loaded = load(model.path(), &host(), &LoadOptions::new()).unwrap();
    eprintln!("20,000 tensors of 40 files in {:?}", start.elapsed());
    check(&loaded, &oracle);
    // Every second one, so that nothing lies beside anything.
    let odd: Vec<_> = oracle.iter().skip(1).step_by(2).cloned().collect();
    let options = LoadOptions::new().names(odd.iter().map(|seen| seen.0.clone()));
    check(&load(model.path(), &host(), &options).unwrap(), &odd);
}

#[test]
fn one_carrier_serves_one_load_after_the_other() {
    let model = Model::of(&[mixed("a.", 2), mixed("b.", 3)]);
    let oracle = model.oracle();
    for engine in reader::engines() {
        let reader = Reader::builder().engine(engine);
        let carrier = Carrier::builder().device(&host()).reader(reader).budget(4 << 20).build().unwrap();
        let options = LoadOptions::new().with(&carrier);
        for _ in 0..2 {
            let loaded = load(model.path(), &host(), &options).unwrap();
            check(&loaded, &oracle);
            assert!(carrier.reader().arena().on_loan() > 0);
            drop(loaded);
            assert_eq!(carrier.reader().arena().on_loan(), 0);
        }
    }
}

#[test]
fn tensors_outlive_the_checkpoint_and_free_what_they_hold() {
    let model = Model::of(&[mixed("a.", 2), mixed("b.", 3)]);
    let oracle = model.oracle();
    let carrier = Carrier::builder().device(&host()).budget(4 << 20).build().unwrap();
    let mut tensors = load(model.path(), &host(), &LoadOptions::new().with(&carrier)).unwrap().into_tensors();
    let on_loan = || carrier.reader().arena().on_loan();
    let whole = on_loan();
    for (tensor, (name, _, _, bytes)) in tensors.iter().zip(&oracle) {
        assert!(tensor.host().unwrap()[..] == bytes[..], "{name}");
    }
    tensors.retain(|tensor| tensor.name().starts_with("a."));
    assert!((whole / 3..whole * 2 / 3).contains(&on_loan()), "{} of {whole}", on_loan());
    let last = tensors.iter().find(|tensor| tensor.name() == "a.large").unwrap().clone();
    drop(tensors);
    assert!(on_loan() > 0);
    drop((carrier.clone(), model));
    let wanted = &oracle.iter().find(|seen| seen.0 == "a.large").unwrap().3;
    assert!(last.host().unwrap()[..] == wanted[..]);
    drop(last);
    assert_eq!(on_loan(), 0);
}

/// The engine that is asked for, where it can be had.
#[test]
fn an_engine_that_is_asked_for_is_the_one() {
    let model = Model::of(&[mixed("", 1)]);
    let builder = Carrier::builder().reader(Reader::builder().engine(EngineChoice::Pread));
    check(&load(model.path(), &host(), &LoadOptions::new().carrier(builder)).unwrap(), &model.oracle());
}
