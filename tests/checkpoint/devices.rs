//! Checkpoints on the emulated device: by every route the same bytes, and nothing left behind.
use forebay::checkpoint::{Checkpoint, CheckpointError, LoadOptions, load};
use forebay::{Carrier, CarrierBuilder, Device, DeviceFault, DirectForm, Reader, Route};
use safetensors::Dtype;

use crate::common::data::drop_cache;
use crate::common::emulated::{Emulated, clean};
use crate::common::emulator::Control;
use crate::common::privilege::Reduced;
use crate::common::weights::{Tensor, entry, file};
use crate::model::{Model, check, mixed};
use crate::shares;

const FORMS: [DirectForm; 3] = [DirectForm::Pool, DirectForm::Batch, DirectForm::Stream];

fn cuda() -> Device {
    Device::cuda(0).unwrap()
}

fn builder() -> CarrierBuilder {
    Carrier::builder().device(&cuda()).reader(Reader::builder().chunk(128 << 10).depth(16)).chunk(256 << 10)
}

/// The best route of each file, and each by itself; cuFile in each form.
fn ways() -> Vec<(String, CarrierBuilder)> {
    let direct = FORMS.map(|form| (format!("direct/{form:?}"), builder().route(Route::Direct).direct_form(form)));
    let copied = [Route::Bounce, Route::Cached].map(|route| (route.to_string(), builder().route(route)));
    std::iter::once(("auto".to_owned(), builder())).chain(copied).chain(direct).collect()
}

fn cool(model: &Model) {
    model.files.iter().for_each(|file| drop_cache(file).unwrap());
}

/// Looks at the memory itself, and at where tensors begin.
fn check_addresses(loaded: &Checkpoint, control: &Control) {
    for tensor in loaded.tensors() {
        assert!(tensor.host().is_none() || tensor.is_empty());
        let Some(address) = tensor.device_address() else {
            assert!(tensor.is_empty());
            continue;
        };
        assert!(control.read_device(address, tensor.len()) == loaded.to_host(tensor).unwrap(), "{}", tensor.name());
    }
}

#[test]
fn every_route_to_a_device_brings_what_the_crate_sees() {
    clean("jitter_us=50", |control| {
        let model = Model::of(&[mixed("a.", 2), mixed("b.", 3)]);
        let oracle = model.oracle();
        for (way, builder) in ways() {
            for _ in 0..2 {
                cool(&model);
                let options = LoadOptions::new().carrier(builder.clone());
                let loaded = load(model.path(), &cuda(), &options).unwrap_or_else(|error| panic!("{way}: {error}"));
                eprintln!("{way}: {}", loaded.carried());
                check(&loaded, &oracle);
                check_addresses(&loaded, control);
                let carried = loaded.carried();
                match way.split('/').next().unwrap() {
                    "direct" => assert_eq!(carried.direct, carried.total(), "{way}"),
                    "auto" => assert!(carried.direct > carried.total() / 2, "{way}: {carried}"),
                    "bounce" => assert_eq!(carried.bounce, carried.total(), "{way}"),
                    _ => assert_eq!(carried.cached, carried.total(), "{way}"),
                }
            }
        }
        let other = Device::cuda(1).unwrap();
        let loaded = load(model.path(), &other, &LoadOptions::new()).unwrap();
        check(&loaded, &oracle);
        assert_eq!(loaded.device().to_string(), "cuda:1");
    });
}

/// As `pack` writes them: every byte may come straight from the drive.
#[test]
fn data_that_begins_on_a_block_is_read_in_whole_blocks() {
    clean("", |_| {
        let (a, b) = (Tensor::new("a", Dtype::F32, &[4096], 1), Tensor::new("b", Dtype::BF16, &[100, 41], 2));
        let (first, all) = (a.bytes.len() as u64, (a.bytes.len() + b.bytes.len()) as u64);
        let header =
            format!("{{{},{}}}", entry("a", "F32", &[4096], 0, first), entry("b", "BF16", &[100, 41], first, all));
        let header = format!("{header:4088}");
        let model = Model::of(&[vec![]]);
        std::fs::write(&model.files[0], file(header, &[a.bytes, b.bytes].concat())).unwrap();
        std::fs::File::open(&model.files[0]).unwrap().sync_all().unwrap();
        for (way, builder) in ways() {
            cool(&model);
            let loaded = load(&model.files[0], &cuda(), &LoadOptions::new().carrier(builder)).unwrap();
            check(&loaded, &model.oracle());
            let carried = loaded.carried();
            assert!(!way.starts_with("direct") || carried.direct == all, "{way}: {carried}");
            assert!(way != "auto" || carried.direct >= all - 4095, "{way}: {carried}");
            let address = loaded.tensor("a").unwrap().device_address().unwrap();
            assert_eq!(address % 256, 0, "it is aligned as in its file");
        }
    });
}

