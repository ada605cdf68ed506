//! What is asked for.
use std::path::{Path, PathBuf};
use std::thread;

use forebay::Extent;

use crate::common::carrier::Subject;
use crate::common::reader::{self, Ask, BUDGET, CHUNK, ask};
use crate::common::{Rng, data};
use crate::row::Row;
use crate::site::{DirectIo, EVEN, OVER_2G, OVER_4G, RAGGED, Site, Tally};

pub struct Case {
    pub name: &'static str,
    pub run: fn(&Bench) -> Result<Tally, String>,
    /// Of few bytes and few requests.
    pub is_quick: bool,
}

pub const ALL: &[Case] = &[
    Case { name: "ragged offsets and lengths", run: ragged, is_quick: false },
    Case { name: "ragged extents one by one", run: one_by_one, is_quick: false },
    Case { name: "tiny files", run: tiny, is_quick: true },
    Case { name: "zero-length extents", run: nothing, is_quick: true },
    Case { name: "whole files", run: whole, is_quick: true },
    Case { name: "around 2 GiB and 4 GiB", run: boundaries, is_quick: false },
    Case { name: "many small extents over many files", run: many, is_quick: false },
    Case { name: "duplicates and overlaps", run: overlaps, is_quick: true },
    Case { name: "concurrent threads", run: threads, is_quick: false },
    Case { name: "concurrent tasks", run: tasks, is_quick: true },
    Case { name: "a stream of parts", run: stream, is_quick: false },
    Case { name: "past the end", run: past_the_end, is_quick: false },
    Case { name: "over the budget", run: over_budget, is_quick: true },
];

pub struct Bench<'a> {
    pub site: &'a Site,
    pub row: &'a Row,
    pub subject: &'a Subject,
}

impl Bench<'_> {
    /// Reads the asks as one request and compares every byte, or sees that it is refused where it must be.
    fn expect(&self, asks: &[Ask]) -> Result<Tally, String> {
        let may = self.verdict(asks);
        let got = match (self.subject.read_asks(asks), may) {
            (Ok(_), DirectIo::MustBeRefused) => {
                return Err("read directly where no direct I/O is possible".into());
            }
            (Ok(got), _) => got,
            (Err(error), DirectIo::MustWork) => return Err(error),
            (Err(error), _) => return self.refusal(asks, &error),
        };
        for (ask, got) in asks.iter().zip(&got) {
            let want = self.site.want(&ask.path, ask.offset, ask.len);
            data::same(got, &want, ask.offset).map_err(|wrong| format!("{}: {wrong}", ask.path.display()))?;
        }
        let bytes = got.iter().map(|piece| piece.len() as u64).sum();
        Ok(Tally { extents: asks.len() as u64, bytes, refused: 0 })
    }

    fn verdict(&self, asks: &[Ask]) -> DirectIo {
        if !self.row.is_direct_forced() {
            return DirectIo::MustWork;
        }
        let mut verdict = DirectIo::MustWork;
        for ask in asks {
            match self.row.direct_io(self.site, &ask.path) {
                DirectIo::MustWork => {}
                // Reading nothing needs no direct I/O, but opening the file may already be refused.
                DirectIo::MustBeRefused if ask.len > 0 => return DirectIo::MustBeRefused,
                DirectIo::MustBeRefused | DirectIo::MayWork => verdict = DirectIo::MayWork,
            }
        }
        verdict
    }

    /// A clean refusal names the file that it is about.
    fn refusal(&self, asks: &[Ask], error: &str) -> Result<Tally, String> {
        let named = asks.iter().any(|ask| reader::names_path(error, &ask.path).is_ok());
        if named {
            Ok(Tally { refused: 1, ..Tally::default() })
        } else {
            Err(format!("refused without a path: {error}"))
        }
    }

    fn each(&self, asks: &[Ask]) -> Result<Tally, String> {
        let mut tally = Tally::default();
        for ask in asks {
            tally += self.expect(std::slice::from_ref(ask)).map_err(|wrong| format!("{ask:?}: {wrong}"))?;
        }
        Ok(tally)
    }

    /// The files that can be read in this row.
    fn readable<'p>(&self, paths: &'p [PathBuf]) -> Vec<&'p PathBuf> {
        let refused = |path: &Path| self.verdict(&[ask(path, 0, 1)]) == DirectIo::MustBeRefused;
        paths.iter().filter(|path| !refused(path)).collect()
    }
}

/// Offsets and lengths on, just before and just after everything that rounds.
fn edges() -> Vec<u64> {
    let around = |at: u64| [at - 1, at, at + 1];
    [512, 4096, CHUNK, 2 * CHUNK].into_iter().flat_map(around).chain([0, 1, RAGGED / 2, RAGGED - 1]).collect()
}

