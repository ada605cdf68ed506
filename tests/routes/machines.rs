//! Machines without a usable device: each says what is wrong and what to do about it.
use forebay::{Device, DeviceError, DeviceFault, DeviceKind, NoCudaLibrary};

use crate::common::emulated::{Emulated, clean};
use crate::common::emulator::NAMES;

fn refused(ordinal: usize) -> DeviceError {
    let error = Device::cuda(ordinal).unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with(&format!("cuda:{ordinal}: ")) && said.contains("; "), "no fix is named: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // It says so and takes the host.
    if ordinal == 0 {
        assert_eq!(Device::auto().kind(), DeviceKind::Host);
    }
    error
}

fn code_of(error: &DeviceError) -> i32 {
    match &error.fault {
        DeviceFault::Call { code } => code.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_driver_library() {
    Emulated::new("").names(&[]).run_without(|| {
        let error = refused(0);
        assert!(matches!(error.fault, DeviceFault::NoLibrary(NoCudaLibrary::Missing(_))), "{error:?}");
        assert!(error.to_string().contains("libcuda.so.1"), "{error}");
        assert!(Device::count_cuda().is_err());
    });
}

/// What packages install; the name without a number comes with development packages only.
#[test]
fn a_driver_library_under_its_first_name_alone() {
    Emulated::new("").names(&NAMES[1..]).run(|control| {
        assert_eq!(Device::cuda(0).unwrap().name(), "Emulated GPU 0");
        control.assert_clean();
    });
}

#[test]
fn a_driver_library_under_its_other_name_alone() {
    Emulated::new("").names(&NAMES[..1]).run_without(|| {
        assert_eq!(Device::cuda(0).unwrap().name(), "Emulated GPU 0");
    });
}

#[test]
fn a_driver_that_sees_no_device() {
    clean("devices=0", |_| {
        let error = refused(0);
        assert_eq!(error.fault, DeviceFault::NoDevice { visible: None });
        assert_eq!(Device::count_cuda(), Ok(0));
    });
}

#[test]
fn no_device_made_visible() {
    Emulated::new("").env("CUDA_VISIBLE_DEVICES", "").run(|control| {
        let error = refused(0);
        assert_eq!(error.fault, DeviceFault::NoDevice { visible: Some(String::new()) });
        assert!(error.to_string().contains("CUDA_VISIBLE_DEVICES"), "{error}");
        control.assert_clean();
    });
}

#[test]
fn a_device_made_visible_that_there_is_not() {
    Emulated::new("").env("CUDA_VISIBLE_DEVICES", "-1").run(|control| {
        let error = refused(0);
        assert_eq!(error.fault, DeviceFault::NoDevice { visible: Some("-1".into()) });
        assert!(error.to_string().contains("-1"), "{error}");
        control.assert_clean();
    });
}

#[test]
fn the_second_device_made_visible_alone_is_the_first() {
    Emulated::new("").env("CUDA_VISIBLE_DEVICES", "1").run(|control| {
        let device = Device::cuda(0).unwrap();
        assert_eq!((device.name(), device.to_string()), ("Emulated GPU 1", "cuda:0".into()));
        assert_eq!(device.pci_address(), Some("0000:42:00.0"));
        let error = refused(1);
        assert_eq!(error.fault, DeviceFault::NoSuchDevice { count: 1, visible: Some("1".into()) });
        drop(device);
        control.assert_clean();
    });
}

#[test]
fn an_ordinal_that_there_is_not() {
    clean("devices=2", |_| {
        for ordinal in [2, 7, 1 << 20, usize::MAX] {
            let error = refused(ordinal);
            assert_eq!(error.fault, DeviceFault::NoSuchDevice { count: 2, visible: None });
            assert!(error.to_string().contains("sees 2"), "{error}");
        }
        assert_eq!(Device::count_cuda(), Ok(2));
        assert_eq!(Device::auto().to_string(), "cuda:0");
    });
}

#[test]
fn a_stub_library() {
    clean("no_init=34", |_| {
        let error = refused(0);
        assert_eq!(code_of(&error), 34);
        let said = error.to_string();
        assert!(said.contains("CUDA_ERROR_STUB_LIBRARY") && said.contains("stubs"), "{said}");
    });
}

#[test]
fn a_driver_that_does_not_fit_its_module() {
    clean("no_init=803", |_| {
        let error = refused(0);
        assert_eq!(code_of(&error), 803);
        assert!(error.to_string().contains("reboot"), "{error}");
    });
}

#[test]
fn a_code_that_the_driver_has_no_name_for() {
    clean("no_init=4711", |_| {
        let error = refused(0);
        assert_eq!(code_of(&error), 4711);
        assert!(error.to_string().contains("4711"), "{error}");
    });
}

#[test]
fn a_context_that_cannot_be_had() {
    clean("fail=cuDevicePrimaryCtxRetain:2", |control| {
        let error = refused(0);
        assert_eq!(code_of(&error), 2);
        assert!(error.to_string().contains("cuDevicePrimaryCtxRetain"), "{error}");
        control.script("clear");
        assert!(Device::cuda(0).is_ok());
    });
}
