use std::time::{Duration, Instant};

use super::world::{Rig, turn, with};
use super::{Batch, CuFileFault, EntryState, Form, Job};
use crate::sys::cufile::io_status::{CANCELED, COMPLETE, FAILED, INVALID, PENDING, TIMEOUT, WAITING};

fn read(form: &dyn Form, rig: &Rig, transfers: u64) -> Result<super::Landed, super::TransferFault> {
    let (job, waiter) = Job::new(rig.transfers(transfers));
    form.take(job);
    waiter.wait()
}

#[test]
fn an_entry_that_did_not_read_fails_its_job_only_when_its_batch_is_gone() {
    let _turn = turn();
    let rig = Rig::new();
    let form = Batch::new(&rig.cufile, &rig.context).unwrap();
    for (status, ret, expected) in [
        (CANCELED, 0, EntryState::Cancelled),
        (CANCELED, 8192, EntryState::Cancelled),
        (TIMEOUT, 8192, EntryState::TimedOut),
        (FAILED, 8192, EntryState::Failed),
        (INVALID, 0, EntryState::Invalid),
        (COMPLETE | FAILED, 8192, EntryState::Failed),
        (256, 8192, EntryState::Unknown(256)),
    ] {
        with(|world| {
            world.log.clear();
            world.entries = [(COMPLETE, 8192), (status, ret)].into();
        });
        let fault = read(&form, &rig, 6).unwrap_err();
        assert!(matches!(fault.fault, CuFileFault::Entry(found) if found == expected), "{fault}");
        assert_eq!((fault.index, fault.at), (1, 8192));
        with(|world| assert!(world.place("destroy").is_some() && world.place("destroy") < world.place("set up")));
        assert!(read(&form, &rig, 6).is_ok() && rig.has_read(6 * 8192), "the next job");
    }
    with(|world| assert_eq!(world.count("a batch was destroyed before it was done"), 0));
}

#[test]
fn an_entry_whose_number_is_an_error_fails_though_it_says_complete() {
    let _turn = turn();
    let rig = Rig::new();
    let form = Batch::new(&rig.cufile, &rig.context).unwrap();
    with(|world| world.entries = [(COMPLETE, -5030)].into());
    let fault = read(&form, &rig, 1).unwrap_err().to_string();
    assert!(fault.contains("CU_FILE_INTERNAL_ERROR (5030)"), "{fault}");
    with(|world| world.entries = [(COMPLETE, -5)].into());
    assert!(matches!(read(&form, &rig, 1).unwrap_err().fault, CuFileFault::Io(_)));
    with(|world| world.entries = [(COMPLETE, 8193)].into());
    assert!(matches!(read(&form, &rig, 1).unwrap_err().fault, CuFileFault::TooMany { answered: 8193, .. }));
}

#[test]
fn events_of_nothing_and_of_entries_under_way_say_nothing() {
    let _turn = turn();
    let rig = Rig::new();
    let form = Batch::new(&rig.cufile, &rig.context).unwrap();
    with(|world| {
        world.hold = true;
        world.false_events =
            vec![(999, COMPLETE, 8192), (usize::MAX, FAILED, -5), (0, WAITING, 0), (1, PENDING, 8192), (0, 0, 8192)];
    });
    let (job, waiter) = Job::new(rig.transfers(4));
    form.take(job);
    std::thread::sleep(Duration::from_millis(30));
    with(|world| world.hold = false);
    assert!(waiter.wait().is_ok() && rig.has_read(4 * 8192));
}

#[test]
fn no_batch_is_filled_before_it_is_done_and_the_limit_is_kept() {
    let _turn = turn();
    with(|world| world.max_batch = 6);
    let rig = Rig::new();
    let form = Batch::new(&rig.cufile, &rig.context).unwrap();
    let jobs: Vec<_> = (0..4).map(|_| Job::new(rig.transfers(20))).collect();
    let waiters: Vec<_> = jobs
        .into_iter()
        .map(|(job, waiter)| {
            form.take(job);
            waiter
        })
        .collect();
    assert!(waiters.into_iter().all(|waiter| waiter.wait().is_ok()) && rig.has_read(20 * 8192));
    drop(form);
    with(|world| {
        assert!((2..=6).contains(&world.most_in_flight), "{}", world.most_in_flight);
        assert_eq!(world.count("a batch was filled before it was done"), 0);
        assert_eq!((world.count("set up"), world.count("destroy")), (4, 4));
        assert!(!world.log.iter().any(|line| line.contains("no context")), "{:?}", world.log);
    });
}

