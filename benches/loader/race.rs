//! Contenders that read the same files in turn, round by round.

use std::path::{Path, PathBuf};
use std::process::Command;

use forebay::Reader;

use crate::args::Args;
use crate::cache;
use crate::child;
use crate::data::{Data, RECORD};
use crate::fio::Fio;
use crate::fio_side::Reads;
use crate::machine::Neighbours;
use crate::order::Order;
use crate::outcome::{Outcome, answer};
use crate::stop;

/// Who reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contender {
    Fio,
    /// The loader with one ring, and as many reads in flight as fio has.
    Forebay,
    /// The loader as it is when nothing is set but what the case needs.
    ForebayDefault,
    /// A loader of Python's, and its number of workers.
    Peer(&'static str, u32),
}

impl Contender {
    pub fn name(&self) -> String {
        match self {
            Self::Fio => "fio".into(),
            Self::Forebay => "forebay".into(),
            Self::ForebayDefault => "forebay default".into(),
            Self::Peer(name, workers) => format!("{name} {workers}"),
        }
    }

    pub fn is_peer(&self) -> bool {
        matches!(self, Self::Peer(..))
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Samples a second, or fio's blocks.
    Samples,
    Bytes,
}

impl Measure {
    pub fn rate(self, outcome: &Outcome) -> f64 {
        match self {
            Self::Samples => outcome.samples as f64 / outcome.seconds,
            Self::Bytes => outcome.bytes as f64 / outcome.seconds,
        }
    }
}

/// A case in one place.
#[derive(Debug)]
pub struct Race {
    pub case: &'static str,
    pub title: String,
    pub measure: Measure,
    pub batch: u64,
    /// At least this share of fio's rate, and this multiple of the best peer's.
    pub targets: (f64, Option<f64>),
    files: Vec<PathBuf>,
    reads: Reads,
    /// In the files, which is an epoch of the peers.
    records: u64,
    /// Samples in fio's unit of work.
    samples_per_unit: u64,
    peers: &'static [&'static str],
    peers_files: [Vec<PathBuf>; 2],
}

/// What came of it.
#[derive(Debug)]
pub struct Rounds {
    /// Of each contender, by round.
    pub outcomes: Vec<Vec<Outcome>>,
    /// The greatest share of the CPUs that others took during a turn, by round.
    pub noises: Vec<f64>,
}

const WORKERS: [u32; 3] = [0, 2, 4];

impl Race {
    pub fn records(data: &Data, args: &Args) -> Result<Self, String> {
        // What a read of one record takes: whole blocks of the device.
        let block = RECORD.next_multiple_of(block_of(&data.records)?);
        let batch = args.batch.unwrap_or(64);
        let title = format!(
            "records of {} KiB in full random order, batches of {batch}, against fio's random reads of {} KiB",
            RECORD >> 10,
            block >> 10
        );
        Ok(Self {
            case: "records",
            title,
            measure: Measure::Samples,
            batch,
            targets: (0.90, Some(4.0)),
            files: vec![data.records.clone()],
            reads: Reads::Random { file: data.records.clone(), file_len: data.bytes / block * block, block },
            records: data.bytes / RECORD,
            samples_per_unit: 1,
            peers: &["torch-memmap", "torch-pread", "webdataset"],
            peers_files: [vec![data.records.clone()], data.shards.clone()],
        })
    }

    /// `whole`: windows that begin every 2 KiB and have as many bytes, so that none goes over the end of a block.
    pub fn tokens(data: &Data, args: &Args, whole: bool) -> Self {
        let batch = args.batch.unwrap_or(256);
        let (case, windows) = match whole {
            true => ("whole-tokens", "1023 + 1 tokens of 16 bits (2048 bytes) every 2048 bytes"),
            false => ("tokens", "1024 + 1 tokens of 16 bits (2050 bytes) every 2048 bytes"),
        };
        Self {
            case,
            title: format!(
                "windows of {windows} in full random order, batches of {batch}, against fio's random reads of 4 KiB"
            ),
            measure: Measure::Samples,
            batch,
            targets: (0.85, None),
            files: vec![data.records.clone()],
            reads: Reads::Random { file: data.records.clone(), file_len: data.bytes, block: 4096 },
            records: data.bytes / RECORD,
            samples_per_unit: 1,
            peers: &[],
            peers_files: Default::default(),
        }
    }

