use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Wakes the thread that asks for it, where it is parked.
pub(crate) fn unpark_this_thread() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}
