//! Whoever waits may be woken, polled and dropped in ways of his own.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use super::*;

/// A tokio task may not do more than so much before it yields: whoever waits on its thread has no such bound.
#[test]
fn many_blocking_reads_in_one_tokio_task_do_not_hang() {
    let sample = Sample::new(100_000);
    within_seconds(20, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        runtime.block_on(async {
            let reader = Reader::builder().budget(1 << 20).build().unwrap();
            let file = reader.open(&sample.path).unwrap();
            for offset in 0..300 {
                let pieces = reader.read_blocking(&[Extent::new(&file, offset, 100)]).unwrap();
                assert_eq!(&pieces[0], &sample.bytes[offset as usize..][..100]);
            }
            let extents = (0..300).map(|offset| Extent::new(&file, offset, 10));
            assert_eq!(reader.stream(extents).blocking().map(Result::unwrap).count(), 300);
        });
    });
}

/// Some executors go on with a task inside of `wake`.
#[test]
fn a_waker_may_use_the_reader() {
    struct Reads(Reader, super::super::File, mpsc::Sender<super::super::Read>);
    impl Wake for Reads {
        fn wake(self: Arc<Self>) {
            let _ = self.2.send(self.0.read(&[Extent::new(&self.1, 7, 100)]));
        }
    }
    let sample = Sample::new(1 << 20);
    for engine in ENGINES {
        let sample = sample.path.clone();
        within_seconds(20, move || {
            // The first part fails, and the others are never begun.
            let chances =
                Chances { nth: Some((1, nix::libc::EIO)), slow: Duration::from_millis(50), ..Chances::default() };
            let reader = builder(engine, Mode::Auto, chances, 1).depth(1).build().unwrap();
            let file = reader.open(&sample).unwrap();
            let mut failing = reader.read(&[Extent::new(&file, 0, 1 << 20)]);
            let (send, receive) = mpsc::channel();
            let waker = Waker::from(Arc::new(Reads(reader.clone(), file, send)));
            assert!(Pin::new(&mut failing).poll(&mut Context::from_waker(&waker)).is_pending());
            let read = receive.recv().unwrap();
            assert_eq!(read.wait().unwrap()[0].len(), 100);
        });
    }
}