    pub fn tar(data: &Data, args: &Args) -> Self {
        let batch = args.batch.unwrap_or(64);
        Self {
            case: "tar",
            title: format!(
                "{} tar archives of members of {} KiB as they lie, batches of {batch}, against fio's reads of 1 MiB in order; \
                 of the loaders only the members' bytes are counted",
                data.shards.len(),
                RECORD >> 10
            ),
            measure: Measure::Bytes,
            batch,
            targets: (0.90, None),
            files: data.shards.clone(),
            reads: Reads::InOrder { files: data.shards.clone(), bytes: data.bytes },
            records: data.bytes / RECORD,
            samples_per_unit: data.bytes / RECORD,
            peers: &["webdataset-in-order"],
            peers_files: [Vec::new(), data.shards.clone()],
        }
    }

    pub fn contenders(&self, args: &Args, with_fio: bool) -> Vec<Contender> {
        let fio = with_fio.then_some(Contender::Fio);
        let peers = self.peers.iter().flat_map(|name| WORKERS.map(|workers| Contender::Peer(name, workers)));
        let all = fio.into_iter().chain([Contender::Forebay, Contender::ForebayDefault]).chain(peers);
        let named = |who: &Contender| args.only.is_empty() || args.only.iter().any(|name| who.name().contains(name));
        all.filter(|who| named(who) && (args.python.is_some() || !who.is_peer())).collect()
    }

    /// Every contender has one turn a round.
    pub fn run(&self, args: &Args, fio: Option<&Fio>, who: &[Contender]) -> Result<Rounds, String> {
        self.cool()?;
        let (amount, start_up) = match fio {
            Some(fio) => (self.reads.amount(fio, args.depth, args.seconds)?, self.reads.start_up(fio, args.depth)?),
            None => ((self.records / self.samples_per_unit).max(1), 0.0),
        };
        let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); who.len()];
        let mut noises = Vec::new();
        for round in 0..args.rounds {
            let mut noise: f64 = 0.0;
            // Every other round the other way round: a disk that slows down as it goes then harms all alike.
            let turns: Vec<usize> = match round % 2 {
                0 => (0..who.len()).collect(),
                _ => (0..who.len()).rev().collect(),
            };
            for turn in turns {
                stop::check()?;
                self.cool()?;
                let neighbours = Neighbours::watch();
                let seed = round as u64 + 1;
                let outcome = match (&who[turn], fio) {
                    (Contender::Fio, Some(fio)) => self.reads.run(fio, args.depth, amount, seed, start_up)?,
                    (Contender::Fio, None) => return Err("no fio".into()),
                    (Contender::Forebay, _) => self.ours(args, Some(args.depth), amount, seed)?,
                    (Contender::ForebayDefault, _) => self.ours(args, None, amount, seed)?,
                    (Contender::Peer(name, workers), _) => self.peer(args, name, *workers, seed)?,
                };
                noise = noise.max(neighbours.share());
                outcomes[turn].push(outcome);
            }
            noises.push(noise);
        }
        Ok(Rounds { outcomes, noises })
    }

    fn ours(&self, args: &Args, depth: Option<u32>, amount: u64, seed: u64) -> Result<Outcome, String> {
        let order = Order {
            case: self.case.into(),
            files: self.files.clone(),
            batch: self.batch,
            depth,
            budget: args.budget,
            prefetch: args.prefetch,
            samples: amount * self.samples_per_unit,
            seed,
            seconds: args.seconds,
        };
        Outcome::from_json(&child::ask(&order)?).ok_or("a child's answer lacks something".into())
    }

    fn peer(&self, args: &Args, name: &str, workers: u32, seed: u64) -> Result<Outcome, String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/loader.py");
        let [plain, archives] = &self.peers_files;
        let files = if name.starts_with("webdataset") { archives } else { plain };
        let mut command = Command::new(args.python.as_ref().ok_or("no Python")?);
        command.arg(script).arg(name).args([workers as u64, self.batch, seed, RECORD].map(|number| number.to_string()));
        command.args(files);
        let answer = answer(command).map_err(|why| format!("{name} {workers}: {why}"))?;
        let all = answer.get("all").and_then(serde_json::Value::as_u64);
        match Outcome::from_json(&answer) {
            Some(outcome) if all == Some(self.records) => Ok(outcome),
            _ => Err(format!("{name} {workers}: read {all:?} samples of {}", self.records)),
        }
    }

    fn cool(&self) -> Result<(), String> {
        self.files.iter().chain(self.peers_files.iter().flatten()).try_for_each(|file| cache::drop_file(file))
    }
}

/// What offsets and lengths of direct reads of this file must be multiples of.
fn block_of(file: &Path) -> Result<u64, String> {
    let reader = Reader::builder().budget(1 << 20).build().map_err(|e| e.to_string())?;
    let file = reader.open(file).map_err(|e| e.to_string())?;
    file.direct().map(|alignment| u64::from(alignment.offset)).map_err(|e| format!("no direct reads: {e}"))
}
