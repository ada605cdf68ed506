//! What only the inside of the crate can bring about.

use crate::route::{Carrier, NoRoute, Route};
use crate::storage::{Extent, NoDirect};

/// A drive or a file system may refuse direct reads of a file that it let be opened for them.
#[test]
fn a_file_that_loses_its_direct_reads_has_another_route() {
    let bounce = Carrier::builder().budget(1 << 20).build().unwrap();
    let file = bounce.open("Cargo.toml").unwrap();
    if file.direct().is_err() {
        crate::skipped::skipped("no direct reads here");
        return;
    }
    assert_eq!(bounce.decision(&file).unwrap().chosen, Route::Bounce);
    let forced = Carrier::builder().budget(1 << 20).route(Route::Bounce).build().unwrap();
    let alike = forced.open("Cargo.toml").unwrap();
    let reason = NoDirect::Read(22);
    file.degrade(reason.clone());
    alike.degrade(reason.clone());
    let decision = bounce.decision(&file).unwrap();
    assert_eq!(decision.chosen, Route::Cached);
    assert_eq!(decision.why_not(Route::Bounce), Some(&NoRoute::NoDirectIo(reason)));
    let landed = bounce.carry_blocking(&[Extent::new(&file, 0, 9)]).unwrap();
    assert_eq!((landed.to_host(0).unwrap(), landed.carried().cached), (b"[package]".to_vec(), 9));
    assert!(forced.decision(&alike).is_none());
}
