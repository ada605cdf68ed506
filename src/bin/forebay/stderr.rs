//! Everything that goes to stderr: whole lines, and above them never below a progress bar.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};

/// The bar that is on the screen, so that lines can step around it.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Prints one line. Control characters, which file names may hold, are shown escaped so that it stays one.
pub fn line(text: &str) {
    let text = one_line(text);
    // There is nobody left to tell when stderr is closed.
    let print = || drop(writeln!(io::stderr(), "{text}"));
    match bar().as_ref() {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

/// Prints to stdout; where that is the terminal that a bar is on, it steps around the bar.
pub fn around_bar<T>(print: impl FnOnce() -> T) -> T {
    // Not under the lock: stdout may take its time, and others have lines for stderr meanwhile.
    let shown = bar().clone().filter(|_| io::stdout().is_terminal());
    match shown {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

/// A progress bar that counts bytes, or batches. Only for people: it is shown when stderr is a terminal.
pub struct Progress(());

impl Progress {
    /// Of bytes that go to stdout: not shown where that is a terminal, too.
    pub fn of_output(bytes: u64) -> Self {
        if io::stdout().is_terminal() { Self(()) } else { Self::start(bytes) }
    }

    pub fn start(bytes: u64) -> Self {
        Self::styled(bytes, "{bytes} of {total_bytes} {wide_bar} {binary_bytes_per_sec} {eta}")
    }

    pub fn of_batches(batches: u64) -> Self {
        Self::styled(batches, "{human_pos} of {human_len} batches {wide_bar} {per_sec} {eta}")
    }

    pub fn of_steps(steps: u64) -> Self {
        Self::styled(steps, "{human_pos} of {human_len} runs {wide_bar} {eta}")
    }

    fn styled(end: u64, template: &str) -> Self {
        if io::stderr().is_terminal() {
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            *bar() = Some(ProgressBar::new(end).with_style(style));
        }
        Self(())
    }

    pub fn reach(&self, position: u64) {
        if let Some(bar) = bar().as_ref() {
            bar.set_position(position);
        }
    }

    pub fn advance(&self, by: u64) {
        if let Some(bar) = bar().as_ref() {
            bar.inc(by);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = bar().take() {
            bar.finish_and_clear();
        }
    }
}

/// Text with every control character escaped: `a\nb` in place of two lines.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
    }
    line
}

/// A panic while the lock was held leaves the bar as good as it was.
fn bar() -> MutexGuard<'static, Option<ProgressBar>> {
    BAR.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn control_characters_cannot_break_a_line() {
        assert_eq!(one_line("a\nb\r\u{1b}[31mc\t"), r"a\nb\r\u{1b}[31mc\t");
        assert_eq!(one_line("größe \u{fffd}"), "größe \u{fffd}");
    }
}
