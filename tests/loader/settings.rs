//! Settings of every builder at the ends of their types: an error that names the setting, or a loader that works; never a panic.
use std::sync::Arc;
use std::time::Duration;

use forebay::checkpoint::{LoadOptions, load};
use forebay::dataset::{Dataset, Format, OpenOptions, open};
use forebay::pack::{PackOptions, pack};
use forebay::{BuildError, Carrier, CarrierBuilder, Device, Error, Loader, LoaderBuilder, Reader, ReaderBuilder};

use crate::common::folder;
use crate::common::watchdog::guarded;
use crate::stream::{drained, records};

fn loader(dataset: &Arc<dyn Dataset>) -> LoaderBuilder {
    Loader::builder(Arc::clone(dataset)).workers(1).budget(2 << 20).batch_size(4)
}

#[test]
fn a_setting_out_of_range_is_an_error_that_names_it_and_its_range() {
    let folder = folder();
    let dataset = records(folder.path(), "x.rec", 64, 40);
    let path = folder.path().join("x.rec");
    let loaders: [(&str, LoaderBuilder); 6] = [
        ("workers = 1025 is out of range; give 0 to 1024", loader(&dataset).workers(1025)),
        ("workers = 4294967296 is out of range; give 0 to 1024", loader(&dataset).workers(1 << 32)),
        ("workers = 18446744073709551615 is out of range", loader(&dataset).workers(usize::MAX)),
        ("batch", loader(&dataset).batch_size(0)),
        ("budget of 0 bytes is less than a page", loader(&dataset).budget(0)),
        ("budget", loader(&dataset).budget(u64::MAX)),
    ];
    for (want, builder) in loaders {
        let error = builder.build().map(drop).unwrap_err().to_string();
        assert!(error.contains(want), "no {want}: {error}");
    }
    let reader = || Reader::builder().budget(1 << 20);
    let readers: [(&str, ReaderBuilder); 11] = [
        ("depth = 0 is out of range; give 1 to 4096", reader().depth(0)),
        ("depth = 4097", reader().depth(4097)),
        ("depth = 4294967295", reader().depth(u32::MAX)),
        ("rings = 0 is out of range; give 1 to 64", reader().rings(0)),
        ("rings = 65", reader().rings(65)),
        ("rings = 4294967295", reader().rings(u32::MAX)),
        ("chunk = 0 is out of range; give a multiple of 65536 up to 1073741824", reader().chunk(0)),
        ("chunk = 1 ", reader().chunk(1)),
        ("chunk = 18446744073709551615", reader().chunk(u64::MAX)),
        ("budget of 0 bytes", reader().budget(0)),
        ("budget", reader().budget(u64::MAX)),
    ];
    for (want, builder) in readers {
        let error: BuildError = builder.build().map(drop).unwrap_err();
        assert!(error.to_string().contains(want), "no {want}: {error}");
    }
    let carrier = || Carrier::builder().budget(1 << 20);
    let carriers: [(&str, CarrierBuilder); 5] = [
        ("chunk = 0 is out of range; give 4096 to 1073741824", carrier().chunk(0)),
        ("chunk = 4095", carrier().chunk(4095)),
        ("chunk = 18446744073709551615", carrier().chunk(u64::MAX)),
        ("budget of 0 bytes", carrier().budget(0)),
        ("budget", carrier().budget(u64::MAX)),
    ];
    for (want, builder) in carriers {
        let error = builder.build().map(drop).unwrap_err();
        assert!(error.to_string().contains(want), "no {want}: {error}");
    }
    let records = || OpenOptions::new().format(Format::Records);
    let tokens = || OpenOptions::new().format(Format::Tokens);
    let options: [(&str, OpenOptions); 6] = [
        ("record", records().record_bytes(0)),
        ("record", records().record_bytes(u64::MAX)),
        ("the sequence length is 0", tokens().seq_len(0)),
        ("", tokens().seq_len(u64::MAX)),
        ("stride", tokens().seq_len(4).stride(0)),
        ("", tokens().seq_len(u64::MAX).stride(u64::MAX)),
    ];
    for (want, options) in options {
        // Windows that are longer than the data are none, which the loader says.
        let error = match open(&[&path], &options) {
            Ok(dataset) => Loader::builder(dataset).build().map(drop).unwrap_err(),
            Err(error) => Error::from(error),
        };
        assert!(error.to_string().contains(want), "no {want}: {error}");
    }
    let packed = pack(&dataset, &folder.path().join("out"), &PackOptions::new().shard_bytes(0)).unwrap_err();
    assert!(packed.to_string().contains("shards of 0 bytes"), "{packed}");

    let model = folder.path().join("x.safetensors");
    let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}   "#;
    std::fs::write(&model, [&(header.len() as u64).to_le_bytes()[..], header, b"abc"].concat()).unwrap();
    let axis = |_: &forebay::dataset::TensorSpec| Some(0);
    for (want, options) in [
        ("budget", LoadOptions::new().budget(0)),
        ("rank", LoadOptions::new().tensor_parallel(0, 0, axis)),
        ("rank", LoadOptions::new().tensor_parallel(u64::MAX, 3, axis)),
    ] {
        let error = load(&model, &Device::host(), &options).map(drop).unwrap_err().to_string();
        assert!(error.contains(want), "no {want}: {error}");
    }
}

#[test]
fn settings_that_have_no_bound_work_at_the_ends_of_their_types() {
    let folder = folder();
    let dataset = records(folder.path(), "x.rec", 64, 40);
    let reading = |reader: ReaderBuilder| loader(&dataset).carrier(Carrier::builder().reader(reader));
    let builders = [
        ("prefetch 0", loader(&dataset).prefetch(0)),
        ("prefetch", loader(&dataset).prefetch(usize::MAX)),
        ("skip_corrupt", loader(&dataset).skip_corrupt(u64::MAX)),
        ("batch_size", loader(&dataset).batch_size(u64::MAX)),
        ("seed", loader(&dataset).seed(u64::MAX)),
        ("device_budget", loader(&dataset).device_budget(u64::MAX)),
        ("device_budget 0", loader(&dataset).device_budget(0)),
        ("warn_after", loader(&dataset).warn_after(Duration::MAX)),
        ("warn_after 0", loader(&dataset).warn_after(Duration::ZERO)),
        ("deadline", loader(&dataset).deadline(Duration::MAX)),
        ("coalesce_gap", reading(Reader::builder().coalesce_gap(u64::MAX))),
        ("sqpoll", reading(Reader::builder().sqpoll(Some(Duration::MAX)))),
        ("sqpoll 0", reading(Reader::builder().sqpoll(Some(Duration::ZERO)))),
    ];
    for (what, builder) in builders {
        let mut loader = builder.build().unwrap_or_else(|error| panic!("{what}: {error}"));
        let (got, error) = guarded(what, move || drained(&mut loader));
        assert!(error.is_none(), "{what}: {error:?}");
        assert_eq!(got.iter().map(|batch| batch.indices.len()).sum::<usize>(), 40, "{what}");
    }
    let mut endless = loader(&dataset).epochs(u64::MAX).build().unwrap();
    let got = guarded("epochs", move || endless.blocking().take(30).filter(Result::is_ok).count());
    assert_eq!(got, 30);
    let out = folder.path().join("out");
    assert_eq!(pack(&dataset, &out, &PackOptions::new().shard_bytes(u64::MAX)).unwrap().samples, 40);
}
