//! Which route is taken, and why not the others: each reason has its words and its fix, and what is carried is counted on
//! the route that was taken.
use forebay::{
    Carrier, CarrierBuilder, CarryError, CarryFault, Decision, Device, DirectForm, File, NoDirect, NoRoute, Route,
    RouteBytes, Switch,
};

use crate::common::emulated::{Emulated, clean};
use crate::common::emulator::NAMES;
use crate::common::{data, mounts};
use crate::or_skip;
use crate::rig::{FORMS, Files, builder, builder_on, check, whole};

const LEN: u64 = 500_000;

/// What is decided where nothing is forced; carries the file, and looks at where its bytes were counted.
fn decided(builder: CarrierBuilder, files: &Files) -> (Decision, RouteBytes) {
    files.cool();
    let carrier = builder.build().unwrap();
    let file = carrier.open(&files.paths[0]).unwrap();
    let decision = carrier.decision(&file).unwrap();
    assert_eq!(decision.rejected.len(), 2);
    for rejected in &decision.rejected {
        let (why, fix) = (rejected.reason.to_string(), rejected.fix());
        assert!(!why.is_empty() && !fix.is_empty() && why.lines().count() == 1, "{rejected:?}");
    }
    let landed = carrier.carry_blocking(&[whole(&file)]).unwrap();
    check(&landed, &[(0, 0, file.len())]);
    (decision, landed.carried())
}

fn why_not_direct(builder: CarrierBuilder, files: &Files) -> NoRoute {
    let (decision, carried) = decided(builder, files);
    assert_ne!(decision.chosen, Route::Direct);
    assert_eq!((carried.direct, carried.direct_compat), (0, 0));
    decision.why_not(Route::Direct).unwrap().clone()
}

/// The route is asked for and cannot be had: the error says why, in the same words, and what to do.
fn refused(builder: CarrierBuilder, files: &Files) -> NoRoute {
    let carrier = builder.route(Route::Direct).build().unwrap();
    let error: CarryError = carrier.open(&files.paths[0]).unwrap_err();
    let said = error.to_string();
    let CarryFault::NoRoute { route: Route::Direct, reason } = error.fault else { panic!("{said}") };
    assert_eq!(error.path, files.paths[0]);
    assert!(said.contains(&reason.to_string()) && said.contains(&reason.fix()), "{said}");
    reason
}

#[test]
fn direct_where_it_can_be_had() {
    clean("", |_| {
        let files = Files::one(LEN);
        for form in FORMS {
            let (decision, carried) = decided(builder().direct_form(form), &files);
            assert_eq!((decision.chosen, carried.direct), (Route::Direct, LEN));
            for route in [Route::Bounce, Route::Cached] {
                assert_eq!(decision.why_not(route), Some(&NoRoute::Outranked(Route::Direct)));
            }
        }
    });
}

#[test]
fn by_way_of_nvidia_fs_it_is_direct_too() {
    clean("cufile_path=nvfs", |_| {
        let (decision, carried) = decided(builder(), &Files::one(LEN));
        assert_eq!((decision.chosen, carried.direct), (Route::Direct, LEN));
    });
}

/// What the page cache holds already takes the route `cached`, where that is allowed.
#[test]
fn warm_pages_are_not_read_from_the_drive() {
    clean("", |_| {
        let files = Files::one(LEN);
        for (allowed, builder) in [(true, builder()), (false, builder().cached(Switch::Off))] {
            let carrier = builder.build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            data::warm_cache(&files.paths[0], 0..LEN).unwrap();
            let landed = carrier.carry_blocking(&[whole(&file)]).unwrap();
            check(&landed, &[(0, 0, LEN)]);
            let carried = landed.carried();
            assert_eq!((carried.cached, carried.direct), if allowed { (LEN, 0) } else { (0, LEN) });
        }
    });
}

#[test]
fn the_compatibility_mode_is_not_direct() {
    clean("cufile_path=compat", |_| {
        let files = Files::one(LEN);
        for form in FORMS {
            let why = why_not_direct(builder().direct_form(form), &files);
            assert!(matches!(why, NoRoute::CompatOnly { .. }), "{why:?}");
            assert!(why.to_string().contains("compatibility mode"), "{why}");
            // Asked for, it is carried all the same, and called what it is.
            let (decision, carried) = decided(builder().direct_form(form).route(Route::Direct), &files);
            assert_eq!((decision.chosen, carried.direct, carried.direct_compat), (Route::Direct, 0, LEN));
            assert!(carried.by_name().eq([("direct (compat)", LEN)]));
        }
    });
}

/// Without counts of its own cuFile's settings tell.
#[test]
fn the_compatibility_mode_of_a_cufile_that_counts_nothing_is_not_direct() {
    clean("cufile_path=compat; cufile_no_stats", |_| {
        let files = Files::one(LEN);
        let why = why_not_direct(builder(), &files);
        assert!(matches!(why, NoRoute::CompatOnly { .. }), "{why:?}");
        let (_, carried) = decided(builder().route(Route::Direct), &files);
        assert_eq!((carried.direct, carried.direct_compat), (0, LEN));
    });
}

#[test]
fn no_compatibility_mode_and_no_direct_path() {
    clean("cufile_path=compat; cufile_no_compat", |_| {
        let files = Files::one(LEN);
        let why = why_not_direct(builder(), &files);
        let wanted = matches!(why, NoRoute::FileRefused { .. } | NoRoute::Unreadable(_) | NoRoute::CuFileRefuses(_));
        assert!(wanted, "{why:?}");
        assert_eq!(refused(builder(), &files), why);
    });
}

