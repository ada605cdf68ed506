//! A forked child has no driver.

use crate::rig::{Rig, Sample};
use nix::libc;
use std::time::{Duration, Instant};

#[test]
fn calls_in_a_forked_child_fail_and_do_not_hang() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(4096);
    let handle = rig.register(sample.fd()).unwrap();
    // SAFETY: the child calls the library, which answers before it takes a lock, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let read = rig.read(handle, memory.address, 4096, 0, 0);
        // SAFETY: they take numbers.
        unsafe {
            let opened = (rig.api.cuFileDriverOpen)();
            let closed = (rig.api.cuFileDriverClose_v2)();
            let refused = opened.err == 5011 && opened.cu_err == 3 && closed.err == 5011;
            (rig.api.cuFileHandleDeregister)(handle);
            libc::_exit(if read == -5011 && refused { 0 } else { 1 });
        }
    }
    assert!(child > 0);
    let began = Instant::now();
    let mut status = 0;
    // SAFETY: a child of ours, and a place of our own.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if began.elapsed() > Duration::from_secs(20) {
            // SAFETY: a child of ours that was not waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0, "the child's calls were answered wrongly");
    assert_eq!(rig.read(handle, memory.address, 4096, 0, 0), 4096, "the parent goes on");
    rig.assert_clean();
}
