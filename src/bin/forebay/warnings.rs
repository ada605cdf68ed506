//! The library's warnings, which come through `tracing`, as lines `warning: …` on stderr.

use std::fmt::{self, Write as _};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::stderr;

pub fn install() {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::WARN)
        .log_internal_errors(false)
        .event_format(OneLine)
        .with_writer(|| Lines)
        .finish();
    // Only an earlier subscriber makes this fail, and then that one prints.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Does what warns of something that the caller tells of itself. Of any thread's warnings meanwhile none is printed.
pub fn muted<T>(work: impl FnOnce() -> T) -> T {
    MUTED.store(true, Ordering::Relaxed);
    let outcome = work();
    MUTED.store(false, Ordering::Relaxed);
    outcome
}

static MUTED: AtomicBool = AtomicBool::new(false);

struct OneLine;

impl<S, N> FormatEvent<S, N> for OneLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut text = Text::default();
        event.record(&mut text);
        let word = if *event.metadata().level() == Level::ERROR { "error" } else { "warning" };
        write!(writer, "{word}: {}{}", text.message, text.fields)
    }
}

/// The message of an event, and its other fields as ` name=value`.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail unless the value's own formatting does, and then its part is lost.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// Hands each finished event to [`stderr::line`].
struct Lines;

impl io::Write for Lines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        if !MUTED.load(Ordering::Relaxed) {
            stderr::line(String::from_utf8_lossy(event).trim_end());
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