#[test]
fn no_cufile_library() {
    Emulated::new("").names(&NAMES[..2]).run(|control| {
        let files = Files::one(LEN);
        for form in FORMS {
            let why = why_not_direct(builder().direct_form(form), &files);
            assert!(matches!(&why, NoRoute::NoCuFile(said) if said.contains("libcufile.so.0")), "{why:?}");
            assert_eq!(refused(builder().direct_form(form), &files), why);
        }
        control.assert_clean();
    });
}

#[test]
fn a_cufile_that_does_not_open() {
    clean("cufile_open=5012", |_| {
        let files = Files::one(LEN);
        let why = why_not_direct(builder(), &files);
        assert!(matches!(&why, NoRoute::CuFileRefuses(refusal) if refusal.code.0 == 5012), "{why:?}");
        assert_eq!(refused(builder(), &files), why);
    });
}

#[test]
fn device_memory_that_cufile_does_not_take() {
    clean("cufile_pinned_max=1MiB", |_| {
        let files = Files::one(LEN);
        let why = why_not_direct(builder(), &files);
        assert!(matches!(&why, NoRoute::MemoryRefused(said) if said.contains("16 MiB")), "{why:?}");
        assert_eq!(refused(builder(), &files), why);
    });
}

#[test]
fn a_file_that_cufile_does_not_take() {
    clean("fail=cuFileHandleRegister:5027", |_| {
        let files = Files::one(LEN);
        let why = why_not_direct(builder(), &files);
        assert!(matches!(&why, NoRoute::FileRefused { refusal, .. } if refusal.code.0 == 5027), "{why:?}");
        assert_eq!(refused(builder(), &files), why);
    });
}

#[test]
fn a_first_read_that_fails() {
    clean("fail=cuFileRead:5030", |_| {
        let files = Files::one(LEN);
        let why = why_not_direct(builder(), &files);
        assert!(matches!(&why, NoRoute::Unreadable(said) if said.contains("5030")), "{why:?}");
        assert_eq!(refused(builder(), &files), why);
    });
}

#[test]
fn a_cufile_without_the_form_that_was_asked_for() {
    clean("cufile_no_batch; cufile_no_async", |_| {
        let files = Files::one(LEN);
        for form in [DirectForm::Batch, DirectForm::Stream] {
            let carrier = builder().direct_form(form).build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            let decision = carrier.decision(&file).unwrap();
            assert_eq!(decision.chosen, Route::Bounce, "{form:?}: {decision:?}");
        }
        assert_eq!(decided(builder(), &files).0.chosen, Route::Direct);
    });
}

#[test]
fn a_file_system_without_direct_reads() {
    clean("", |_| {
        let mounted = or_skip!(mounts::tmpfs());
        let path = mounted.dir.join("file");
        data::write_dense(&path, 0, LEN).unwrap();
        let carrier = builder().build().unwrap();
        let file = carrier.open(&path).unwrap();
        let decision = carrier.decision(&file).unwrap();
        assert_eq!(decision.chosen, Route::Cached);
        for route in [Route::Direct, Route::Bounce] {
            assert_eq!(decision.why_not(route), Some(&NoRoute::NoDirectIo(NoDirect::InMemory)));
        }
        let landed = carrier.carry_blocking(&[whole(&file)]).unwrap();
        assert_eq!(landed.carried().cached, LEN);
        assert!(builder().route(Route::Bounce).build().unwrap().open(&path).is_err());
    });
}

#[test]
fn routes_switched_off_and_on() {
    clean("", |_| {
        let files = Files::one(LEN);
        let (decision, carried) = decided(builder().direct(Switch::Off), &files);
        assert_eq!((decision.chosen, carried.bounce), (Route::Bounce, LEN));
        assert_eq!(decision.why_not(Route::Direct), Some(&NoRoute::TurnedOff));
        for route in [Route::Direct, Route::Bounce, Route::Cached] {
            let (decision, carried) = decided(builder().route(route), &files);
            assert_eq!(decision.chosen, route);
            assert!(decision.rejected.iter().all(|rejected| rejected.reason == NoRoute::OtherForced(route)));
            let named: Vec<(String, u64)> = carried.by_name().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
            assert_eq!(named, [(route.to_string(), LEN)]);
        }
        let off = builder().direct(Switch::Off).bounce(Switch::Off).cached(Switch::Off);
        assert!(off.build().is_err());
        assert!(builder().direct(Switch::On).cached(Switch::On).build().is_err());
    });
}

#[test]
fn on_the_host_direct_is_no_route() {
    clean("", |_| {
        let files = Files::one(LEN);
        let why = why_not_direct(builder_on(&Device::host()), &files);
        assert_eq!(why, NoRoute::HostDevice);
        assert_eq!(refused(builder_on(&Device::host()), &files), why);
    });
}

/// The sum over all that a carrier carried.
#[test]
fn a_carrier_counts_what_it_delivered() {
    clean("", |_| {
        let files = Files::new(&[LEN, LEN]);
        let carrier: Carrier = builder().build().unwrap();
        let opened: Vec<File> = files.open(&carrier);
        data::warm_cache(&files.paths[1], 0..LEN).unwrap();
        for file in &opened {
            carrier.carry_blocking(&[whole(file)]).unwrap();
        }
        assert!(carrier.carry_blocking(&[forebay::Extent::new(&opened[0], LEN, 1)]).is_err());
        let carried = carrier.carried();
        assert_eq!((carried.direct, carried.cached, carried.total()), (LEN, LEN, 2 * LEN));
    });
}
