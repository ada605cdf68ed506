//! A model: a world of windows in which anything may fail at any time, driven by the course alone.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// What goes wrong with one batch, so many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It cannot be located, or a file of it cannot be opened.
    Plan,
    /// It cannot be read together with others.
    Read,
    /// Its sample cannot be read by itself, either.
    Reread,
    /// A transform refuses a sample.
    Transform,
    /// It does not fit memory together with others.
    Memory,
    /// It fits none.
    NeverFits,
    /// The device fails.
    Device,
}

#[derive(Clone, Debug)]
struct World {
    /// For each batch what fails, how many more times.
    faults: Vec<Option<(Fault, u32)>>,
    bytes: u64,
    can_one_by_one: bool,
    is_direct_alone: bool,
    /// Corrupt samples are skipped.
    skips: bool,
    settings: Settings,
    /// What is done next, in turn: anything else would be a schedule that the test has not thought of.
    choices: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Window {
    batches: std::ops::Range<u64>,
    one_by_one: bool,
    waits_for_memory: bool,
    outcome: Option<Result<(), u64>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Delivered {
    Batch(u64),
    Error(u64),
    End,
}

fn cursor(batch: u64) -> Cursor {
    Cursor { epoch: batch / 10, position: batch % 10, batch: batch % 10 }
}

fn number(at: Cursor) -> u64 {
    at.epoch * 10 + at.batch
}

impl World {
    /// Whether the batch fails so, this time.
    fn fails(&mut self, batch: u64, fault: Fault) -> bool {
        match &mut self.faults[batch as usize] {
            Some((its, times)) if *its == fault && *times > 0 => {
                *times -= 1;
                true
            }
            _ => false,
        }
    }

    fn plan(&mut self, from: Cursor, limits: Limits) -> Result<Option<Window>, u64> {
        let (start, all) = (number(from), self.faults.len() as u64);
        let mut end = start;
        while end < all
            && (end == start || end - start < limits.batches as u64 && (end - start) * self.bytes < limits.bytes)
        {
            match self.fails(end, Fault::Plan) {
                true if end == start => return Err(end),
                true => break,
                false => end += 1,
            }
        }
        let window = Window { batches: start..end, one_by_one: false, waits_for_memory: true, outcome: None };
        Ok((start < end).then_some(window))
    }

    /// A window comes to its end: whether it made it.
    fn finish(&mut self, window: &mut Window) -> Result<(), FaultKind> {
        let is_alone = window.batches.end - window.batches.start == 1;
        for batch in window.batches.clone() {
            if self.fails(batch, Fault::Device) {
                return Err(FaultKind::Other);
            }
            if self.fails(batch, Fault::NeverFits) || !is_alone && self.fails(batch, Fault::Memory) {
                return Err(FaultKind::TooLarge);
            }
            let unread = self.fails(batch, Fault::Read) || self.fails(batch, Fault::Reread);
            if unread && !window.one_by_one {
                return Err(FaultKind::Unread);
            }
            if (unread || self.fails(batch, Fault::Transform)) && !self.skips {
                window.outcome = Some(Err(batch));
                return Ok(());
            }
        }
        window.outcome = Some(Ok(()));
        Ok(())
    }

    /// Runs to the end, as the loader's thread does, and returns what the consumer got.
    fn run(mut self) -> Vec<Delivered> {
        let mut course = Course::new(self.settings, cursor(0));
        let mut flights: VecDeque<Window> = VecDeque::new();
        let (mut ready, mut got) = (VecDeque::new(), Vec::new());
        let (start, mut clock, mut turn) = (Instant::now(), 0, 0);
        // The pipeline sleeps until the consumer has taken so much, or something under way has moved.
        let mut asleep: Option<Wake> = None;
        for _ in 0..100_000 {
            clock += 1;
            turn += 1;
            let choice = self.choices[turn % self.choices.len()];
            let now = start + Duration::from_micros(clock);
            let ahead = Ahead { batches: ready.len(), bytes: ready.len() as u64 * self.bytes, depth: 40 * self.bytes };
            let wakes = match asleep {
                None | Some(Wake::Always) => true,
                Some(Wake::At(level)) => Level { batches: ahead.batches, bytes: ahead.bytes }.is_within(level),
                Some(Wake::Never) => false,
            };
            if wakes {
                asleep = None;
                let under_way = UnderWay {
                    windows: flights.len(),
                    level: Level {
                        batches: flights
                            .iter()
                            .map(|window| (window.batches.end - window.batches.start) as usize)
                            .sum(),
                        bytes: flights
                            .iter()
                            .map(|window| (window.batches.end - window.batches.start) * self.bytes)
                            .sum(),
                    },
                    reading: flights.iter().filter(|window| window.outcome.is_none()).map(|_| self.bytes).sum(),
                    is_blocked: flights
                        .back()
                        .is_some_and(|window| window.waits_for_memory && window.outcome.is_none())
                        || flights.iter().any(|window| window.one_by_one && window.outcome.is_none()),
                };
                match course.decide(ahead, under_way, now) {
                    Decision::Finish => {
                        got.extend(ready);
                        got.push(Delivered::End);
                        return got;
                    }
                    Decision::Wait(wake) => asleep = Some(wake),
                    Decision::Begin(limits) => {
                        assert!(limits.batches > 0);
                        match self.plan(course.next(), limits) {
                            Ok(Some(window)) => {
                                course.on(Event::Began { end: cursor(window.batches.end) });
                                flights.push_back(window);
                            }
                            Ok(None) => course.on(Event::PlanEnded),
                            Err(batch) => {
                                course.on(Event::PlanEnded);
                                flights.push_back(failed(batch));
                            }
                        }
                    }
                }
            }
            // Nobody wakes a thread that waits for what is under way if nothing is.
            assert!(!(flights.is_empty() && ready.is_empty() && asleep.is_some()), "it sleeps for ever");
            // Then any of these moves, or the consumer takes one.
            let under_way: Vec<usize> = (0..flights.len()).filter(|i| flights[*i].outcome.is_none()).collect();
            match choice % 4 {
                0 if !ready.is_empty() => got.extend(ready.pop_front()),
                1 if !under_way.is_empty() => {
                    let i = under_way[usize::from(choice / 4) % under_way.len()];
                    flights[i].waits_for_memory = false;
                    asleep = None;
                }
                _ if !under_way.is_empty() => {
                    asleep = None;
                    let i = under_way[usize::from(choice / 4) % under_way.len()];
                    let mut window = flights[i].clone();
                    match self.finish(&mut window) {
                        Ok(()) => flights[i] = window,
                        Err(fault) => {
                            flights.truncate(i);
                            let batches = window.batches.clone();
                            let failed_one = Failed {
                                fault,
                                batches: (batches.end - batches.start) as usize,
                                was_one_by_one: window.one_by_one,
                                can_one_by_one: self.can_one_by_one,
                                is_direct_alone: self.is_direct_alone,
                            };
                            let remedy = failed_one.remedy();
                            let (start, end) = (cursor(batches.start), cursor(batches.end));
                            course.on(Event::Failed { start, end, remedy });
                            match remedy {
                                Remedy::OneByOne => flights.push_back(Window { one_by_one: true, ..window }),
                                Remedy::BatchByBatch => {}
                                Remedy::GiveUp => flights.push_back(failed(batches.start)),
                            }
                        }
                    }
                }
                _ => got.extend(ready.pop_front()),
            }
            while flights.front().is_some_and(|window| window.outcome.is_some()) {
                let window = flights.pop_front().unwrap();
                course.on(Event::HandedOver);
                asleep = None;
                let error = window.outcome.unwrap().err();
                ready.extend(window.batches.take_while(|batch| Some(*batch) != error).map(Delivered::Batch));
                if let Some(batch) = error {
                    course.on(Event::Ended);
                    got.extend(std::mem::take(&mut ready));
                    got.push(Delivered::Error(batch));
                    return got;
                }
            }
        }
        panic!("it never ends: {course:?}, {} under way, {got:?}", flights.len());
    }
}

fn failed(batch: u64) -> Window {
    Window { batches: batch..batch, one_by_one: false, waits_for_memory: false, outcome: Some(Err(batch)) }
}

fn worlds() -> impl Strategy<Value = World> {
    let fault = prop_oneof![
        Just(Fault::Plan),
        Just(Fault::Read),
        Just(Fault::Reread),
        Just(Fault::Transform),
        Just(Fault::Memory),
        Just(Fault::NeverFits),
        Just(Fault::Device),
    ];
    let times = prop_oneof![1_u32..4, Just(u32::MAX)];
    let faults = prop::collection::vec(prop::option::weighted(0.1, (fault, times)), 0..70);
    let settings = (1_usize..20, 1_u64..400, 1_u64..400).prop_map(|(prefetch, window, reading)| Settings {
        prefetch,
        window,
        reading,
        memory: u64::MAX,
    });
    let choices = prop::collection::vec(any::<u8>(), 1..60);
    (faults, 1_u64..50, any::<[bool; 3]>(), settings, choices).prop_map(
        |(faults, bytes, [can_one_by_one, is_direct_alone, skips], settings, choices)| World {
            faults,
            bytes,
            can_one_by_one: can_one_by_one && !is_direct_alone,
            is_direct_alone,
            skips,
            settings,
            // One that always makes progress, whatever the others are.
            choices: choices.into_iter().chain([0, 1, 2, 6]).collect(),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]
    #[test]
    fn batches_come_once_each_in_order_to_the_end_or_to_an_error(world in worlds()) {
        let (all, faults) = (world.faults.len() as u64, world.faults.clone());
        let got = world.run();
        let (last, batches) = got.split_last().unwrap();
        let delivered: Vec<u64> = batches.iter().map(|one| match one {
            Delivered::Batch(batch) => *batch,
            other => panic!("{other:?} before the end"),
        }).collect();
        let count = delivered.len() as u64;
        prop_assert_eq!(delivered, (0..count).collect::<Vec<_>>());
        match last {
            Delivered::End => prop_assert_eq!(count, all),
            Delivered::Error(batch) => {
                // Of a window that is given up whole the first batch is named.
                prop_assert_eq!(*batch, count);
                prop_assert!(faults.iter().any(Option::is_some));
            }
            other => panic!("{other:?} at the end"),
        }
    }
}

/// A consumer who takes a batch would only wake the thread to find that it can do nothing, again and again.
#[test]
fn while_what_is_under_way_blocks_only_that_wakes_the_thread() {
    let settings = Settings { prefetch: 8, window: 100, reading: 100, memory: 100 };
    let now = Instant::now();
    let (none, some) = (Level { batches: 0, bytes: 0 }, Level { batches: 2, bytes: 20 });
    let ahead = |batches: usize| Ahead { batches, bytes: batches as u64 * 10, depth: 80 };
    let idle = UnderWay { windows: 0, level: none, reading: 0, is_blocked: false };
    let blocked = UnderWay { windows: 1, level: some, reading: 0, is_blocked: true };
    let reading = UnderWay { windows: 1, level: some, reading: 100, is_blocked: false };
    let two = UnderWay { windows: 2, level: some, reading: 0, is_blocked: false };
    let never = |course: &mut Course, under_way| {
        (0..8).all(|batches| matches!(course.decide(ahead(batches), under_way, now), Decision::Wait(Wake::Never)))
    };
    let mut course = Course::new(settings, Cursor::default());
    assert!(never(&mut course, two), "before the first batch");
    course.on(Event::HandedOver);
    // Full before, so that it was to be woken at a level.
    assert!(matches!(course.decide(ahead(8), idle, now), Decision::Wait(Wake::At(_))));
    assert!(never(&mut course, blocked));
    assert!(matches!(course.decide(ahead(0), idle, now), Decision::Begin(_)));
    assert!(matches!(course.decide(ahead(0), reading, now), Decision::Wait(Wake::Never)));
    course.on(Event::PlanEnded);
    assert!(never(&mut course, reading));
    assert!(matches!(course.decide(ahead(0), idle, now), Decision::Finish));
}

/// Only as far as the window that failed: those behind it are as large as before.
#[test]
fn behind_a_window_that_was_too_large_windows_grow_on() {
    let settings = Settings { prefetch: 1000, window: 1 << 20, reading: 1 << 20, memory: 1 << 20 };
    let mut course = Course::new(settings, Cursor::default());
    let none = UnderWay { windows: 0, level: Level { batches: 0, bytes: 0 }, reading: 0, is_blocked: false };
    let begin = |course: &mut Course| {
        let ahead = Ahead { batches: 0, bytes: 0, depth: u64::MAX };
        let Decision::Begin(limits) = course.decide(ahead, none, Instant::now()) else { panic!("{course:?}") };
        let start = number(course.next());
        course.on(Event::Began { end: cursor(start + limits.batches as u64) });
        (start, limits.batches as u64)
    };
    assert_eq!([(); 4].map(|()| begin(&mut course)), [(0, 1), (1, 2), (3, 4), (7, 8)]);
    course.on(Event::Failed { start: cursor(7), end: cursor(15), remedy: Remedy::BatchByBatch });
    assert_eq!(
        [(); 9].map(|()| begin(&mut course)).map(|(start, batches)| (start, batches == 1)),
        [(7, true), (8, true), (9, true), (10, true), (11, true), (12, true), (13, true), (14, true), (15, false),]
    );
}

#[test]
fn time_with_enough_ahead_is_counted_once_it_is_over() {
    let settings = Settings { prefetch: 8, window: 100, reading: 100, memory: 100 };
    let mut course = Course::new(settings, Cursor::default());
    let none = UnderWay { windows: 0, level: Level { batches: 0, bytes: 0 }, reading: 0, is_blocked: false };
    let start = Instant::now();
    let mut decide = |batches, ms| {
        let ahead = Ahead { batches, bytes: 0, depth: 1 };
        let decision = course.decide(ahead, none, start + Duration::from_millis(ms));
        (matches!(decision, Decision::Begin(_)), course.idle().as_millis())
    };
    assert_eq!(decide(8, 10), (false, 0));
    assert_eq!(decide(7, 20), (false, 0));
    assert_eq!(decide(1, 40), (true, 30));
    assert_eq!(decide(7, 50), (true, 30));
    assert_eq!(decide(8, 60), (false, 30));
    assert_eq!(decide(0, 65), (true, 35));
}

#[test]
fn each_failure_has_its_remedy() {
    use FaultKind::{Other, TooLarge, Unread};
    use Remedy::{BatchByBatch, GiveUp, OneByOne};

    // A kind, batches, whether it was and could be read one by one, whether by the direct route alone.
    for (fault, batches, was, can, direct, remedy) in [
        (Unread, 4, false, true, false, OneByOne),
        (Unread, 1, false, true, false, OneByOne),
        (Unread, 4, true, true, false, BatchByBatch),
        (Unread, 4, false, false, false, BatchByBatch),
        (Unread, 1, true, true, false, GiveUp),
        (Unread, 1, false, false, false, GiveUp),
        (Unread, 4, false, false, true, GiveUp),
        (TooLarge, 4, false, true, true, BatchByBatch),
        (TooLarge, 2, true, true, false, BatchByBatch),
        (TooLarge, 1, false, true, false, GiveUp),
        (Other, 4, false, true, false, GiveUp),
    ] {
        let failed = Failed { fault, batches, was_one_by_one: was, can_one_by_one: can, is_direct_alone: direct };
        assert_eq!(failed.remedy(), remedy, "{failed:?}");
    }
}

/// At the borders: one window more than the first, no budget for anything, and a little less being read than may be.
#[test]
fn a_window_is_begun_where_anything_may_be() {
    let settings = Settings { prefetch: 8, window: 100, reading: 100, memory: 100 };
    let under_way = |windows: usize, reading: u64| UnderWay {
        windows,
        level: Level { batches: windows, bytes: 10 * windows as u64 },
        reading,
        is_blocked: false,
    };
    let ahead = |batches: usize, depth: u64| Ahead { batches, bytes: 10 * batches as u64, depth };
    let begins = |course: &mut Course, ahead: Ahead, under_way: UnderWay| {
        matches!(course.decide(ahead, under_way, Instant::now()), Decision::Begin(_))
    };
    let mut course = Course::new(settings, Cursor::default());
    assert!(begins(&mut course, ahead(0, 1000), under_way(1, 10)), "behind the first window");
    assert!(!begins(&mut course, ahead(0, 1000), under_way(2, 20)));
    course.on(Event::HandedOver);
    assert!(begins(&mut course, ahead(0, 1000), under_way(2, 99)));
    assert!(!begins(&mut course, ahead(0, 1000), under_way(2, 100)));
    assert!(begins(&mut course, ahead(0, 0), under_way(0, 0)), "one batch there always is");
    assert!(!begins(&mut course, ahead(1, 10), under_way(0, 0)));
    let mut none = Course::new(Settings { reading: 0, ..settings }, Cursor::default());
    assert!(begins(&mut none, ahead(0, 1000), under_way(0, 0)));
}
