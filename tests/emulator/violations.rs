//! What a real driver would let pass until it corrupts data: recorded for the test, and said on stderr.
use std::io::Write;
use std::sync::Mutex;

use crate::script;
use crate::sync::lock;

/// So many messages are kept; all are counted.
const KEPT: usize = 1000;

#[derive(Debug)]
struct Record {
    count: u64,
    messages: Vec<String>,
}

impl Record {
    const fn new() -> Record {
        Record { count: 0, messages: Vec::new() }
    }

    fn add(&mut self, what: String) {
        self.count += 1;
        if self.messages.len() < KEPT {
            self.messages.push(what);
        }
    }
}

static VIOLATIONS: Mutex<Record> = Mutex::new(Record::new());
static NOTES: Mutex<Record> = Mutex::new(Record::new());

/// A mistake of the program under test.
pub fn report(what: String) {
    say("violation", &what);
    lock(&VIOLATIONS).add(what);
}

/// A mistake of the emulator's own. It is kept before all others.
pub fn own(what: String) {
    say("violation", &what);
    let mut violations = lock(&VIOLATIONS);
    violations.count += 1;
    violations.messages.insert(0, what);
}

/// Something worth seeing that is no mistake.
pub fn note(what: String) {
    say("note", &what);
    lock(&NOTES).add(what);
}

/// How many there were, and the messages.
pub fn violations() -> (u64, Vec<String>) {
    told(&VIOLATIONS)
}

pub fn notes() -> (u64, Vec<String>) {
    told(&NOTES)
}

pub fn reset() {
    *lock(&VIOLATIONS) = Record::new();
    *lock(&NOTES) = Record::new();
}

fn told(record: &Mutex<Record>) -> (u64, Vec<String>) {
    let record = lock(record);
    (record.count, record.messages.clone())
}

/// Unless the script says `quiet`. Not `eprintln`: that panics where stderr is closed.
fn say(kind: &str, what: &str) {
    if script::setting("quiet").is_none() {
        let _ = writeln!(std::io::stderr(), "emulator: {kind}: {what}");
    }
}
