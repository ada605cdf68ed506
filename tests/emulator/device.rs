//! The devices: how many there are and what they say of themselves.
use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use crate::call::{Answer, call, early, put, put_text};
use crate::{codes, context, process, script};

#[derive(Debug)]
pub struct Device {
    /// Its number in the machine, which CUDA_VISIBLE_DEVICES may map to another ordinal.
    physical: usize,
    pub memory: usize,
    pci: String,
}

static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();

/// The devices that this process sees; none before cuInit.
pub fn all() -> &'static [Device] {
    DEVICES.get().map_or(&[], Vec::as_slice)
}

/// The device of an ordinal that a caller gave.
pub fn find(ordinal: c_int) -> Answer<(usize, &'static Device)> {
    let index = usize::try_from(ordinal).map_err(|_| codes::INVALID_DEVICE)?;
    all().get(index).map(|device| (index, device)).ok_or(codes::INVALID_DEVICE)
}

fn scripted() -> Vec<Device> {
    let count = script::number("devices", 2.0) as usize;
    let memory = script::number("memory", (16u64 << 30) as f64) as usize;
    let named = script::setting("pci").unwrap_or_default();
    let mut named = named.split(',').map(str::trim).filter(|name| !name.is_empty());
    let machine = (0..count).map(|physical| {
        let pci = named.next().map_or_else(|| format!("0000:{:02X}:00.0", 0x41 + physical), str::to_owned);
        Device { physical, memory, pci }
    });
    let mut machine: Vec<Option<Device>> = machine.map(Some).collect();
    let Ok(visible) = std::env::var("CUDA_VISIBLE_DEVICES") else {
        return machine.into_iter().flatten().collect();
    };
    // As the driver reads it: in the order given, up to the first that is none or that was named before.
    let chosen = visible.split(',').map_while(|name| machine.get_mut(name.trim().parse::<usize>().ok()?)?.take());
    chosen.collect()
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: u32) -> i32 {
    early("cuInit", || {
        let refused = script::number("no_init", 0.0) as i32;
        if refused != 0 {
            return Err(refused);
        }
        if flags != 0 {
            return Err(codes::INVALID_VALUE);
        }
        if DEVICES.get_or_init(scripted).is_empty() {
            return Err(codes::NO_DEVICE);
        }
        process::own();
        crate::control::report_at_exit();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: *mut c_int) -> i32 {
    early("cuDriverGetVersion", || put(version, script::number("driver", 13000.0) as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: *mut c_int) -> i32 {
    call("cuDeviceGetCount", || put(count, all().len() as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> i32 {
    call("cuDeviceGet", || {
        find(ordinal)?;
        put(device, ordinal)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> i32 {
    call("cuDeviceGetName", || {
        let (_, device) = find(device)?;
        put_text(name, len.max(0) as usize, &format!("Emulated GPU {}", device.physical))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> i32 {
    call("cuDeviceTotalMem_v2", || put(bytes, find(device)?.1.memory))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: c_int) -> i32 {
    call("cuDeviceGetPCIBusId", || put_text(text, len.max(0) as usize, &find(device)?.1.pci))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) -> i32 {
    call("cuDeviceGetUuid", || put(uuid, uuid_of(find(device)?.1)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> i32 {
    call("cuDeviceGetUuid_v2", || put(uuid, uuid_of(find(device)?.1)))
}

fn uuid_of(device: &Device) -> [u8; 16] {
    let mut uuid = *b"emulated GPU   0";
    uuid[15] = b'0'.wrapping_add(device.physical as u8);
    uuid
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> i32 {
    call("cuDeviceGetAttribute", || {
        let (_, device) = find(device)?;
        put(value, scripted_attribute(attribute).unwrap_or_else(|| self::attribute(device, attribute)))
    })
}

/// `attributes=116:0,115:0`: the machine that lacks something.
fn scripted_attribute(attribute: c_int) -> Option<c_int> {
    let all = script::setting("attributes")?;
    let mut pairs = all.split(',').filter_map(|pair| pair.split_once(':'));
    pairs.find(|(key, _)| key.trim().parse() == Ok(attribute))?.1.trim().parse().ok()
}

/// By the numbers of CUdevice_attribute; one that is not modelled is 0, which is "not supported" for most.
fn attribute(device: &Device, attribute: c_int) -> c_int {
    let pci = |part: usize| {
        let mut parts = device.pci.split([':', '.']);
        parts.nth(part).and_then(|text| c_int::from_str_radix(text, 16).ok()).unwrap_or(0)
    };
    match attribute {
        1 => 1024,                                      // threads per block
        2 | 3 => 1024,                                  // block size
        4 => 64,                                        // block depth
        5 => c_int::MAX,                                // grid width
        6 | 7 => 65_535,                                // grid height, depth
        10 => 32,                                       // warp
        15 | 31 | 41 => 1,                              // copies overlap, kernels too, unified addressing
        16 => 132,                                      // multiprocessors
        18 => 0,                                        // integrated
        19 => 1,                                        // host memory can be mapped
        33 => pci(1),                                   // bus
        34 => pci(2),                                   // device on it
        50 => pci(0),                                   // domain
        40 => 3,                                        // copy engines
        75 => 9,                                        // compute capability
        78 | 83 | 91 | 99 | 102 | 113 | 115 | 116 => 1, // priorities, managed, registering, VMM, pools, RDMA
        117 => 1,                                       // RDMA flush by the host
        118 => 100,                                     // RDMA writes are ordered to their owner
        119 | 124 => 1,                                 // pool handles, dma-buf
        _ => 0,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> i32 {
    call("cuDeviceCanAccessPeer", || {
        let ((from, _), (to, _)) = (find(device)?, find(peer)?);
        put(can, c_int::from(context::may_access(from, to)))
    })
}
