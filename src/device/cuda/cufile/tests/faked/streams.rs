use super::world::{Rig, turn, with};
use super::{CuFileFault, Form, Job, Stream};

const NOT_READY: i32 = 600;

fn read(form: &dyn Form, rig: &Rig, transfers: u64) -> Result<super::Landed, super::TransferFault> {
    let (job, waiter) = Job::new(rig.transfers(transfers));
    form.take(job);
    waiter.wait()
}

#[test]
fn numbers_live_until_the_stream_has_passed_them_and_few_are_under_way() {
    let _turn = turn();
    let rig = Rig::new();
    let form = Stream::new(&rig.cufile, &rig.context).unwrap();
    with(|world| world.event_answers = [NOT_READY; 30].into());
    assert!(read(&form, &rig, 120).is_ok() && rig.has_read(120 * 8192));
    drop(form);
    with(|world| {
        assert!((60..=64).contains(&world.most_in_flight), "{}", world.most_in_flight);
        assert_eq!(world.count("register stream 15"), 1);
        assert!(world.place("deregister stream") < world.place("destroy stream"));
        assert!(!world.log.iter().any(|line| line.contains("no context")), "{:?}", world.log);
    });
}

#[test]
fn a_failure_behind_a_call_that_succeeded_is_noticed() {
    let _turn = turn();
    let rig = Rig::new();
    let form = Stream::new(&rig.cufile, &rig.context).unwrap();
    for (number, said) in [(-1, "does not say why"), (-5, "Input/output error"), (-5044, "CU_FILE_IO_ERROR (5044)")] {
        with(|world| world.answers = [8192, number].into());
        let fault = read(&form, &rig, 4).unwrap_err();
        assert!(fault.to_string().contains(said), "{fault}");
        assert_eq!((fault.index, fault.at), (1, 8192));
    }
    with(|world| world.answers = [8192, 4096].into());
    assert!(read(&form, &rig, 4).is_ok() && rig.has_read(4 * 8192), "a short one");
}

#[test]
fn what_the_driver_no_longer_answers_for_is_leaked_and_not_lent_again() {
    const ILLEGAL_ADDRESS: i32 = 700;
    let _turn = turn();
    let rig = Rig::new();
    let form = Stream::new(&rig.cufile, &rig.context).unwrap();
    with(|world| world.event_answers = [NOT_READY, ILLEGAL_ADDRESS].into());
    let fault = read(&form, &rig, 2).unwrap_err();
    assert!(matches!(&fault.fault, CuFileFault::Lost(why) if why.contains("700")), "{fault}");
    let fault = read(&form, &rig, 2).unwrap_err();
    assert!(matches!(fault.fault, CuFileFault::Closed), "{fault}");
    drop(form);
    drop(rig);
    with(|world| {
        assert_eq!((world.count("deregister"), world.count("freed"), world.count("destroy stream")), (0, 0, 0))
    });
}
