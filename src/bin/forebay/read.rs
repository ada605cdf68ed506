//! `forebay read`: the batches of a dataset, read as training would have them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::dataset::{DataFile, Dataset, open};
use forebay::loader::{LoaderError, LoaderFault};
use forebay::{Carrier, Loader, RouteBytes};

use crate::args::{self, Common};
use crate::batches::{self, Lines, Summary};
use crate::byte_count::{counted, rate, shown};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::loader_flags::Beginning;
use crate::stderr::Progress;
use crate::{carrier, hashes, stderr};

pub fn run(common: &Common, read: &args::Read) -> Outcome {
    let dataset: Arc<dyn Dataset> = open(&read.paths, &read.flags.dataset.options()).map_err(Failure::of)?.into();
    let beginning = read.flags.begin(&dataset)?;
    // What order there is not, the flags say better than the loader.
    read.flags.sampler(&beginning, dataset.len())?;
    let start = Instant::now();
    let mut loader = loader(common, read, &dataset, &beginning)?;
    let saver = beginning.saver(|| loader.state())?;
    let mut lines = Lines::open(common.json, saver.clone())?;
    let stopper = loader.stopper();
    let interrupt = Interrupt::stopping(move || stopper.stop(), saver.clone())?;

    let mut run =
        Run { read, dataset: &*dataset, end: None, summary: Summary::default(), routes: RouteBytes::default() };
    let outcome = run.batches(&mut loader, &mut lines, &interrupt);
    let saved = saver.map_or(Ok(()), |saver| saver.finish(run.end.take()));
    if let Err(Failure::Error(_)) = outcome {
        return outcome;
    }
    saved?;
    if !matches!(outcome, Err(Failure::StdoutClosed)) {
        let summary = run.summed_up(&loader, start.elapsed());
        lines.summary(&summary, &in_words(&summary, &loader))?;
    }
    outcome
}

fn loader(
    common: &Common,
    read: &args::Read,
    dataset: &Arc<dyn Dataset>,
    beginning: &Beginning,
) -> Result<Loader, Failure> {
    let flags = &read.flags;
    let device = carrier::device(common)?;
    let reader = carrier::reader(common, &device, dataset.files().first().map(DataFile::path))?;
    let mut builder = Loader::builder(Arc::clone(dataset))
        .device(&device)
        .carrier(carrier::routed(Carrier::builder().reader(reader), common.route))
        .batch_size(flags.batch_size)
        .shuffle(beginning.shuffle)
        .seed(beginning.seed)
        .epochs(flags.epochs)
        .world(beginning.world)
        .remainder(flags.remainder)
        .drop_last(flags.drop_last)
        .missing(flags.missing.into());
    if let Some(budget) = common.budget {
        builder = builder.budget(budget.0).device_budget(budget.0);
    }
    if let Some(threads) = flags.workers {
        builder = builder.workers(threads);
    }
    if let Some(batches) = flags.prefetch {
        builder = builder.prefetch(batches);
    }
    if let Some(state) = &beginning.resumed {
        builder = builder.resume(state.clone());
    }
    if flags.skip_corrupt > 0 {
        builder = builder.skip_corrupt(flags.skip_corrupt);
    }
    builder.build().map_err(Failure::of)
}

/// What has become of the batches that were printed.
struct Run<'a> {
    read: &'a args::Read,
    dataset: &'a dyn Dataset,
    /// Where the loader stands once it has no more batches.
    end: Option<forebay::State>,
    summary: Summary,
    routes: RouteBytes,
}

impl Run<'_> {
    fn batches(&mut self, loader: &mut Loader, lines: &mut Lines, interrupt: &Interrupt) -> Outcome {
        let most = self.read.flags.max_batches.unwrap_or(u64::MAX);
        let progress = Progress::of_batches(loader.batches_in_all().unwrap_or(u64::MAX).min(most));
        while self.summary.batches < most {
            let Some(batch) = loader.blocking().next() else {
                // Behind the last batch there may have been some of which all samples were skipped.
                self.end = Some(loader.state());
                break;
            };
            let batch = batch.map_err(|error| failure(error, interrupt))?;
            let sha256 = self.read.hash.then(|| hashes::of(&batch, self.dataset)).transpose()?;
            let line = batches::Batch {
                epoch: batch.epoch(),
                batch: batch.number(),
                ids: batch.ids().collect(),
                bytes: batch.bytes(),
                padded: batch.padded(),
                sha256,
            };
            lines.batch(&line, || batch.state())?;
            stderr::around_bar(|| lines.flush())?;
            self.summary.count(&line);
            self.routes += batch.carried();
            progress.advance(1);
        }
        Ok(())
    }

    fn summed_up(&self, loader: &Loader, time: Duration) -> Summary {
        Summary {
            seconds: time.as_secs_f64(),
            routes: self.routes.by_name().map(|(route, bytes)| (route.to_owned(), bytes)).collect(),
            engine: Some(loader.engine().to_string()),
            mode: mode(&self.routes).map(str::to_owned),
            stall_seconds: loader.stats().stalls.total().as_secs_f64(),
            skipped_corrupt: loader.stats().skipped,
            skipped_missing: loader.stats().missing,
            ..self.summary.clone()
        }
    }
}

fn failure(error: LoaderError, interrupt: &Interrupt) -> Failure {
    match error.fault {
        LoaderFault::Stopped if interrupt.has_come() => Failure::Interrupted,
        _ => Failure::of(error),
    }
}

/// Whether bytes came past the page cache or through it; `None` where there were none.
fn mode(routes: &RouteBytes) -> Option<&'static str> {
    match (routes.direct + routes.bounce, routes.direct_compat + routes.cached) {
        (0, 0) => None,
        (_, 0) => Some("direct"),
        (0, _) => Some("buffered"),
        _ => Some("mixed"),
    }
}

fn in_words(summary: &Summary, loader: &Loader) -> String {
    let routes: Vec<String> =
        summary.routes.iter().map(|(route, bytes)| format!("{} by {route}", shown(*bytes))).collect();
    let routes = if routes.is_empty() { "nothing to carry".to_owned() } else { routes.join(", ") };
    let per_second = if summary.seconds > 0.0 { summary.bytes as f64 / summary.seconds } else { 0.0 };
    let skipped = match summary.skipped_corrupt {
        0 => String::new(),
        skipped => format!("; {} skipped", counted(skipped, "corrupt sample")),
    } + &summary.missing_in_words();
    format!(
        "{} in {:.3} s to {}: {} ({routes}); {:.3} s of waiting for data{skipped}",
        summary.in_words(),
        summary.seconds,
        loader.device(),
        rate(per_second),
        summary.stall_seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_of_the_bytes_and_of_nothing_when_there_are_none() {
        let modes = |bounce, cached| {
            let mut routes = RouteBytes::default();
            (routes.bounce, routes.cached) = (bounce, cached);
            mode(&routes)
        };
        assert_eq!(
            [modes(0, 0), modes(5, 0), modes(0, 5), modes(5, 5)],
            [None, Some("direct"), Some("buffered"), Some("mixed")]
        );
    }
}
