//! Batches as a loader gives them: the file taken as records of one length, in full shuffle, epoch after epoch.
//!
//! A loader reads ahead from the moment that it is built. So that nothing of that is free, its dataset tells no place of a record
//! before the clock runs; and none after the time is over, whereupon all that was begun comes and is counted with the time that
//! it takes. What a run counts is what it read, from before its first read, with the opening of the file, to behind its last.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::dataset::DataFile;
use forebay::{Batch, Carrier, Device, Loader, LoaderError, LoaderFault, Reader, Route, Shuffle, Stats};

use super::cache;
use super::case::{BATCH, Case};
use super::measure::Run;
use super::records::{Gate, Passage, Records, is_closed};
use super::usage::Usage;
use crate::byte_count::shown;
use crate::failure::{Failure, Outcome};

/// Whose loaders do what a case says.
pub struct Batches {
    case: Case,
    device: Device,
    path: PathBuf,
    records: u64,
    /// For the next run.
    ready: RefCell<Option<Taking>>,
}

/// One loader, from before its first read to behind its last.
pub struct Taking {
    loader: Loader,
    gate: Arc<Gate>,
}

impl Batches {
    pub fn new(case: &Case, device: &Device, path: &Path) -> Result<Self, Failure> {
        if case.route == Route::Direct && case.chunk != case.block() {
            return Err(Failure::Error(format!(
                "cuFile takes whole blocks, and records of {} are none; give others (--chunk {})",
                shown(case.chunk),
                shown(case.block()).replace(' ', "")
            )));
        }
        let records = DataFile::new(path).map_err(Failure::of)?.len() / case.chunk;
        Ok(Self {
            case: case.clone(),
            device: device.clone(),
            path: path.to_owned(),
            records,
            ready: RefCell::default(),
        })
    }

    /// Whether there can be such a loader, by building one.
    pub fn try_out(&self) -> Result<(), Failure> {
        self.begin(0, 0).map(drop)
    }

    /// So many that some of them are a sixteenth of the file.
    pub fn batch_size(&self) -> u64 {
        (self.records / 16).clamp(1, BATCH)
    }

    pub fn record_bytes(&self) -> u64 {
        self.case.chunk
    }

    /// A loader that is built and has read nothing; it will read no more than so many batches.
    pub fn begin(&self, seed: u64, batches: u64) -> Result<Taking, Failure> {
        let case = &self.case;
        let gate = Arc::new(Gate::new(batches.saturating_mul(self.batch_size())));
        let dataset = Records::open(&self.path, case.chunk, Arc::clone(&gate)).map_err(Failure::of)?;
        let reader = Reader::builder().engine(case.engine).depth(case.depth).rings(case.threads);
        let carrier = Carrier::builder().reader(reader.iopoll(case.iopoll).latencies(true)).route(case.route);
        let loader = Loader::builder(dataset)
            .device(&self.device)
            .carrier(carrier)
            .batch_size(self.batch_size())
            .shuffle(Shuffle::Full)
            .seed(seed)
            .endless()
            .budget(case.memory())
            .device_budget(case.memory())
            .build()
            .map_err(Failure::of)?;
        Ok(Taking { loader, gate })
    }

    /// Builds the loader of the next run.
    pub fn get_ready(&self, seed: u64) -> Outcome {
        self.ready.replace(Some(self.begin(seed, self.most_batches())?));
        Ok(())
    }

    /// Of a cold page cache a sixteenth: of more, what the kernel read ahead of one record would be another's.
    fn most_batches(&self) -> u64 {
        let most = cache::drawn_while_cold(self.records) / self.batch_size();
        if self.case.is_once_over() { most.max(1) } else { u64::MAX }
    }

