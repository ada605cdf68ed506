//! What the devices say of themselves, and how the script and the environment choose them.
use crate::or_skip;
use crate::rig::*;

fn text(fill: impl FnOnce(*mut std::ffi::c_char, i32) -> i32) -> String {
    let mut bytes = [0u8; 64];
    assert_eq!(fill(bytes.as_mut_ptr().cast(), 64), 0);
    std::ffi::CStr::from_bytes_until_nul(&bytes).unwrap().to_str().unwrap().to_owned()
}

#[test]
fn devices_are_as_scripted() {
    under("devices=3; memory=1GiB; pci=0000:41:00.0,0001:c3:00.0; attributes=116:0", |rig| {
        let (mut count, mut bytes, mut value) = (0, 0, -1);
        assert_eq!((rig.cuDeviceGetCount(&mut count), count), (0, 3));
        assert_eq!((rig.cuDeviceTotalMem_v2(&mut bytes, 2), bytes), (0, 1 << 30));
        let pci: Vec<String> = (0..3).map(|n| text(|to, len| rig.cuDeviceGetPCIBusId(to, len, n))).collect();
        assert_eq!(pci, ["0000:41:00.0", "0001:c3:00.0", "0000:43:00.0"]);
        assert_eq!(text(|to, len| rig.cuDeviceGetName(to, len, 1)), "Emulated GPU 1");
        for (attribute, expected) in [(115, 1), (116, 0), (41, 1), (33, 0xc3), (50, 1), (18, 0), (99, 1)] {
            assert_eq!((rig.cuDeviceGetAttribute(&mut value, attribute, 1), value), (0, expected), "{attribute}");
        }
        let (mut first, mut second) = ([0; 16], [0; 16]);
        assert_eq!((rig.cuDeviceGetUuid_v2(&mut first, 0), rig.cuDeviceGetUuid_v2(&mut second, 1)), (0, 0));
        assert_ne!(first, second);
        assert_eq!(rig.cuDeviceTotalMem_v2(&mut bytes, 3), 101);
        assert_eq!(rig.cuDevicePrimaryCtxRetain(&mut 0, -1), 101);
    });
}

#[test]
fn a_driver_may_refuse_to_start() {
    let rig = or_skip!(Rig::bare("no_init=804"));
    assert_eq!(rig.cuInit(0), 804);
    assert_eq!(rig.cuDeviceGetCount(&mut 0), NOT_INITIALIZED);
    let rig = or_skip!(Rig::bare("devices=0"));
    assert_eq!(rig.cuInit(0), NO_DEVICE);
}

#[test]
fn peers_are_as_scripted() {
    under("devices=3; peers=0>1,2>1", |rig| {
        let can = |from, to| {
            let mut can = -1;
            assert_eq!(rig.cuDeviceCanAccessPeer(&mut can, from, to), 0);
            can
        };
        assert_eq!((can(0, 1), can(1, 0), can(2, 1), can(0, 2), can(0, 0)), (1, 0, 1, 0, 0));
        let (one, two) = (rig.retain(1), rig.retain(2));
        assert_eq!(rig.cuCtxEnablePeerAccess(two, 0), 217);
        assert_eq!(rig.cuCtxEnablePeerAccess(one, 0), 0);
        assert_eq!(rig.cuCtxEnablePeerAccess(one, 0), 704);
        assert_eq!((rig.cuDevicePrimaryCtxRelease_v2(1), rig.cuDevicePrimaryCtxRelease_v2(2)), (0, 0));
    });
}