fn lengths() -> [u64; 11] {
    [0, 1, 7, 511, 512, 513, 4095, 4096, 4097, CHUNK - 1, CHUNK + 1]
}

fn ragged_asks(site: &Site) -> Vec<Ask> {
    let mut asks = Vec::new();
    for offset in edges() {
        asks.extend(lengths().map(|len| ask(&site.ragged, offset, len.min(RAGGED - offset))));
        asks.push(ask(&site.ragged, offset, RAGGED - offset));
    }
    asks
}

fn ragged(bench: &Bench) -> Result<Tally, String> {
    bench.expect(&ragged_asks(bench.site))
}

fn one_by_one(bench: &Bench) -> Result<Tally, String> {
    let all = ragged_asks(bench.site);
    bench.each(&all.into_iter().step_by(5).collect::<Vec<_>>())
}

fn tiny(bench: &Bench) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for path in &bench.site.tiny {
        let len = bench.site.len(path);
        tally += bench.each(&[ask(path, 0, len), ask(path, len / 2, len - len / 2), ask(path, 0, len / 2)])?;
    }
    Ok(tally)
}

fn nothing(bench: &Bench) -> Result<Tally, String> {
    let (file, empty) = (&bench.site.ragged, &bench.site.tiny[0]);
    let mut tally = bench.each(&[ask(file, 0, 0), ask(file, 4097, 0), ask(file, RAGGED, 0), ask(empty, 0, 0)])?;
    tally += bench.expect(&[ask(file, 3, 0), ask(file, 3, 5), ask(file, 8, 0)])?;
    tally += bench.expect(&[])?;
    Ok(tally)
}

fn whole(bench: &Bench) -> Result<Tally, String> {
    let (ragged, even) = (&bench.site.ragged, &bench.site.even);
    let mut tally = bench.each(&[ask(ragged, 0, RAGGED), ask(even, 0, EVEN)])?;
    tally += bench.expect(&[ask(even, 0, EVEN), ask(ragged, 0, RAGGED)])?;
    Ok(tally)
}

fn boundaries(bench: &Bench) -> Result<Tally, String> {
    let mut asks = Vec::new();
    for (path, len) in [(&bench.site.over_2g, OVER_2G), (&bench.site.over_4g, OVER_4G)] {
        for at in [data::MAX_RW, 1 << 31, 1 << 32].into_iter().filter(|&at| at < len) {
            asks.extend([ask(path, at, 1), ask(path, at - 1, 2), ask(path, at - 512, 513)]);
            let start = at - CHUNK - 4097;
            asks.push(ask(path, start, (2 * CHUNK + 9001).min(len - start)));
        }
        asks.extend([ask(path, len - 1, 1), ask(path, len - 4097, 4097), ask(path, len - CHUNK - 3, CHUNK + 3)]);
    }
    let mut tally = bench.expect(&asks)?;
    tally += bench.each(&asks.into_iter().step_by(3).collect::<Vec<_>>())?;
    Ok(tally)
}

fn many(bench: &Bench) -> Result<Tally, String> {
    let mut rng = Rng::new(300);
    let mut asks = Vec::new();
    for path in bench.readable(&bench.site.many) {
        let len = bench.site.len(path);
        asks.push(ask(path, 0, len));
        for _ in 0..3 {
            let offset = rng.below(len);
            asks.push(ask(path, offset, rng.below(len - offset) + 1));
        }
    }
    rng.shuffle(&mut asks);
    bench.expect(&asks)
}

fn overlaps(bench: &Bench) -> Result<Tally, String> {
    let file = &bench.site.ragged;
    let mut asks = vec![
        ask(file, 1000, 5000),
        ask(file, 1000, 5000),
        ask(file, 0, RAGGED),
        ask(file, 999, 5002),
        ask(file, 3000, 1),
        ask(file, CHUNK - 10, 20),
        ask(file, CHUNK - 10, CHUNK + 20),
        ask(file, 0, RAGGED),
    ];
    let mut tally = bench.expect(&asks)?;
    asks.reverse();
    tally += bench.expect(&asks)?;
    Ok(tally)
}

/// Random requests of one caller among many: few enough bytes that all callers fit the budget together.
fn caller_asks(bench: &Bench, caller: u64, round: u64) -> Vec<Ask> {
    let mut rng = Rng::new(caller * 1000 + round + 1);
    let random = |rng: &mut Rng| {
        let offset = rng.below(RAGGED);
        ask(&bench.site.ragged, offset, rng.below((RAGGED - offset).min(2 * CHUNK)) + 1)
    };
    (0..4).map(|_| random(&mut rng)).collect()
}

