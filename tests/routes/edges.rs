//! What lies at the edges of the promises: the ends of files and of places, budgets, settings that are rare together,
//! decisions taken at a bad moment.
use std::thread;
use std::time::Duration;

use forebay::{Carrier, Device, Extent, Placed, Route, Switch};

use crate::common::data;
use crate::common::emulated::{Emulated, clean};
use crate::rig::{Files, builder, carrier, check, whole};

const LEN: u64 = 500_000;

#[test]
fn direct_is_taken_where_bounce_is_off() {
    clean("", |_| {
        let files = Files::one(LEN);
        let carrier = builder().bounce(Switch::Off).build().unwrap();
        let file = carrier.open(&files.paths[0]).unwrap();
        assert_eq!(carrier.decision(&file).unwrap().chosen, Route::Direct);
        files.cool();
        let landed = carrier.carry_blocking(&[whole(&file)]).unwrap();
        check(&landed, &[(0, 0, LEN)]);
        assert_eq!(landed.carried().direct, LEN, "{:?}", landed.carried());
    });
}

#[test]
fn a_device_that_fails_is_an_error_with_a_path() {
    clean("fail=cuEventQuery@1:999", |_| {
        let files = Files::one(100_000);
        let carrier = carrier(Route::Bounce);
        let file = carrier.open(&files.paths[0]).unwrap();
        let error = carrier.carry_blocking(&[Extent::new(&file, 8192, 10_000)]).unwrap_err();
        assert_eq!((&error.path, error.offset), (&files.paths[0], 8192), "{error}");
    });
}

#[test]
fn files_are_opened_in_tasks_that_have_used_up_their_turn() {
    Emulated::new("").patience(Duration::from_secs(20)).run(|control| {
        let files = Files::one(LEN);
        let carrier = builder().build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let task = tokio::task::unconstrained(async {});
            task.await;
            let opened = tokio::spawn(async move {
                use std::future::{Future, poll_fn};
                use std::task::Poll;
                poll_fn(|context| {
                    // Until there is nothing left of the turn.
                    loop {
                        let (send, receive) = tokio::sync::oneshot::channel();
                        send.send(()).unwrap();
                        if std::pin::pin!(receive).poll(context).is_pending() {
                            break;
                        }
                    }
                    Poll::Ready(carrier.open(&files.paths[0]).map(|file| carrier.decision(&file).unwrap().chosen))
                })
                .await
            });
            assert_eq!(opened.await.unwrap().unwrap(), Route::Direct);
        });
        drop(runtime);
        control.assert_clean();
    });
}

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

#[test]
fn places_on_the_host_may_be_filled_through_a_small_budget() {
    let files = Files::one(3 << 20);
    for budget in [512 << 10, 1 << 20, 3 << 20] {
        let carrier = Carrier::builder().budget(budget).build().unwrap();
        let file = carrier.open(&files.paths[0]).unwrap();
        let buffer = carrier.device().allocate(3 << 20).unwrap();
        let (carried, buffer) = carrier.carry_into(buffer, &[Placed::new(whole(&file), 0)]).wait();
        assert_eq!(carried.unwrap_or_else(|error| panic!("{budget}: {error}")).total(), 3 << 20);
        data::check(&buffer.host().unwrap(), 0, 0).unwrap();
    }
}
