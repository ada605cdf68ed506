//! Whether the bytes that a route brings are those of the file: a pass of its own, in which no time is taken.

use std::os::unix::fs::FileExt;

use forebay::Extent;

use super::bytes::{self, BLOCK, Random};
use super::measure::Rig;
use super::target::Target;
use crate::failure::Failure;

/// Pieces that are looked at, and bytes of each at most.
const PIECES: u64 = 48;
const PIECE: u64 = 256 << 10;

/// Reads pieces all over the file, its end among them, and holds them against what they are made from, or against plain
/// reads of the file. The first offset that differs.
pub fn verify(rig: &Rig, target: &Target, seed: u64) -> Result<Option<u64>, Failure> {
    let mut random = Random::new(seed);
    for number in 0..PIECES {
        let len = if number % 2 == 0 { PIECE } else { BLOCK as u64 }.min(target.len);
        let last = (target.len - len) / BLOCK as u64 * BLOCK as u64;
        let offset = if number == 0 { last } else { random.below(last / BLOCK as u64 + 1) * BLOCK as u64 };
        let len = if number == 0 { (target.len - offset).min(PIECE) } else { len };
        let landed = rig.carrier.carry_blocking(&[Extent::new(&rig.file, offset, len)]).map_err(Failure::of)?;
        let got = landed.to_host(0).map_err(Failure::of)?;
        let want = expected(target, offset, len)?;
        if let Some(at) = got.iter().zip(&want).position(|(got, want)| got != want) {
            return Ok(Some(offset + at as u64));
        }
        if got.len() != want.len() {
            return Ok(Some(offset + got.len().min(want.len()) as u64));
        }
    }
    Ok(None)
}

/// `offset` is a multiple of a block.
fn expected(target: &Target, offset: u64, len: u64) -> Result<Vec<u8>, Failure> {
    let mut want = vec![0; (len as usize).next_multiple_of(BLOCK)];
    match target.seed {
        Some(seed) => bytes::fill(&mut want, seed, offset / BLOCK as u64),
        None => {
            let read = target.file.read_exact_at(&mut want[..len as usize], offset);
            read.map_err(|error| {
                Failure::Error(format!(
                    "{} at {offset}: cannot be read to check: {error}; check the drive",
                    target.name
                ))
            })?;
        }
    }
    want.truncate(len as usize);
    Ok(want)
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
        let case = Case {
            pattern: Pattern::Random,
            route: Route::Cached,
            engine: EngineChoice::Pread,
            chunk: 64 << 10,
            depth: 2,
            threads: 1,
            cache: Cache::Cold,
            iopoll: false,
        };
        let wrong = |target: &Target| {
            let rig = Rig::new(&case, &Device::host(), &target.path).unwrap_or_else(|failure| panic!("{failure:?}"));
            verify(&rig, target, 1).unwrap_or_else(|failure| panic!("{failure:?}"))
        };
        assert_eq!(wrong(&target), None);
        let place = target.len - 3;
        let mut byte = [0];
        target.file.read_exact_at(&mut byte, place).unwrap();
        target.file.write_all_at(&[!byte[0]], place).unwrap();
        assert_eq!(wrong(&target), Some(place));
        target.seed = None;
        assert_eq!(wrong(&target), None);
    }
}
