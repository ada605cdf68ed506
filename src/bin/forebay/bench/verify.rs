//! Whether the bytes that a route brings are those of the file: a pass of its own, in which no time is taken.

use std::os::unix::fs::FileExt;

use forebay::Extent;

use super::batches::Batches;
use super::bytes::{self, BLOCK, Random};
use super::measure::Rig;
use super::requests::Requests;
use super::target::Target;
use crate::failure::Failure;

/// Pieces that are looked at, and bytes of each at most.
const PIECES: u64 = 48;
const PIECE: u64 = 256 << 10;

/// Holds what a rig brings against what the file is made from, or against plain reads of it. The first offset that differs.
pub fn verify(rig: &Rig, target: &Target, seed: u64) -> Result<Option<u64>, Failure> {
    match rig {
        Rig::Requests(requests) => pieces(requests, target, seed),
        Rig::Batches(batches) => records(batches, target, seed),
    }
}

/// Pieces all over the file, its end among them.
fn pieces(requests: &Requests, target: &Target, seed: u64) -> Result<Option<u64>, Failure> {
    let mut random = Random::new(seed);
    for number in 0..PIECES {
        let len = if number % 2 == 0 { PIECE } else { BLOCK as u64 }.min(target.len);
        let last = (target.len - len) / BLOCK as u64 * BLOCK as u64;
        let offset = if number == 0 { last } else { random.below(last / BLOCK as u64 + 1) * BLOCK as u64 };
        let len = if number == 0 { (target.len - offset).min(PIECE) } else { len };
        let landed =
            requests.carrier.carry_blocking(&[Extent::new(&requests.file, offset, len)]).map_err(Failure::of)?;
        let got = landed.to_host(0).map_err(Failure::of)?;
        let wrong = differs(target, offset, len, &got)?;
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    Ok(None)
}

/// As many records as pieces at least, each at the place that its number says.
fn records(batches: &Batches, target: &Target, seed: u64) -> Result<Option<u64>, Failure> {
    let mut taking = batches.begin(seed, PIECES.div_ceil(batches.batch_size()))?;
    taking.open();
    while let Some(batch) = taking.next()? {
        for (row, record) in batch.indices().iter().enumerate() {
            let (offset, len) = (record * batches.record_bytes(), batches.record_bytes());
            let tensor = batch.tensor("record");
            let got =
                tensor.map_or(Ok(None), |tensor| tensor.row_to_host(row)).map_err(Failure::of)?.unwrap_or_default();
            let wrong = differs(target, offset, len, &got)?;
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
    }
    Ok(None)
}

/// Where the first byte is that is not the file's.
fn differs(target: &Target, offset: u64, len: u64, got: &[u8]) -> Result<Option<u64>, Failure> {
    let want = expected(target, offset, len)?;
    let at = got.iter().zip(&want).position(|(got, want)| got != want);
    let at = at.or((got.len() != want.len()).then_some(got.len().min(want.len())));
    Ok(at.map(|at| offset + at as u64))
}

fn expected(target: &Target, offset: u64, len: u64) -> Result<Vec<u8>, Failure> {
    let within = (offset % BLOCK as u64) as usize;
    let mut want = vec![0; (within + len as usize).next_multiple_of(BLOCK)];
    match target.seed {
        Some(seed) => bytes::fill(&mut want, seed, offset / BLOCK as u64),
        None => {
            let read = target.file.read_exact_at(&mut want[within..within + len as usize], offset);
            read.map_err(|error| {
                Failure::Error(format!(
                    "{} at {offset}: cannot be read to check: {error}; check the drive",
                    target.name
                ))
            })?;
        }
    }
    Ok(want[within..within + len as usize].to_vec())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay::{Device, EngineChoice, Route};

    use super::*;
    use crate::bench::case::{Cache, Case, Pattern};

    /// Of a file of our own by what it is made from, of another's by plain reads: there what differs is the route alone.
    #[test]
    fn a_wrong_byte_is_found_and_its_place_told() {
        let folder = tempfile::tempdir().unwrap();
        let made = Target::own(folder.path(), Some(16 << 20), Duration::MAX, &|| false, &|_, _| ());
        let mut target = made.unwrap_or_else(|failure| panic!("{failure:?}"));
        let wrong = |target: &Target, pattern, chunk| {
            let case = Case {
                pattern,
                device: 0,
                route: Route::Cached,
                engine: EngineChoice::Pread,
                chunk,
                depth: 2,
                threads: 1,
                cache: Cache::Cold,
                iopoll: false,
            };
            let rig = Rig::new(&case, &Device::host(), &target.path).unwrap_or_else(|failure| panic!("{failure:?}"));
            verify(&rig, target, 1).unwrap_or_else(|failure| panic!("{failure:?}"))
        };
        // Records that begin within blocks, and such that are so few that all are looked at.
        assert_eq!(wrong(&target, Pattern::Loader, 150 << 10), None);
        let both = [(Pattern::Random, 64 << 10), (Pattern::Loader, 1 << 20)];
        let all_are = |target: &Target, place| {
            both.iter().for_each(|&(pattern, chunk)| assert_eq!(wrong(target, pattern, chunk), place, "{pattern:?}"));
        };
        all_are(&target, None);
        let place = target.len - 3;
        let mut byte = [0];
        target.file.read_exact_at(&mut byte, place).unwrap();
        target.file.write_all_at(&[!byte[0]], place).unwrap();
        all_are(&target, Some(place));
        target.seed = None;
        all_are(&target, None);
    }
}
