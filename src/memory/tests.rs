//! An arena that grows: what is touched follows what is in use, and what the machine does not have is refused or waited for.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;

const MIB: usize = 1 << 20;

fn poll(loan: &mut Loan) -> Poll<Result<Slot, MemoryError>> {
    Pin::new(loan).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn what_is_touched_follows_what_is_in_use_and_reaches_the_budget() {
    let arena = Arena::new(64 << 20).unwrap();
    assert_eq!(arena.touched(), 2 << 20);
    drop(arena.try_loan(4096).unwrap().unwrap());
    assert_eq!(arena.touched(), 2 << 20);
    let mut slot = arena.try_loan(10 * MIB + 1).unwrap().unwrap();
    slot.fill(1);
    assert_eq!(arena.touched(), 12 << 20);
    drop(slot);
    let mut whole = arena.try_loan(64 * MIB).unwrap().unwrap();
    whole.fill(2);
    assert_eq!(arena.touched(), 64 << 20);
}

#[test]
fn a_loop_that_holds_no_more_than_before_touches_no_more() {
    let arena = Arena::new(1 << 40).unwrap();
    let turn = |arena: &Arena| drop([3 * MIB, MIB / 2, 5 * MIB].map(|len| arena.try_loan(len).unwrap().unwrap()));
    turn(&arena);
    let warm = arena.touched();
    assert!(warm <= (2 * 9) << 20, "{warm}");
    (0..1000).for_each(|_| turn(&arena));
    assert_eq!(arena.touched(), warm);
}

#[test]
fn more_than_the_machine_has_left_is_refused_with_the_numbers() {
    let arena = Arena::new(1 << 40).unwrap();
    arena.pretend_left(Some(5 << 20));
    let error = arena.try_loan(8 * MIB).unwrap_err();
    assert!(
        matches!(error, MemoryError::NotLeft { more, held, left } if (more, held, left) == (6 << 20, 2 << 20, 5 << 20))
    );
    let said = error.to_string();
    assert!(["6 MiB", "2 MiB", "5 MiB"].iter().all(|number| said.contains(number)), "{said}");
    let Poll::Ready(Err(error)) = poll(&mut arena.loan(8 * MIB).unwrap()) else { panic!("it waits or was served") };
    assert!(matches!(error, MemoryError::NotLeft { .. }), "{error}");
    assert_eq!((arena.on_loan(), arena.touched()), (0, 2 << 20));
    // Less than that is there, and all once the machine has it.
    assert!(arena.try_loan(6 * MIB).unwrap().is_some());
    arena.pretend_left(Some(1 << 30));
    assert!(arena.try_loan(8 * MIB).unwrap().is_some());
}

#[test]
fn what_others_hold_is_waited_for_where_the_machine_has_no_more() {
    let arena = Arena::new(1 << 40).unwrap();
    let held = arena.try_loan(8 * MIB).unwrap().unwrap();
    arena.pretend_left(Some(0));
    assert!(arena.try_loan(MIB).unwrap().is_none());
    let mut first = arena.loan(6 * MIB).unwrap();
    let mut second = arena.loan(MIB).unwrap();
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    drop(held);
    let Poll::Ready(Ok(slot)) = poll(&mut first) else { panic!("not served") };
    assert!(poll(&mut second).is_ready());
    drop(slot);
    assert_eq!((arena.on_loan(), arena.touched()), (0, 8 << 20));
}

/// All were served with memory that the machine does not have any more, and each may notice it first.
#[test]
fn requests_keep_their_turn_where_the_machine_has_less_than_it_had() {
    for noticing in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let arena = Arena::new(1 << 40).unwrap();
        let held = arena.try_loan(8 * MIB).unwrap().unwrap();
        let mut waiting = [6, 7, 8].map(|len| arena.loan(len * MIB).unwrap());
        arena.pretend_left(Some(0));
        for i in noticing {
            assert!(poll(&mut waiting[i]).is_pending());
        }
        drop(held);
        for i in 0..3 {
            for later in &mut waiting[i + 1..] {
                assert!(poll(later).is_pending(), "one came before {i} after {noticing:?}");
            }
            let Poll::Ready(Ok(slot)) = poll(&mut waiting[i]) else { panic!("{i} was not served after {noticing:?}") };
            drop(slot);
        }
    }
}

/// Its holder awaits more, and no other request comes or ends meanwhile.
#[test]
fn memory_that_the_machine_has_again_is_for_the_one_that_waits() {
    let arena = Arena::new(1 << 40).unwrap();
    let held = arena.try_loan(8 * MIB).unwrap().unwrap();
    arena.pretend_left(Some(0));
    let mut waiting = arena.loan(6 * MIB).unwrap();
    assert!(poll(&mut waiting).is_pending());
    arena.pretend_left(Some(1 << 30));
    let (done, got) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(pollster::block_on(waiting).map(|slot| slot.len())));
    assert_eq!(got.recv_timeout(std::time::Duration::from_secs(120)).expect("it waits for ever").unwrap(), 6 * MIB);
    drop(held);
}

/// It was asked for while the machine still had it.
#[test]
fn a_request_for_more_than_there_will_be_fails() {
    let arena = Arena::new(16 << 20).unwrap();
    let held = arena.try_loan(8 * MIB).unwrap().unwrap();
    let mut large = arena.loan(12 * MIB).unwrap();
    let mut behind = arena.loan(2 * MIB).unwrap();
    assert!(poll(&mut large).is_pending() && poll(&mut behind).is_pending());
    arena.pretend_left(Some(0));
    drop(held);
    let Poll::Ready(Err(error)) = poll(&mut large) else { panic!("it waits or was served") };
    assert!(matches!(error, MemoryError::NotLeft { .. }), "{error}");
    let Poll::Ready(Ok(slot)) = poll(&mut behind) else { panic!("not served") };
    drop(slot);
    assert_eq!(arena.on_loan(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever threads ask for while the machine has now more and now less: each byte is one slot's alone, each gets
    /// what it asked for or an error that is true, and in the end all of the budget is there.
    #[test]
    fn many_threads_grow_one_arena(
        asks in prop::collection::vec(prop::collection::vec(1_usize..6 * MIB, 1..12), 2..5),
        left in prop::collection::vec(prop::option::of(0_u64..24 << 20), 8),
    ) {
        let arena = Arena::new(24 << 20).unwrap();
        std::thread::scope(|scope| {
            for (thread, asks) in asks.iter().enumerate() {
                let (arena, left) = (&arena, &left);
                scope.spawn(move || {
                    for (turn, &len) in asks.iter().enumerate() {
                        arena.pretend_left(left[(thread + turn) % left.len()]);
                        let mark = (thread * 16 + turn) as u8;
                        match pollster::block_on(arena.loan(len).unwrap()) {
                            Ok(mut slot) => {
                                slot.fill(mark);
                                std::thread::yield_now();
                                assert!(slot.chunks(4096).all(|page| [page[0], page[page.len() - 1]] == [mark; 2]));
                                assert!(arena.touched() >= len as u64);
                            }
                            Err(MemoryError::NotLeft { more, left, .. }) => assert!(more > left),
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        arena.pretend_left(None);
        prop_assert_eq!(arena.on_loan(), 0);
        prop_assert!(pollster::block_on(arena.loan(24 << 20).unwrap()).is_ok());
    }
}
