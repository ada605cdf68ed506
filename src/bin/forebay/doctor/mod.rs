//! `forebay doctor`: what this machine can do, each "no" with its reason and its fix.
//!
//! Judges facts, and tries engines, memory and reads wherever something can be tried; makes no file.

mod advice;
mod devices;
mod direct;
mod disk;
mod engines;
mod finding;
mod gpu;
mod machine;
mod path;
mod routes;
mod table;
mod trial;

use std::ffi::OsStr;
use std::path::Path;

use forebay::facts;

use crate::args::{Common, Doctor, Engine};
use crate::failure::{Failure, Outcome};
use crate::json;
use crate::stderr;
use crate::stdout::Stdout;

use devices::Target;
use finding::Finding;
use gpu::{Gpus, Roots};
use machine::Machine;
use path::Subject;
use table::Section;
use trial::Trial;

/// What a reader takes that is not told otherwise.
const DEFAULT_BUDGET: u64 = 256 << 20;
/// Width of the report where stdout is not a terminal.
const USUAL_WIDTH: usize = 100;
/// Wider lines are hard to read.
const MAX_WIDTH: usize = 140;

pub fn run(common: &Common, doctor: &Doctor) -> Outcome {
    let mut errors = Vec::new();
    let roots = Roots { sys: facts::sys(), proc: facts::proc(), root: facts::root() };
    let gpus = Gpus::read(roots, |name| std::env::var_os(name));
    let (targets, devices) = devices::targets(common);
    let mut findings = machine(common, &gpus);
    findings.extend(devices);
    let mut sections = vec![Section { title: "This machine".to_owned(), findings }];
    for path in &doctor.paths {
        match section(path, &gpus, &targets) {
            Ok(section) => sections.push(section),
            Err((section, error)) => {
                sections.push(section);
                errors.push(error);
            }
        }
    }
    print(common, &sections)?;
    let Some(last) = errors.pop() else {
        return Ok(());
    };
    for error in errors {
        stderr::line(&format!("error: {error}"));
    }
    Err(Failure::Error(last))
}

fn machine(common: &Common, gpus: &Gpus) -> Vec<Finding> {
    let budget = common.budget.map_or(DEFAULT_BUDGET, |budget| budget.0);
    let trial = Trial::new(common.engine != Engine::Pread, budget);
    let mut findings = Machine { sys: facts::sys(), proc: facts::proc(), budget, trial: &trial }.findings();
    findings.extend(engines::findings(common.engine, &trial));
    findings.extend(gpus.machine(budget));
    findings
}

/// Findings on one path; one that cannot be looked at is a finding and an error.
fn section(path: &OsStr, gpus: &Gpus, targets: &[Target]) -> Result<Section, (Section, String)> {
    let subject = match Subject::new(Path::new(path)) {
        Ok(subject) => subject,
        Err(error) => {
            let title = path.to_string_lossy().into_owned();
            let message = format!("{title} at 0: {error}; check the path and its permissions");
            let finding = Finding::no("path", &title, error.to_string(), "check the path and its permissions");
            return Err((Section { title, findings: vec![finding] }, message));
        }
    };
    let mut findings = vec![subject.kind()];
    if subject.is_readable_kind() {
        findings.extend(direct::findings(&subject));
        findings.extend(subject.storage(facts::sys(), facts::proc()));
        let (mount, device) = subject.lies_on(facts::sys(), facts::proc());
        findings.extend(gpus.path(Path::new(path), mount.as_ref(), device.as_ref()));
        findings.extend(subject.sample().iter().flat_map(|sample| routes::findings(&subject.name, sample, targets)));
    }
    Ok(Section { title: subject.name, findings })
}

fn print(common: &Common, sections: &[Section]) -> Outcome {
    let mut text = String::new();
    if common.json {
        for finding in sections.iter().flat_map(|section| &section.findings) {
            text.push_str(&json::line(finding)?);
            text.push('\n');
        }
    } else {
        text = table::render(sections, width());
    }
    Stdout::open()?.write(text.as_bytes())
}

/// Columns of the terminal that stdout is.
fn width() -> usize {
    let terminal = terminal_size::terminal_size_of(std::io::stdout());
    terminal.map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0)).min(MAX_WIDTH)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_default_budget_is_the_librarys() {
        let reader = forebay::Reader::builder().build().unwrap();
        assert_eq!(reader.arena().budget(), super::DEFAULT_BUDGET);
    }
}