#[test]
fn shares_and_selections_on_a_device() {
    clean("jitter_us=20", |control| {
        let model = shares::divisible();
        let oracle = model.oracle();
        for (way, builder) in ways() {
            for axis in 0..3 {
                for (rank, world) in [(0, 1), (1, 2), (2, 3)] {
                    cool(&model);
                    let options = shares::options(axis, rank, world).carrier(builder.clone());
                    match load(model.path(), &cuda(), &options) {
                        Ok(loaded) => {
                            check(&loaded, &shares::wanted(&oracle, axis, rank, world));
                            check_addresses(&loaded, control);
                        }
                        // cuFile alone reads whole blocks, and shares of inner dimensions begin anywhere.
                        Err(error) => {
                            assert!(way.starts_with("direct") && axis > 0 && world > 1, "{way}: {error}");
                            assert!(error.to_string().contains("4096"), "{error}");
                        }
                    }
                }
            }
            let names: Vec<String> = oracle.iter().step_by(2).map(|seen| seen.0.clone()).collect();
            let wanted: Vec<_> = oracle.iter().step_by(2).cloned().collect();
            let options = LoadOptions::new().names(names).carrier(builder);
            check(&load(model.path(), &cuda(), &options).unwrap(), &wanted);
        }
    });
}

#[test]
fn one_carrier_serves_many_loads() {
    clean("", |_| {
        let model = Model::of(&[mixed("a.", 2), mixed("b.", 3)]);
        let oracle = model.oracle();
        for (_, builder) in ways() {
            let carrier = builder.budget(4 << 20).device_budget(0).build().unwrap();
            let options = LoadOptions::new().with(&carrier);
            let first = load(model.path(), &cuda(), &options).unwrap();
            let second = load(model.path(), &cuda(), &options).unwrap();
            check(&first, &oracle);
            check(&second, &oracle);
            let error = load(model.path(), &Device::host(), &options).unwrap_err().to_string();
            assert!(error.contains("cuda:0") && error.contains("host"), "{error}");
        }
    });
}

#[test]
fn a_small_budget_is_passed_through() {
    clean("", |_| {
        let model = Model::of(&[vec![Tensor::new("w", Dtype::U8, &[5 << 20], 1)]]);
        for (_, builder) in ways() {
            let options = LoadOptions::new().carrier(builder).budget(1 << 20);
            check(&load(model.path(), &cuda(), &options).unwrap(), &model.oracle());
        }
    });
}

/// Before the first read: of the first file, too, which would fit.
#[test]
fn what_does_not_fit_the_device_is_refused_before_anything_is_read() {
    clean("memory=16MiB", |control| {
        let of = |name: &str, seed| vec![Tensor::new(name, Dtype::U8, &[5 << 20], seed)];
        let model = Model::of(&[of("a", 1), of("b", 2), of("c", 3), of("d", 4)]);
        for (way, builder) in ways() {
            let carrier = builder.budget(4 << 20).device_budget(0).build().unwrap();
            let (before, carried) = (carrier.reader().stats(), carrier.carried());
            let error = load(model.path(), &cuda(), &LoadOptions::new().with(&carrier)).unwrap_err();
            let said = error.to_string();
            let CheckpointError::Device(error) = error else { panic!("{way}: {said}") };
            assert!(matches!(error.fault, DeviceFault::OutOfMemory { .. }), "{way}: {said}");
            assert!(said.contains("16 MiB") && said.contains("cuda:0"), "{said}");
            assert_eq!((carrier.reader().stats(), carrier.carried()), (before, carried), "{way}: nothing was read");
            // What was allocated is free again.
            let options = LoadOptions::new().with(&carrier).names(["a", "d"]);
            assert_eq!(load(model.path(), &cuda(), &options).unwrap().tensors().len(), 2);
        }
        control.assert_no_violations();
    });
}

#[test]
fn dropping_tensors_frees_the_memory_of_the_device() {
    clean("", |control| {
        let model = Model::of(&[mixed("a.", 2), mixed("b.", 3)]);
        let mut tensors = load(model.path(), &cuda(), &LoadOptions::new()).unwrap().into_tensors();
        // Without the checkpoint nothing but what tensors lie in is left.
        assert!(crate::common::watchdog::eventually(|| control.leaks().len() <= 2 + 1), "{:#?}", control.leaks());
        let before = control.leaks().len();
        tensors.retain(|tensor| tensor.name().starts_with("a."));
        assert!(control.leaks().len() < before, "{:#?}", control.leaks());
        drop(tensors);
    });
}

#[test]
fn a_device_that_fails_is_an_error() {
    Emulated::new("fail=execute@3:719").run(|control| {
        let model = Model::of(&[vec![Tensor::new("w", Dtype::U8, &[5 << 20], 1)]]);
        let options = LoadOptions::new().carrier(builder().route(Route::Bounce));
        let error = load(model.path(), &cuda(), &options).unwrap_err().to_string();
        assert!(error.contains("719"), "{error}");
        control.assert_no_violations();
    });
}

#[test]
fn three_hundred_files_with_sixty_four_descriptors() {
    Emulated::new("").reduced(Reduced::new().open_files(64)).run(|control| {
        let files: Vec<Vec<Tensor>> = (0..300)
            .map(|i| vec![Tensor::new(format!("t{i}"), Dtype::U8, &[1 + (i * 7919 % 20_001) as usize], i)])
            .collect();
        let model = Model::of(&files);
        let oracle = model.oracle();
        for (_, builder) in ways() {
            check(&load(model.path(), &cuda(), &LoadOptions::new().carrier(builder)).unwrap(), &oracle);
        }
        check(&load(model.path(), &Device::host(), &LoadOptions::new()).unwrap(), &oracle);
        control.assert_clean();
    });
}
