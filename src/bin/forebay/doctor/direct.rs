//! How reads of one path go: past the page cache or not, tried by reading, and how much the cache holds.

use std::path::Path;

use forebay::{EngineChoice, Extent, File, Mode, OpenFault, Reader, facts};

use crate::byte_count::shown;
use crate::warnings;

use super::advice::split;
use super::finding::Finding;
use super::path::Subject;

const KIND: &str = "direct_io";
/// One small read needs no more.
const BUDGET: u64 = 1 << 20;

pub fn findings(subject: &Subject) -> Vec<Finding> {
    let Some(sample) = subject.sample() else {
        let reason = "no file with bytes lies directly in this folder to try a direct read on";
        let finding = Finding::note(KIND, &subject.name, reason).fix("name a data file");
        return vec![finding];
    };
    let by = if subject.is_dir() { format!(" (tried on {})", sample.display()) } else { String::new() };
    let mut findings = vec![direct(&subject.name, &sample, &by)];
    findings.extend(page_cache(&subject.name, &sample, &by));
    findings
}

fn direct(name: &str, sample: &Path, by: &str) -> Finding {
    match try_direct(sample) {
        Ok(file) => Finding::yes(KIND, name, format!("{}{by}", alignment(&file))),
        Err((reason, fix)) => Finding::no(KIND, name, format!("{reason}{by}"), fix),
    }
}

/// Reads the first byte, and looks whether it went past the page cache, since what the kernel says of a file and what it does
/// are not always one. An error is what is wrong and what to do.
fn try_direct(sample: &Path) -> Result<File, (String, String)> {
    let reader = Reader::builder().engine(EngineChoice::Pread).mode(Mode::Direct).budget(BUDGET).build();
    let reader = reader.map_err(advised)?;
    let file = reader.open(sample).map_err(|error| match error.fault {
        OpenFault::NoDirect(reason) => (reason.to_string(), reason.fix().to_owned()),
        fault => advised(fault),
    })?;
    let first = Extent::new(&file, 0, file.len().min(1));
    match warnings::muted(|| reader.read_blocking(&[first])) {
        Ok(_) => {}
        Err(error) => return Err(advised(error.fault)),
    }
    match reader.prove_direct(&file) {
        Ok(_) => Ok(file),
        Err(reason) => Err((reason.to_string(), reason.fix().to_owned())),
    }
}

fn advised(error: impl std::error::Error) -> (String, String) {
    let text = error.to_string();
    let (reason, fix) = split(&text, "read through the page cache: --route cached");
    (reason.to_owned(), fix.to_owned())
}

fn alignment(file: &File) -> String {
    match file.direct() {
        Ok(alignment) => {
            format!(
                "O_DIRECT reads work, aligned to {} bytes in the file and {} in memory",
                alignment.offset, alignment.memory
            )
        }
        Err(_) => "O_DIRECT reads work, with unknown alignment".to_owned(),
    }
}

fn page_cache(name: &str, sample: &Path, by: &str) -> Option<Finding> {
    const KIND: &str = "page_cache";
    let file = std::fs::File::open(sample).ok()?;
    let length = std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0)).ok()?;
    if length == 0 {
        return Some(Finding::note(KIND, name, format!("the file has no bytes{by}")));
    }
    Some(match facts::cached_share(&file, 0, length) {
        Ok(share) => {
            Finding::note(KIND, name, format!("{:.0}% of {} is in the page cache{by}", share * 100.0, shown(length)))
        }
        Err(error) => Finding::note(KIND, name, format!("the kernel does not tell: {error}{by}")),
    })
}
