//! Planted mistakes must be caught by tests like these; without them, the same tests must pass.

use super::rig::Rig;
use super::{is_child, mutant, path};
use crate::device::cuda::cufile::Job;

fn is_caught(script: &str, mistake: &str) {
    crate::emulated::is_caught(&path("mutants::reads_in_child"), script, mistake, &["wrong bytes"]);
}

#[test]
fn a_short_read_taken_for_whole_is_caught() {
    is_caught("short=cuFileRead@2:4096", mutant::SHORT_IS_WHOLE);
    is_caught("short=batch_entry@2:4096", mutant::SHORT_IS_WHOLE);
    is_caught("short=async_entry@2:4096", mutant::SHORT_IS_WHOLE);
}

#[test]
fn a_failed_batch_entry_that_is_ignored_is_caught() {
    is_caught("fail=batch_entry@2:5", mutant::FAILED_IS_IGNORED);
    is_caught("fail=batch_entry@2:5030", mutant::FAILED_IS_IGNORED);
}

/// What a job says is read must have been read, in all forms. It may say that it has failed.
#[test]
#[ignore = "run by the tests above"]
fn reads_in_child() {
    if !is_child() {
        return;
    }
    let rig = Rig::new();
    let (bytes, handle) = rig.file("data", 1 << 20);
    for (name, form) in rig.forms() {
        let memory = rig.memory(1 << 20);
        let (job, waiter) = Job::new(vec![
            rig.transfer(&handle, &memory, 0, 65536, 0),
            rig.transfer(&handle, &memory, 65536, 65536, 65536),
        ]);
        form.take(job);
        if waiter.wait().is_ok() {
            assert!(rig.emulator.read_device(memory.base(), 131_072) == bytes[..131_072], "wrong bytes: {name}");
        }
    }
    drop(handle);
    rig.end();
}