    /// Takes batches for `time`, and drops each before it waits for the next, as a consumer does that is faster than all else.
    pub fn run(&self, time: Duration, seed: u64, more: &dyn Fn() -> bool) -> Result<Run, Failure> {
        let mut taking = match self.ready.take() {
            Some(taking) => taking,
            None => self.begin(seed, self.most_batches())?,
        };
        let mut run = Run::default();
        let before = Usage::now();
        let start = Instant::now();
        taking.open();
        while let Some(batch) = taking.next()? {
            run.bytes += batch.bytes();
            run.routes += batch.carried();
            drop(batch);
            if start.elapsed() >= time || !more() {
                taking.close();
            }
        }
        run.seconds = start.elapsed().as_secs_f64();
        run.used = before.until(&Usage::now(), run.seconds);
        run.latencies = taking.loader.latencies().unwrap_or_default();
        run.count(&Stats::default(), &taking.loader.reader_stats());
        Ok(run)
    }
}

impl Taking {
    /// Lets it read.
    pub fn open(&self) {
        self.gate.pass(Passage::Open);
    }

    /// Lets it begin no read more.
    pub fn close(&self) {
        self.gate.pass(Passage::Over);
    }

    /// The next batch; none behind the last whose reads were begun.
    pub fn next(&mut self) -> Result<Option<Batch>, Failure> {
        match self.loader.blocking().next() {
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(LoaderError { fault: LoaderFault::Dataset(error), .. })) if is_closed(&error) => Ok(None),
            Some(Err(error)) => Err(Failure::of(error)),
            None => Ok(None),
        }
    }
}

impl Drop for Taking {
    /// A loader's thread that waits at the gate would keep its drop waiting.
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use forebay::EngineChoice;

    use super::super::case::{Cache, Pattern};
    use super::*;

    fn batches(file: &tempfile::NamedTempFile, cache: Cache) -> Batches {
        file.as_file().set_len(40 << 20).unwrap();
        let (pattern, route, engine) = (Pattern::Loader, Route::Cached, EngineChoice::Pread);
        let case =
            Case { pattern, device: 0, route, engine, chunk: 150 << 10, depth: 4, threads: 1, cache, iopoll: false };
        Batches::new(&case, &Device::host(), file.path()).unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    #[test]
    fn nothing_is_read_before_the_clock_runs_and_all_that_is_read_is_counted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let batches = batches(&file, Cache::Warm);
        let mut taking = batches.begin(1, 5).unwrap_or_else(|failure| panic!("{failure:?}"));
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(taking.loader.reader_stats(), Stats::default());
        taking.open();
        let mut bytes = 0;
        while let Some(batch) = taking.next().unwrap_or_else(|failure| panic!("{failure:?}")) {
            bytes += batch.bytes();
        }
        assert_eq!(bytes, 5 * batches.batch_size() * (150 << 10));
        assert_eq!(taking.loader.reader_stats().bytes_buffered, bytes);
        // Ended after its first batch, with more under way.
        let run = batches.run(Duration::from_secs(60), 2, &|| false).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert!(run.bytes >= batches.batch_size() * (150 << 10));
        assert_eq!(run.buffered_bytes, run.bytes);
        assert_eq!(run.routes.cached, run.bytes);
        assert!(run.latencies.reads() > 0);
    }

    #[test]
    fn of_a_cold_page_cache_no_more_is_read_than_a_sixteenth() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let batches = batches(&file, Cache::Cold);
        let run = batches.run(Duration::from_secs(60), 3, &|| true).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert!(run.bytes > 0 && run.bytes <= (40 << 20) / 16, "{}", run.bytes);
    }

    #[test]
    fn one_that_was_never_let_in_is_dropped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let taking = batches(&file, Cache::Cold).begin(1, 5).unwrap_or_else(|failure| panic!("{failure:?}"));
        std::thread::sleep(Duration::from_millis(100));
        // What it waits for never comes: a drop that waits for it hangs.
        let (done, dropped) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(taking);
            done.send(())
        });
        assert!(dropped.recv_timeout(Duration::from_secs(20)).is_ok(), "the drop hangs");
    }
}
