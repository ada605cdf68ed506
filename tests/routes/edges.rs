//! What lies at the edges of the promises: the ends of files and of places, budgets, settings that are rare together,
//! decisions taken at a bad moment.
use std::thread;
use std::time::Duration;

use forebay::Device;


#[test]
fn a_buffer_on_the_host_may_be_looked_at_twice_at_once() {
    let buffer = Device::host().allocate(100).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let (one, other) = (buffer.host().unwrap(), buffer.host().unwrap());
        done.send(one[..] == other[..]).unwrap();
    });
    assert_eq!(ended.recv_timeout(Duration::from_secs(5)), Ok(true));
}

#[test]
fn more_memory_than_there_can_be_is_refused() {
    for len in [usize::MAX, usize::MAX - 4096, isize::MAX as usize] {
        let error = Device::host().allocate(len).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}