#[test]
fn a_failure_lets_no_more_begin_and_awaits_what_has() {
    let _turn = turn();
    with(|world| {
        world.max_batch = 1;
        world.entries = [(COMPLETE, -5)].into();
    });
    let rig = Rig::new();
    let form = Batch::new(&rig.cufile, &rig.context).unwrap();
    assert!(read(&form, &rig, 20).is_err());
    with(|world| assert_eq!(world.count("submit"), 1));
}

#[test]
fn a_short_read_of_a_failed_job_does_not_go_on() {
    let _turn = turn();
    let rig = Rig::new();
    let form = Batch::new(&rig.cufile, &rig.context).unwrap();
    with(|world| world.entries = [(COMPLETE, 4096), (COMPLETE, -5)].into());
    assert!(matches!(read(&form, &rig, 2).unwrap_err().fault, CuFileFault::Io(_)));
    with(|world| assert_eq!(world.count("submit"), 1));
}

#[test]
fn a_job_that_nobody_waits_for_begins_no_more() {
    let _turn = turn();
    with(|world| {
        world.max_batch = 1;
        world.hold = true;
    });
    let rig = Rig::new();
    let form = Batch::new(&rig.cufile, &rig.context).unwrap();
    let (job, waiter) = Job::new(rig.transfers(20));
    form.take(job);
    std::thread::sleep(Duration::from_millis(20));
    drop(waiter);
    with(|world| world.hold = false);
    form.close();
    assert!(form.ended_by(Some(Instant::now() + Duration::from_secs(10))));
    with(|world| assert_eq!(world.count("submit"), 1));
}

#[test]
fn what_cufile_never_answers_for_is_leaked_and_not_lent_again() {
    let _turn = turn();
    let rig = Rig::new();
    let form = Batch::new(&rig.cufile, &rig.context).unwrap();
    with(|world| (world.hold, world.failing_polls) = (true, u32::MAX));
    let fault = read(&form, &rig, 2).unwrap_err();
    assert!(matches!(&fault.fault, CuFileFault::Lost(why) if why.contains("5041")), "{fault}");
    with(|world| (world.hold, world.failing_polls) = (false, 0));
    // The other batches go on.
    assert!(read(&form, &rig, 2).is_ok());
    drop(form);
    drop(rig);
    with(|world| {
        assert_eq!((world.count("deregister"), world.count("freed"), world.count("deregister handle")), (0, 0, 0));
        // Neither is the batch that is at it.
        assert_eq!(world.count("destroy"), 3);
    });
}

#[test]
fn a_form_that_is_dropped_cancels_and_awaits_what_is_under_way() {
    let _turn = turn();
    let rig = Rig::new();
    let form = Batch::new(&rig.cufile, &rig.context).unwrap();
    with(|world| world.hold = true);
    let (job, waiter) = Job::new(rig.transfers(2));
    form.take(job);
    // It is held until the world lets go, behind the drop.
    drop(form);
    drop(rig);
    std::thread::sleep(Duration::from_millis(50));
    with(|world| {
        assert_eq!((world.count("cancel"), world.count("freed"), world.count("deregister")), (1, 0, 0));
        world.entries = [(CANCELED, 0), (COMPLETE, 8192)].into();
        world.hold = false;
    });
    assert!(matches!(waiter.wait().unwrap_err().fault, CuFileFault::Entry(EntryState::Cancelled)));
    let until = Instant::now() + Duration::from_secs(10);
    while with(|world| world.count("freed")) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    with(|world| assert!(world.place("deregister") < world.place("freed"), "{:?}", world.log));
}
