//! What was found best, in the summary of a report.

use std::path::PathBuf;

use forebay::ReaderSettings;
use forebay::tuning::{Key, Profiles};
use serde::Serialize;

use super::Against;
use crate::bench::compare::SIGNIFICANT;
use crate::byte_count::{counted, shown};
use crate::failure::{Failure, Outcome};

#[derive(Serialize)]
pub struct Tuned {
    /// What it is good for.
    file_system: String,
    drive: String,
    device: String,
    profile: String,
    best: Settings,
    defaults: Settings,
    /// Of the best to the defaults, in turns: the median of the rounds, the least and the most.
    ratio: f64,
    ratio_least: f64,
    ratio_most: f64,
    /// How likely so great a difference is by chance; `null` where there is none, or there were too few rounds to tell.
    p: Option<f64>,
    /// The file in which it is kept; `null` where that was not asked for.
    saved: Option<PathBuf>,
    #[serde(skip)]
    found: forebay::tuning::Profile,
}

#[derive(Serialize, PartialEq)]
pub(super) struct Settings {
    engine: String,
    chunk: u64,
    depth: u32,
    rings: u32,
    iopoll: bool,
}

impl Settings {
    pub(super) fn of(settings: ReaderSettings) -> Self {
        let ReaderSettings { chunk, depth, rings, iopoll, .. } = settings;
        Self { engine: settings.engine.to_string(), chunk, depth, rings, iopoll }
    }

    pub(super) fn in_words(&self) -> String {
        let polled = if self.iopoll { ", polled" } else { "" };
        let (chunk, engine) = (shown(self.chunk), &self.engine);
        match engine.as_str() {
            "pread" => format!("engine {engine}, {}, chunk {chunk}", counted(self.depth.into(), "thread")),
            _ => format!(
                "engine {engine}, depth {}, {}, chunk {chunk}{polled}",
                self.depth,
                counted(self.rings.into(), "ring")
            ),
        }
    }
}

impl Tuned {
    pub(super) fn new(found: forebay::tuning::Profile, defaults: ReaderSettings, against: Against) -> Self {
        let Key { file_system, drive, device, .. } = found.key.clone();
        Self {
            file_system,
            drive,
            device,
            profile: found.tuned_for.clone(),
            best: Settings::of(found.settings),
            defaults: Settings::of(defaults),
            ratio: against.ratio,
            ratio_least: against.least,
            ratio_most: against.most,
            p: against.p,
            saved: None,
            found,
        }
    }

    pub fn save(&mut self, profiles: &Profiles) -> Outcome {
        self.saved = Some(profiles.save(&self.found).map_err(Failure::of)?);
        Ok(())
    }

    /// For people: what is best, and by how much.
    pub fn in_words(&self) -> String {
        let gain = match (self.best == self.defaults, self.p) {
            (true, _) => "with which the search began; nothing that was tried was better".to_owned(),
            (false, p) => format!(
                "{:.2} of the defaults [{:.2}-{:.2}]{}",
                self.ratio,
                self.ratio_least,
                self.ratio_most,
                match p {
                    Some(p) if p < SIGNIFICANT => format!(" (p = {p:.3})"),
                    Some(p) => format!(", which may be chance (p = {p:.2}), but takes less"),
                    None => ", of too few rounds to tell from chance".to_owned(),
                }
            ),
        };
        format!("{}: {gain}", self.best.in_words())
    }

    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// For people: what becomes of it.
    pub fn kept(&self) -> String {
        let place = &self.found.key;
        match &self.saved {
            Some(path) => format!("saved for {place} in {}; --tuned takes it", forebay::dataset::shown(path)),
            None => format!("not saved; --save keeps it for {place}"),
        }
    }
}
