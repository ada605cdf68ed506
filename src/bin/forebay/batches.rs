//! What is said of batches, and of all of them at the end, by the commands that go through a dataset.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use forebay::sampler::State;
use serde::Serialize;

use crate::byte_count::{counted, shown};
use crate::failure::{Failure, Outcome};
use crate::json;
use crate::saver::Saver;
use crate::stderr::one_line;
use crate::stdout::Stdout;

/// One batch, as a line of JSON is.
#[derive(Debug, Serialize)]
pub struct Batch<'a> {
    pub epoch: u64,
    pub batch: u64,
    pub ids: Vec<Cow<'a, str>>,
    pub bytes: u64,
    /// How many of the last ids are repeated.
    #[serde(skip_serializing_if = "is_none")]
    pub padded: u64,
    /// Of each sample, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Vec<String>>,
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

impl Batch<'_> {
    fn in_words(&self) -> String {
        let (samples, bytes) = (counted(self.ids.len() as u64, "sample"), shown(self.bytes));
        let repeated = if self.padded > 0 { format!(", {} repeated", self.padded) } else { String::new() };
        let mut line = format!("epoch {} batch {}: {samples}, {bytes}{repeated}:", self.epoch, self.batch);
        match &self.sha256 {
            None => self.ids.iter().for_each(|id| {
                line.push(' ');
                line += &one_line(id);
            }),
            Some(sums) => self.ids.iter().zip(sums).for_each(|(id, sum)| {
                line += &format!("\n  {sum}  {}", one_line(id));
            }),
        }
        line
    }
}

#[derive(Serialize)]
struct Line<'a> {
    summary: &'a Summary,
}

/// All batches together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    pub batches: u64,
    /// Those that were repeated counted.
    pub samples: u64,
    pub bytes: u64,
    pub seconds: f64,
    /// Bytes by the way they came.
    pub routes: BTreeMap<String, u64>,
    pub engine: Option<String>,
    pub mode: Option<String>,
    pub stall_seconds: f64,
    /// Samples that were not given since they are corrupt, and since they lack a field.
    pub skipped_corrupt: u64,
    pub skipped_missing: u64,
}

impl Summary {
    /// As in `2 batches, 64 samples of 1.5 MiB`.
    pub fn in_words(&self) -> String {
        let batches = match self.batches {
            1 => "1 batch".to_owned(),
            many => format!("{many} batches"),
        };
        format!("{batches}, {} of {}", counted(self.samples, "sample"), shown(self.bytes))
    }

    /// As in `; 2 samples without a field skipped`, or nothing.
    pub fn missing_in_words(&self) -> String {
        match self.skipped_missing {
            0 => String::new(),
            1 => "; 1 sample that lacks a field skipped".to_owned(),
            many => format!("; {many} samples that lack a field skipped"),
        }
    }

    pub fn count(&mut self, batch: &Batch<'_>) {
        self.batches += 1;
        self.samples += batch.ids.len() as u64;
        self.bytes = self.bytes.saturating_add(batch.bytes);
    }
}

/// Lines for programs or for people, written in large pieces, and the state saved after those that stdout has taken.
pub struct Lines {
    json: bool,
    text: String,
    stdout: Stdout,
    saving: Option<Saving>,
}

/// Which state belongs to what was printed.
struct Saving {
    saver: Saver,
    /// Of each batch of the text that is yet to be written, where its line ends and the state after it.
    later: VecDeque<(usize, State)>,
}

impl Lines {
    pub fn open(json: bool, saver: Option<Saver>) -> Result<Self, Failure> {
        let saving = saver.map(|saver| Saving { saver, later: VecDeque::new() });
        Ok(Self { json, text: String::new(), stdout: Stdout::open()?, saving })
    }

    /// `after` is the state behind it.
    pub fn batch(&mut self, batch: &Batch<'_>, after: impl FnOnce() -> State) -> Outcome {
        let line = if self.json { json::line(batch)? } else { batch.in_words() };
        self.push(&line);
        if let Some(saving) = &mut self.saving {
            saving.later.push_back((self.text.len(), after()));
        }
        if self.text.len() > 1 << 16 { self.flush() } else { Ok(()) }
    }

    /// The last line; for people in these words.
    pub fn summary(&mut self, summary: &Summary, in_words: &str) -> Outcome {
        let line = if self.json { json::line(&Line { summary })? } else { in_words.to_owned() };
        self.push(&line);
        self.flush()
    }

    fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    pub fn flush(&mut self) -> Outcome {
        // Where the state follows what is written, a slow reader of stdout does not hold it up for long.
        let most = if self.saving.is_some() { 4096 } else { usize::MAX };
        let (mut done, mut outcome) = (0, Ok(()));
        while done < self.text.len() && outcome.is_ok() {
            let end = self.text.len().min(done.saturating_add(most));
            let (written, answer) = self.stdout.write_counted(&self.text.as_bytes()[done..end]);
            (done, outcome) = (done + written, answer);
            if let Some(saving) = &mut self.saving {
                saving.advance(done);
            }
        }
        // What was not written is given up with the run.
        self.text.clear();
        if let Some(saving) = &mut self.saving {
            saving.later.clear();
        }
        outcome
    }
}

impl Saving {
    /// So many bytes of the text are written.
    fn advance(&mut self, written: usize) {
        let whole = self.later.iter().take_while(|(end, _)| *end <= written).count();
        if let Some((_, state)) = self.later.drain(..whole).next_back() {
            self.saver.printed(state);
        }
    }
}
