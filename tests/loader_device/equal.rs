//! Bytes, order and counts of every route are those of plain reads, and of the host.
use std::time::Duration;

use forebay::{Device, LoaderBuilder, Ragged, Remainder, World};

use crate::common::emulated::Emulated;
use crate::common::emulator::Control;
use crate::data::{self, Data};
use crate::rig::{Flip, Look, Way, any_rows, builder, check, direct, facts, settle};

/// Loads all by one way and looks at it; what a batch is must be what it is on the host.
fn load(control: &Control, data: &Data, way: &Way, flips: bool, set: impl Fn(LoaderBuilder) -> LoaderBuilder) {
    control.script(way.script);
    data.cool();
    let set = |loader: LoaderBuilder| set(if flips { loader.map(Flip) } else { loader });
    let mut loader = set(builder(data)).carrier(way.carrier.clone()).build().unwrap();
    let mut host = set(builder(data)).device(&Device::host()).build().unwrap();
    let mut host = host.blocking();
    let what = format!("{}, {}, transformed: {flips}", data.name, way.name);
    let (mut batches, mut bytes) = (0, 0);
    for batch in loader.blocking() {
        let batch = batch.unwrap_or_else(|error| panic!("{what}: {error}"));
        check(data, &batch, flips, Look::Fetch);
        assert_eq!(facts(&batch), facts(&host.next().unwrap().unwrap()), "{what}");
        (batches, bytes) = (batches + 1, bytes + batch.bytes());
    }
    assert!(host.next().is_none(), "{what}: batches are missing");
    let stats = loader.stats();
    assert_eq!((stats.batches, stats.bytes, stats.routes.total()), (batches, bytes, bytes), "{what}: {}", stats.routes);
    let routes = stats.routes;
    match way.route {
        Some(forebay::Route::Direct) if way.is_compat() => assert_eq!(routes.direct_compat, bytes, "{what}: {routes}"),
        Some(forebay::Route::Direct) => assert_eq!(routes.direct, bytes, "{what}: {routes}"),
        Some(forebay::Route::Bounce) => assert_eq!(routes.bounce, bytes, "{what}: {routes}"),
        Some(forebay::Route::Cached) => assert_eq!(routes.cached, bytes, "{what}: {routes}"),
        // What the processor works on does not go past it, and what lies in blocks does where it can.
        _ if flips || way.is_compat() => assert_eq!(routes.direct, 0, "{what}: {routes}"),
        _ if data.name == "aligned" => assert_eq!(routes.direct, bytes, "{what}: {routes}"),
        _ => {}
    }
}

fn emulated(script: &str) -> Emulated {
    Emulated::new(script).patience(Duration::from_secs(120))
}

#[test]
fn every_route_brings_every_kind_of_data_as_it_is() {
    emulated("jitter_us=30").run(|control| {
        for data in data::all() {
            any_rows().iter().for_each(|way| load(control, &data, way, false, |loader| loader));
        }
        settle(control);
    });
}

#[test]
fn every_route_brings_what_a_transform_makes() {
    emulated("jitter_us=30").run(|control| {
        for data in data::all() {
            any_rows().iter().for_each(|way| load(control, &data, way, true, |loader| loader.workers(3)));
            load(control, &data, &any_rows()[0], true, |loader| loader.workers(0));
        }
        settle(control);
    });
}

#[test]
fn rows_of_whole_blocks_come_by_cufile_alone() {
    emulated("jitter_us=30; cufile_late_us=50").run(|control| {
        let data = data::aligned();
        for way in direct() {
            for size in [1, 8, 13, 200] {
                load(control, &data, &way, false, |loader| loader.batch_size(size).epochs(2));
            }
        }
        settle(control);
    });
}

#[test]
fn rows_of_different_lengths_are_padded() {
    emulated("jitter_us=30").run(|control| {
        for data in [data::tar(), data::tfrecord(), data::odd()] {
            for way in any_rows() {
                load(control, &data, &way, false, |loader| loader.ragged(Ragged::Padded));
            }
            load(control, &data, &any_rows()[2], true, |loader| loader.ragged(Ragged::Padded));
        }
        settle(control);
    });
}

/// The last batch of an epoch, of one rank of several, that repeats samples or has fewer.
#[test]
fn ranks_and_epochs_with_a_remainder() {
    emulated("jitter_us=30").run(|control| {
        for data in [data::odd(), data::tar(), data::aligned()] {
            for remainder in [Remainder::Drop, Remainder::Pad, Remainder::Uneven] {
                let set = |loader: LoaderBuilder| {
                    loader.remainder(remainder).world(World::new(1, 3).unwrap()).epochs(3).batch_size(9)
                };
                load(control, &data, &any_rows()[0], false, set);
                load(control, &data, &any_rows()[2], data.name == "odd", set);
            }
        }
        settle(control);
    });
}

/// What is in the page cache is taken from there, and counted so.
#[test]
fn warm_files_are_read_through_the_page_cache() {
    emulated("").run(|control| {
        let data = data::aligned();
        for path in data.paths() {
            let len = path.metadata().unwrap().len();
            crate::common::data::warm_cache(path, 0..len).unwrap();
        }
        let mut loader = builder(&data).build().unwrap();
        for batch in loader.blocking() {
            check(&data, &batch.unwrap(), false, Look::Fetch);
        }
        let stats = loader.stats();
        assert_eq!(stats.routes.total(), stats.bytes);
        assert!(stats.routes.cached > stats.bytes / 2, "{}", stats.routes);
        settle(control);
    });
}
