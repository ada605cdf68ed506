//! The report as one page that needs nothing else: no script, no link, plots as SVG in it.

mod axis;
mod bars;
mod lines;
mod look;
mod method;
mod page;
mod rows;
mod text;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Summary;
use super::row::Row;
use super::target::Target;
use crate::failure::{Failure, Outcome, fix_of_write};
use crate::replaced_file::ReplacedFile;

const EMULATED: &str = "<span class=\"badge\">emulated</span>";

/// Where the report goes.
pub struct Page(ReplacedFile);

impl Page {
    /// Sees that it can be written before anything is measured, and that it does not replace what is measured.
    pub fn at(path: &Path, target: &Target) -> Result<Self, Failure> {
        let same = path.metadata().ok().zip(target.file.metadata().ok());
        if same.is_some_and(|(page, target)| (page.dev(), page.ino()) == (target.dev(), target.ino())) {
            return Err(failure(path, "it is the file that is to be read", ANOTHER));
        }
        ReplacedFile::at(path).map(Self).map_err(|error| failed(path, &error))
    }

    pub fn write(&self, rows: &[Row], summary: &Summary) -> Outcome {
        let text = page::page(rows, summary)
            .map_err(|error| Failure::Error(format!("cannot draw a plot: {error}; please report this")))?;
        self.0.replace(text.as_bytes()).map_err(|error| failed(&self.0.path, &error))
    }
}

const ANOTHER: &str = "give --html another file in a directory of yours";

fn failed(path: &Path, error: &io::Error) -> Failure {
    failure(path, &error.to_string(), fix_of_write(error, ANOTHER))
}

fn failure(path: &Path, what: &str, fix: &str) -> Failure {
    let path = forebay::dataset::shown(path);
    Failure::Error(format!("{path}: cannot write the page: {what}; {fix}"))
}
