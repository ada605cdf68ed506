//! The last line of a report, and what stands around the table.

use std::fmt::Write;

use serde::Serialize;

use super::ceilings::Ceilings;
use super::lost::Lost;
use super::tune::Tuned;
use crate::byte_count::{counted, shown};

#[derive(Serialize)]
pub struct Summary {
    pub version: u32,
    /// When measuring began, in UTC as ISO 8601 has it.
    pub began: String,
    /// The command line, as a shell takes it.
    pub command: String,
    pub target: String,
    pub target_bytes: u64,
    pub file_system: String,
    pub drives: Vec<String>,
    pub device: String,
    pub kernel: String,
    pub processors: usize,
    pub rounds: usize,
    /// The program that was measured beside us, `null` where there was none.
    pub peer: Option<String>,
    pub ceilings: Ceilings,
    /// What was found best, where that was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuned: Option<Tuned>,
    pub rows: usize,
    /// Rows, or runs of them, that could not be measured.
    pub lost: Vec<Lost>,
    /// The first read that failed: the command ends with it.
    #[serde(skip)]
    pub fault: Option<String>,
    pub warnings: Vec<String>,
    /// SIGINT came before all rounds were done.
    pub interrupted: bool,
}

impl Summary {
    pub fn head(&self) -> String {
        let drives =
            if self.drives.is_empty() { "no drive that the kernel names".into() } else { self.drives.join(", ") };
        format!(
            "{}, {} on {}, {drives}; to {}; Linux {}, {}; {}{}\n\n",
            self.target,
            shown(self.target_bytes),
            self.file_system,
            self.device,
            self.kernel,
            counted(self.processors as u64, "processor"),
            counted(self.rounds as u64, "round"),
            self.peer.as_ref().map_or(String::new(), |peer| format!(", {peer} in turns")),
        )
    }

    pub fn foot(&self) -> String {
        let mut text: String = self.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
        if let Some(tuned) = &self.tuned {
            let _ = write!(text, "best for {}: {}\n{}\n", tuned.profile(), tuned.in_words(), tuned.kept());
        }
        if self.interrupted {
            text.push_str("interrupted: this is what was measured until then\n");
        }
        text
    }
}