fn threads(bench: &Bench) -> Result<Tally, String> {
    let results: Vec<Result<Tally, String>> = thread::scope(|scope| {
        let callers = (0..4).map(|caller| {
            scope.spawn(move || {
                let mut tally = Tally::default();
                for round in 0..8 {
                    tally += bench.expect(&caller_asks(bench, caller, round))?;
                }
                Ok(tally)
            })
        });
        let callers: Vec<_> = callers.collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    results.into_iter().try_fold(Tally::default(), |mut sum, one| {
        sum += one?;
        Ok(sum)
    })
}

/// Eight tasks with a request each in flight, on a runtime of two threads.
fn tasks(bench: &Bench) -> Result<Tally, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let requests: Vec<Vec<Ask>> = (0..8).map(|caller| caller_asks(bench, caller, 100)).collect();
    let tasks = requests.iter().cloned().map(|asks| {
        let subject = bench.subject.clone();
        runtime.spawn(async move { subject.read_later(&subject.extents(&asks)?).await })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut tally = Tally::default();
    for (asks, task) in requests.iter().zip(tasks) {
        match (runtime.block_on(task).unwrap(), bench.verdict(asks)) {
            (Ok(pieces), _) => {
                for (ask, got) in asks.iter().zip(pieces.iter()) {
                    data::same(got, &bench.site.want(&ask.path, ask.offset, ask.len), ask.offset)?;
                    tally += Tally { extents: 1, bytes: ask.len, refused: 0 };
                }
            }
            (Err(error), DirectIo::MustWork) => return Err(error),
            (Err(error), _) => tally += bench.refusal(asks, &error)?,
        }
    }
    Ok(tally)
}

fn stream(bench: &Bench) -> Result<Tally, String> {
    let asks = [ask(&bench.site.ragged, 5, RAGGED - 5), ask(&bench.site.even, 0, EVEN), ask(&bench.site.ragged, 0, 1)];
    let mut got = Vec::new();
    let mut run = || -> Result<(), String> {
        let extents = bench.subject.extents(&asks)?;
        let Subject::Reads(reader) = bench.subject else {
            got = bench.subject.read(&extents)?.concat();
            return Ok(());
        };
        let mut stream = reader.stream(extents);
        while let Some(part) = stream.next_blocking() {
            got.extend_from_slice(&part.map_err(|e| e.to_string())?);
        }
        Ok(())
    };
    match (run(), bench.verdict(&asks)) {
        (Ok(()), _) => {}
        (Err(error), DirectIo::MustWork) => return Err(error),
        (Err(error), _) => return bench.refusal(&asks, &error),
    }
    let want: Vec<u8> = asks.iter().flat_map(|ask| bench.site.want(&ask.path, ask.offset, ask.len)).collect();
    data::same(&got, &want, 0)?;
    Ok(Tally { extents: asks.len() as u64, bytes: got.len() as u64, refused: 0 })
}

fn past_the_end(bench: &Bench) -> Result<Tally, String> {
    let (file, empty) = (&bench.site.ragged, &bench.site.tiny[0]);
    let asks = [
        ask(file, 0, RAGGED + 1),
        ask(file, RAGGED, 1),
        ask(file, RAGGED - 1, 2),
        ask(file, RAGGED + 1, 0),
        ask(file, RAGGED + 4096, 4096),
        ask(file, u64::MAX, 1),
        ask(file, 1, u64::MAX),
        ask(file, 1 << 63, 1 << 63),
        ask(empty, 0, 1),
        ask(&bench.site.over_4g, OVER_4G - 1, 2),
    ];
    for ask in &asks {
        let good = Ask { offset: 0, len: 1, path: file.clone() };
        for list in [vec![ask.clone()], vec![good, ask.clone()]] {
            let error = match bench.subject.read_asks(&list) {
                Ok(_) => return Err(format!("{ask:?} was not refused")),
                Err(error) => error,
            };
            if bench.verdict(&list) == DirectIo::MustWork {
                reader::names_offset(&error, &ask.path)?;
            } else {
                bench.refusal(&list, &error)?;
            }
        }
    }
    Ok(Tally { refused: 2 * asks.len() as u64, ..Tally::default() })
}

/// Refused before the first read, so with no more memory than before, and the reader goes on working.
fn over_budget(bench: &Bench) -> Result<Tally, String> {
    let path = &bench.site.over_4g;
    if bench.verdict(&[ask(path, 0, 1)]) != DirectIo::MustWork {
        return Ok(Tally::default());
    }
    let file = bench.subject.open(path)?;
    for len in [BUDGET + 1, 3 << 30] {
        let error = match bench.subject.read(&[Extent::new(&file, 0, len)]) {
            Ok(_) => return Err(format!("{len} bytes were read under a budget of {BUDGET}")),
            Err(error) => error,
        };
        if !error.contains(|c: char| c.is_ascii_digit()) {
            return Err(format!("the refusal does not name the numbers: {error}"));
        }
    }
    let mut tally = bench.expect(&[ask(path, 0, CHUNK)])?;
    tally.refused += 2;
    Ok(tally)
}
