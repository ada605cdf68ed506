//! Registered device memory.

use crate::abi::{self, SUCCESS, Status, code};
use crate::rig::{MIB, Rig};

#[test]
fn memory_is_registered_and_given_back() {
    let rig = Rig::open("");
    let memory = rig.registered(MIB);
    assert_eq!(rig.count("buffers"), 1);
    assert_eq!(rig.deregister_memory(memory.address), SUCCESS);
    memory.free();
    assert_eq!((rig.count("buffers"), rig.count("buffer_registrations")), (0, 1));
    rig.assert_clean();
}

#[test]
fn wrong_registrations_are_refused() {
    let rig = Rig::open("");
    let memory = rig.registered(MIB);
    let (base, again) = (memory.address, Status::of(code::MEMORY_ALREADY_REGISTERED));
    assert_eq!(rig.register_memory(base, MIB), again);
    assert_eq!(rig.register_memory(base + 4096, 4096), again);
    assert_eq!(rig.deregister_memory(base + 4096), Status::of(code::MEMORY_NOT_REGISTERED));
    let other = rig.memory(MIB);
    assert_eq!(rig.register_memory(other.address, MIB + 1), Status::of(code::CUDA_POINTER_RANGE_ERROR));
    assert_eq!(rig.register_memory(other.address, 0), Status::of(code::INVALID_VALUE));
    assert_eq!(rig.register_memory(0, MIB), Status::of(code::INVALID_VALUE));
    let host = [0u8; 64];
    assert_eq!(rig.register_memory(host.as_ptr() as u64, 64), Status::of(code::CUDA_MEMORY_TYPE_INVALID));
    assert_eq!((rig.count("buffers"), rig.count("buffer_registrations")), (1, 1));
}

#[test]
fn registered_memory_is_limited() {
    let rig = Rig::open("cufile_pinned_max=1048576");
    let half = rig.registered(MIB / 2);
    let whole = rig.memory(MIB);
    assert_eq!(rig.register_memory(whole.address, MIB), Status::of(code::INVALID_MAPPING_SIZE));
    assert_eq!(rig.register_memory(whole.address, MIB / 2), SUCCESS);
    assert_eq!(rig.deregister_memory(half.address), SUCCESS);
    assert_eq!(rig.register_memory(half.address, MIB / 2), SUCCESS);
    rig.assert_clean();
}

#[test]
fn registering_without_a_context_is_caught() {
    let rig = Rig::open("");
    let memory = rig.memory(4096);
    let none = Status::cuda(abi::CUDA_ERROR_INVALID_CONTEXT);
    assert_eq!(rig.without_context(|| rig.register_memory(memory.address, 4096)), none);
    rig.assert_caught("no context is current");
}

#[test]
fn freeing_registered_memory_is_caught() {
    let rig = Rig::open("");
    let memory = rig.registered(MIB);
    memory.free();
    rig.assert_caught("a registration with cuFile");
}
