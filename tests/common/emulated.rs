//! Tests that run under the emulator. The same test is the parent, which starts this binary again under the emulator for
//! it alone, and the child, which does the work.
use std::time::Duration;

use super::emulator::{Control, Emulator, NAMES};
use super::privilege::{CHILD, Reduced, child_done, expect_child_within};
use super::watchdog::CHILD_PATIENCE;
use super::{Skip, home};

/// Runs `work` under the emulator, and wants neither violations nor leaks of it in the end.
pub fn clean<F: FnOnce(&Control)>(script: &str, work: F) {
    Emulated::new(script).begin(test_name::<F>(), || {
        let control = Control::here();
        work(&control);
        control.assert_clean();
    });
}

/// The machine that a test pretends to run on.
#[derive(Debug)]
pub struct Emulated {
    script: String,
    names: Vec<&'static str>,
    environment: Vec<(&'static str, String)>,
    reduced: Reduced,
    patience: Duration,
}

impl Emulated {
    pub fn new(script: &str) -> Emulated {
        Emulated {
            script: script.into(),
            names: NAMES.to_vec(),
            environment: Vec::new(),
            reduced: Reduced::new(),
            patience: CHILD_PATIENCE,
        }
    }

    /// With no other libraries than these.
    pub fn names(mut self, names: &[&'static str]) -> Emulated {
        self.names = names.to_vec();
        self
    }

    pub fn env(mut self, key: &'static str, value: &str) -> Emulated {
        self.environment.push((key, value.into()));
        self
    }

    pub fn reduced(mut self, reduced: Reduced) -> Emulated {
        self.reduced = reduced;
        self
    }

    pub fn patience(mut self, patience: Duration) -> Emulated {
        self.patience = patience;
        self
    }

    /// Runs a test's body, which must be a closure written in that test: its type tells the test's name.
    pub fn run<F: FnOnce(&Control)>(self, work: F) {
        self.begin(test_name::<F>(), || work(&Control::here()));
    }

    /// The same where there is no emulator to speak to.
    pub fn run_without<F: FnOnce()>(self, work: F) {
        self.begin(test_name::<F>(), work);
    }

    fn begin(self, name: &str, work: impl FnOnce()) {
        if std::env::var_os(CHILD).is_some_and(|child| child == *name) {
            work();
            return child_done();
        }
        if let Err(Skip(why)) = self.start(name) {
            crate::common::skipped::skipped(why);
        }
    }

    fn start(&self, name: &str) -> Result<(), Skip> {
        self.reduced.possible()?;
        let emulator = Emulator::with(&self.names)?;
        let mut command = self.reduced.command(&std::env::current_exe().unwrap());
        command.args(["--exact", name, "--include-ignored", "--nocapture", "--test-threads", "1"]);
        emulator.put_under(&mut command, &self.script);
        command.env(CHILD, name).env("TMPDIR", home()).envs(self.environment.iter().map(|(key, value)| (key, value)));
        let said = expect_child_within(name, command, self.patience);
        // What it has skipped or counted; the emulator tells the test of its findings itself.
        said.lines().filter(|line| !line.starts_with("emulator: ")).for_each(|line| eprintln!("{line}"));
        Ok(())
    }
}

fn test_name<F>() -> &'static str {
    let name = std::any::type_name::<F>();
    let test = name.strip_suffix("::{{closure}}").and_then(|name| name.split_once("::"));
    test.unwrap_or_else(|| panic!("{name} is no closure of a test's")).1
}
