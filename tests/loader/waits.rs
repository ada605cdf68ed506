//! Who awaits batches: on any runtime, in any task, and given up at any moment without a loss.
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use forebay::Loader;
use futures_core::Stream;
use tokio::time::sleep;

use crate::common::Rng;
use crate::common::folder;
use crate::common::watchdog::guarded;
use crate::stream::{Setting, assert_same, records, taken};
use crate::transforms::copied;

/// Waits that are given up, many times over.
#[test]
fn a_wait_that_is_cancelled_loses_nothing() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 5000, 600);
    let setting = Setting { epochs: 2, ..Setting::new(4) };
    let want = setting.expected(&*dataset).unwrap();
    let runtimes = [
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap(),
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap(),
    ];
    for runtime in runtimes {
        let builder = setting.builder(&dataset).prefetch(1).budget(1 << 20).map(copied(5000));
        let mut loader = builder.build().unwrap();
        let (got, cancelled) = guarded("cancelled", move || {
            runtime.block_on(async move {
                let (mut got, mut cancelled, mut rng) = (Vec::new(), 0, Rng::new(9));
                loop {
                    let patience = Duration::from_micros(rng.below(300));
                    tokio::select! {
                        biased;
                        batch = loader.next() => match batch {
                            Some(batch) => got.push(taken(&batch.unwrap())),
                            None => return (got, cancelled),
                        },
                        () = sleep(patience) => cancelled += 1,
                        () = tokio::task::yield_now(), if rng.below(2) == 0 => cancelled += 1,
                    }
                }
            })
        });
        assert!(cancelled > 20, "{cancelled} waits were given up");
        assert_same(&got, &want, "cancelled");
    }
}

/// As a `Stream`, on a runtime of one thread, where whoever waits must let others run.
#[test]
fn a_stream_of_batches_runs_beside_other_tasks() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 3000, 400);
    let setting = Setting::new(4);
    let mut loader = setting.builder(&dataset).prefetch(2).build().unwrap();
    let got = guarded("stream", move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async move {
            let others = tokio::spawn(async {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            });
            let mut got = Vec::new();
            while let Some(batch) = poll_fn(|context| Pin::new(&mut loader).poll_next(context)).await {
                got.push(taken(&batch.unwrap()));
            }
            assert!(poll_fn(|context| Pin::new(&mut loader).poll_next(context)).await.is_none());
            others.await.unwrap();
            got
        })
    });
    assert_same(&got, &setting.expected(&*dataset).unwrap(), "a stream");
}

/// The waker is that of whoever asked last.
#[test]
fn a_loader_moves_from_task_to_task() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 3000, 200);
    let setting = Setting::new(4);
    let loader = setting.builder(&dataset).prefetch(1).build().unwrap();
    let got = guarded("moves", move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async move {
            let (mut loader, mut got) = (loader, Vec::new());
            loop {
                let one = |mut loader: Loader| async move {
                    let batch = loader.next().await;
                    (loader, batch.map(|batch| taken(&batch.unwrap())))
                };
                // First asked for by a task that is gone by the time it comes.
                let mut next = Box::pin(loader.next());
                let first = poll_fn(|context| std::task::Poll::Ready(next.as_mut().poll(context))).await;
                drop(next);
                if let std::task::Poll::Ready(first) = first {
                    match first {
                        Some(batch) => got.push(taken(&batch.unwrap())),
                        None => return got,
                    }
                    continue;
                }
                let (back, batch) = tokio::spawn(one(loader)).await.unwrap();
                loader = back;
                match batch {
                    Some(batch) => got.push(batch),
                    None => return got,
                }
            }
        })
    });
    assert_same(&got, &setting.expected(&*dataset).unwrap(), "moved");
}

/// Inside a task of a runtime, too, an iterator only takes its own thread.
#[test]
fn the_iterator_works_inside_a_runtime() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 3000, 400);
    let setting = Setting { epochs: 3, ..Setting::new(2) };
    let mut loader = setting.builder(&dataset).build().unwrap();
    let batches = guarded("inside", move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async move { loader.blocking().map(Result::unwrap).count() })
    });
    assert_eq!(batches, 600);
}
