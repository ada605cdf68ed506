//! Memory on the host: what does not fit is refused before the first read, with the numbers, and never waited for.
use forebay::checkpoint::{CheckpointError, LoadOptions, load};
use forebay::{Carrier, Device, Extent};
use safetensors::Dtype;

use crate::common::watchdog::guarded;
use crate::common::weights::Tensor;
use crate::model::{Model, check, mixed};
use crate::shares;

fn host() -> Device {
    Device::host()
}

fn no_room(error: CheckpointError) -> (u64, u64, u64) {
    let said = error.to_string();
    let CheckpointError::NoRoom { need, free, budget } = error else { panic!("{said}") };
    (need, free, budget)
}

#[test]
fn a_budget_below_what_is_needed_is_refused_with_the_numbers_and_that_much_is_enough() {
    let model = shares::divisible();
    let oracle = model.oracle();
    let cases = [
        (LoadOptions::new(), oracle.clone()),
        (shares::options(0, 1, 2), shares::wanted(&oracle, 0, 1, 2)),
        (shares::options(1, 1, 2), shares::wanted(&oracle, 1, 1, 2)),
        (shares::options(2, 2, 3), shares::wanted(&oracle, 2, 2, 3)),
    ];
    for (options, wanted) in cases {
        let bytes: u64 = wanted.iter().map(|seen| seen.3.len() as u64).sum();
        let (need, free, budget) = no_room(load(model.path(), &host(), &options.clone().budget(4096)).unwrap_err());
        assert_eq!((free, budget), (4096, 4096));
        assert!((bytes..bytes + (20 << 20)).contains(&need), "{need} for {bytes}");
        assert_eq!(no_room(load(model.path(), &host(), &options.clone().budget(need - 1)).unwrap_err()).0, need);
        check(&load(model.path(), &host(), &options.budget(need)).unwrap(), &wanted);
    }
}

#[test]
fn a_carrier_without_room_is_refused_and_reads_nothing() {
    let model = Model::of(&[vec![Tensor::new("w", Dtype::U8, &[3 << 20], 1)], mixed("b.", 2)]);
    let oracle = model.oracle();
    let carrier = Carrier::builder().device(&host()).budget(2 << 20).build().unwrap();
    let options = LoadOptions::new().with(&carrier);
    let (need, free, budget) = no_room(load(model.path(), &host(), &options).unwrap_err());
    assert!(need > 3 << 20 && free == 2 << 20 && budget == 2 << 20);
    assert_eq!(carrier.reader().stats().answers, 0);
    // While the first is held there is no room for a second; then there is.
    let carrier = Carrier::builder().device(&host()).budget(5 << 20).build().unwrap();
    let options = LoadOptions::new().with(&carrier);
    let first = load(model.path(), &host(), &options).unwrap();
    let before = carrier.reader().stats();
    let (_, free, budget) = no_room(load(model.path(), &host(), &options).unwrap_err());
    assert!(free < budget && budget == 5 << 20);
    assert_eq!(carrier.reader().stats(), before);
    check(&first, &oracle);
    drop(first);
    check(&load(model.path(), &host(), &options).unwrap(), &oracle);
}

/// Free in all, and nowhere in one piece: a read would wait for what only this thread can give back.
#[test]
fn memory_that_is_free_in_small_pieces_is_refused_and_not_waited_for() {
    let model = Model::of(&[vec![Tensor::new("w", Dtype::U8, &[3 << 19], 1)]]);
    let carrier = Carrier::builder().device(&host()).budget(6 << 20).build().unwrap();
    let file = carrier.open(&model.files[0]).unwrap();
    let held = (0..5).map(|_| carrier.carry_blocking(&[Extent::new(&file, 0, 1 << 20)]).unwrap());
    let mut held: Vec<_> = held.map(Some).collect();
    (held[1], held[3]) = (None, None);
    let before = carrier.reader().stats();
    guarded("load", move || {
        let options = LoadOptions::new().with(&carrier);
        let error = load(&model.files[0], &Device::host(), &options).unwrap_err();
        let said = error.to_string();
        let CheckpointError::Scattered { need, free, budget } = error else { panic!("{said}") };
        assert!(3 << 19 <= need && need <= free && free < budget && budget == 6 << 20, "{said}");
        assert_eq!(carrier.reader().stats(), before);
        drop(held);
        check(&load(&model.files[0], &Device::host(), &options).unwrap(), &model.oracle());
    });
}

/// The share is put together in memory of its own, through memory that the rest leaves free.
#[test]
fn shares_through_a_carrier_that_is_nearly_full_are_refused_and_not_waited_for() {
    let model = Model::of(&[vec![
        Tensor::new("cut", Dtype::U8, &[64, 2, 8192], 1),
        Tensor::new("whole", Dtype::U8, &[3 << 20], 2),
    ]]);
    let oracle = model.oracle();
    let wanted: Vec<_> = oracle.iter().map(|seen| shares::share(seen, (seen.0 == "cut").then_some(1), 1, 2)).collect();
    guarded("load", move || {
        for extra in [0_u64, 4096, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 6 << 20] {
            let budget = (3 << 20) + 8192 + extra;
            let carrier = Carrier::builder().device(&Device::host()).budget(budget).build().unwrap();
            let options =
                LoadOptions::new().with(&carrier).tensor_parallel(1, 2, |spec| (&*spec.name == "cut").then_some(1));
            match load(model.path(), &Device::host(), &options) {
                Ok(loaded) => check(&loaded, &wanted),
                Err(error) => {
                    assert!(no_room(error).0 > budget && extra < 6 << 20);
                    assert_eq!(carrier.reader().stats().answers, 0);
                }
            }
        }
    });
}
