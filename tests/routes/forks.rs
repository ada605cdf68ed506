//! A forked child: CUDA does not survive that. Every call says so, and dropping what the parent has made takes no time.
use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay::{CarryError, CarryFault, Device, DeviceFault, Extent, Placed, ReadFault};
use nix::libc;

use crate::common::emulated::clean;
use crate::rig::{Files, check, ways, whole, works};

/// Runs `work` in a forked child, and wants it to end well within ten seconds.
fn forked(what: &str, work: impl FnOnce()) {
    // SAFETY: the child runs `work`, which takes no lock that threads of the parent hold, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: plain calls; a child that hangs is ended by the alarm.
        unsafe {
            libc::alarm(10);
            let well = catch_unwind(AssertUnwindSafe(work)).is_ok();
            libc::_exit(if well { 0 } else { 1 });
        }
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{what}: the child ended with {status:#x}");
}

fn is_forked(error: &CarryError) {
    let CarryFault::Device(device) = &error.fault else { panic!("{error:?}") };
    assert_eq!(device.fault, DeviceFault::Forked);
    assert!(error.to_string().contains("fork"), "{error}");
}

#[test]
fn nothing_works_in_a_forked_child_and_everything_says_so() {
    clean("", |_| {
        let files = Files::one(1 << 20);
        for (way, builder) in ways() {
            let device = Device::cuda(0).unwrap();
            let carrier = builder.build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            let landed = carrier.carry_blocking(&[whole(&file)]).unwrap();
            let buffer = device.allocate(1 << 20).unwrap();
            forked(&way, || {
                let error = carrier.carry_blocking(&[whole(&file)]).unwrap_err();
                is_forked(&error);
                assert_eq!((error.path, error.offset), (files.paths[0].clone(), 0));
                assert!(carrier.carry_blocking(&[]).unwrap().is_empty(), "nothing is no work for the device");
                let error = carrier.reader().read_blocking(&[Extent::new(&file, 0, 9)]).unwrap_err();
                assert!(matches!(error.fault, ReadFault::Forked), "{error:?}");
                assert_eq!(landed.to_host(0).unwrap_err().fault, DeviceFault::Forked);
                assert_eq!(device.memory().unwrap_err().fault, DeviceFault::Forked);
                assert!(Device::cuda(0).is_err());
                let mut landed = landed;
                assert!(landed.used_on(&device.context().unwrap().default_stream()).is_err());
                let (carried, buffer) = carrier.carry_into(buffer, &[Placed::new(whole(&file), 0)]).wait();
                is_forked(&carried.unwrap_err());
                assert!(device.allocate(4096).is_err());
                drop((landed, buffer, carrier.carry(&[whole(&file)]), file, carrier, device));
            });
        }
    });
}

/// With carries in flight in the parent, which go on there.
#[test]
fn a_fork_in_the_midst_of_it_harms_neither() {
    clean("jitter_us=3000", |_| {
        let files = Files::one(4 << 20);
        for (way, builder) in ways() {
            let carrier = builder.build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            let carry = carrier.carry(&[whole(&file)]);
            let other = carrier.carry(&[whole(&file)]);
            let buffer = carrier.device().allocate(4 << 20).unwrap();
            let placed = carrier.carry_into(buffer, &[Placed::new(whole(&file), 0)]);
            let awaited = carrier.carry(&[whole(&file)]);
            forked(&way, || {
                is_forked(&awaited.wait().unwrap_err());
                drop((other, placed, file, carrier));
            });
            check(&carry.wait().unwrap(), &[(0, 0, 4 << 20)]);
        }
    });
}

#[test]
fn the_parent_goes_on() {
    clean("", |_| {
        let files = Files::one(1 << 20);
        let carriers: Vec<_> = ways().into_iter().map(|(_, builder)| builder.build().unwrap()).collect();
        forked("all", || drop(carriers.clone()));
        carriers.iter().for_each(|carrier| works(carrier, &files));
    });
}
