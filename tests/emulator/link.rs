//! The modelled link between host and devices. One direction of a device's link carries one copy after the other, each
//! for the latency plus its bytes at the scripted rate. It is reckoned in modelled time, to which threads sleep: a sleep
//! that ends late shortens the next one, so the rate of many copies is exact.
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::script;
use crate::sync::lock;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    HostToDevice,
    DeviceToHost,
}

/// Until when each direction of each device's link is taken.
static BUSY_UNTIL: Mutex<Option<HashMap<(usize, Direction), Instant>>> = Mutex::new(None);

thread_local! {
    /// How far this stream's thread is in modelled time; on other threads it is always now.
    static CLOCK: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The modelled time of this thread.
pub fn now() -> Instant {
    CLOCK.try_with(Cell::get).ok().flatten().unwrap_or_else(Instant::now)
}

/// On a stream's thread: what comes next could not begin before `time`.
pub fn not_before(time: Instant) {
    let _ = CLOCK.try_with(|clock| clock.set(Some(clock.get().map_or(time, |at| at.max(time)))));
}

/// On a stream's thread: lets modelled time pass.
pub fn delay(by: Duration) {
    let until = now() + by;
    not_before(until);
    sleep_until(until);
}

/// Sleeps until the link of that device would have carried the bytes.
pub fn occupy(device: usize, direction: Direction, bytes: u64) {
    let rate = match direction {
        Direction::HostToDevice => script::H2D_GBPS.get(),
        Direction::DeviceToHost => script::D2H_GBPS.get(),
    };
    let mut takes = script::LATENCY_US.get().max(0.0) / 1e6;
    if rate > 0.0 {
        takes += bytes as f64 / (rate * 1e9);
    }
    if takes <= 0.0 {
        return;
    }
    let end = {
        let mut busy = lock(&BUSY_UNTIL);
        let until = busy.get_or_insert_default().entry((device, direction)).or_insert_with(Instant::now);
        *until = now().max(*until) + Duration::from_secs_f64(takes);
        *until
    };
    if CLOCK.try_with(Cell::get).ok().flatten().is_some() {
        not_before(end);
    }
    sleep_until(end);
}

fn sleep_until(time: Instant) {
    let left = time.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}
