//! The warnings of a test's own thread.

use std::fmt;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Runs `work`, and gives the warnings that it made on this thread.
pub(crate) fn warnings<R>(work: impl FnOnce() -> R) -> (R, Vec<String>) {
    let heard = Arc::default();
    let result = tracing::subscriber::with_default(Ear(Arc::clone(&heard)), work);
    (result, std::mem::take(&mut heard.lock().unwrap()))
}

/// Keeps the warnings that it hears.
#[derive(Clone, Default)]
pub(crate) struct Ear(pub(crate) Arc<Mutex<Vec<String>>>);

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push(message.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{value:?}");
    }
}
