use std::collections::HashMap;

use super::key_table::KeyTable;
use super::shard::Shard;
use crate::dataset::error::DatasetError;
use crate::dataset::key::{is_apple_double, is_meta, split};
use crate::dataset::source::Source;
use crate::dataset::tar::{self, Kind, Link, Member, Places};
use crate::dataset::text::in_message;

/// Indexes an archive by its headers: in one walk where it has no links to members, and in three where it has some.
pub(super) fn build(source: &Source) -> Result<Shard, DatasetError> {
    let mut building = Building::new();
    let mut links = Vec::new();
    let end = tar::each_member(source, &mut |member| {
        links.extend(Link::of(&member));
        building.take(source, &Places::new(), member)
    })?;
    end.warn(source);
    if !links.is_empty() {
        let places = tar::resolve(source, &links)?;
        drop((std::mem::replace(&mut building, Building::new()), links));
        tar::each_member(source, &mut |member| building.take(source, &places, member))?;
    }
    building.finish(source)
}

/// A shard as it is while members come in any order.
#[derive(Debug)]
struct Building {
    shard: Shard,
    /// For each member the sample that it belongs to.
    samples: Vec<u32>,
    by_key: KeyTable,
    by_ext: HashMap<Box<[u8]>, u32>,
    /// Whether all members of a sample followed one another.
    is_grouped: bool,
}

impl Building {
    fn new() -> Self {
        Self {
            shard: Shard::default(),
            samples: Vec::new(),
            by_key: KeyTable::with_room_for(0),
            by_ext: HashMap::new(),
            is_grouped: true,
        }
    }

    /// Takes a member; `places` are those of links.
    fn take(&mut self, source: &Source, places: &Places, member: Member<'_>) -> Result<(), DatasetError> {
        if is_apple_double(member.name) {
            self.shard.left_out.apple_doubles.add(&member);
            return Ok(());
        }
        if is_meta(member.name) {
            return Ok(());
        }
        let Some((key, ext)) = split(member.name) else { return Ok(()) };
        let (data, size) = match member.kind {
            Kind::File => (member.data, member.size),
            Kind::HardLink(_) | Kind::SymbolicLink(_) => match places.get(&member.at) {
                Some(&place) => place,
                None => {
                    self.shard.left_out.links.add(&member);
                    return Ok(());
                }
            },
            Kind::Other => {
                self.shard.left_out.others.add(&member);
                return Ok(());
            }
        };
        if self.samples.len() >= u32::MAX as usize {
            let what = "an archive of more than 4294967295 members";
            return Err(source.unsupported(member.data, what, "split it into several shards"));
        }
        let sample = self.sample_of(key);
        let ext = self.number_of(ext);
        self.samples.push(sample);
        self.shard.offsets.push(data);
        self.shard.sizes.push(size);
        self.shard.exts.push(ext);
        Ok(())
    }

    /// Members are fewer than a `u32` counts, and so are samples and extensions.
    fn sample_of(&mut self, key: &[u8]) -> u32 {
        let samples = self.shard.key_ends.len();
        // Nearly always it is the sample of the member before.
        if let (Some(last), Some(&before)) = (samples.checked_sub(1), self.samples.last())
            && before as usize == last
            && self.shard.key(last) == key
        {
            return before;
        }
        let shard = &self.shard;
        match self.by_key.find_or_put(key, samples as u64, |number| shard.key(number as usize)) {
            Some(known) => {
                self.is_grouped &= self.samples.last() == Some(&(known as u32));
                known as u32
            }
            None => {
                self.shard.keys.extend_from_slice(key);
                self.shard.key_ends.push(self.shard.keys.len() as u64);
                samples as u32
            }
        }
    }

    fn number_of(&mut self, ext: &[u8]) -> u32 {
        if let Some(&number) = self.by_ext.get(ext) {
            return number;
        }
        let number = self.shard.ext_bytes.len() as u32;
        self.shard.ext_bytes.push(ext.into());
        self.by_ext.insert(ext.into(), number);
        number
    }

    fn finish(mut self, source: &Source) -> Result<Shard, DatasetError> {
        drop((std::mem::replace(&mut self.by_key, KeyTable::with_room_for(0)), std::mem::take(&mut self.by_ext)));
        if !self.is_grouped {
            self.group();
        }
        let Self { mut shard, samples, .. } = self;
        check_duplicates(source, &shard, &samples)?;
        shard.member_ends.reserve_exact(shard.key_ends.len());
        shard.member_ends.extend(ends_of_runs(&samples));
        shard.keys.shrink_to_fit();
        shard.key_ends.shrink_to_fit();
        shard.offsets.shrink_to_fit();
        shard.sizes.shrink_to_fit();
        shard.exts.shrink_to_fit();
        Ok(shard)
    }

    /// Puts members of one sample together, which keep the order of the archive.
    fn group(&mut self) {
        let mut order: Vec<u32> = (0..self.samples.len() as u32).collect();
        order.sort_by_key(|&member| self.samples[member as usize]);
        let by_order = |of: usize| order[of] as usize;
        let members = 0..order.len();
        self.samples = members.clone().map(|i| self.samples[by_order(i)]).collect();
        self.shard.offsets = members.clone().map(|i| self.shard.offsets[by_order(i)]).collect();
        self.shard.sizes = members.clone().map(|i| self.shard.sizes[by_order(i)]).collect();
        self.shard.exts = members.map(|i| self.shard.exts[by_order(i)]).collect();
    }
}

/// Where each run of equal numbers ends.
fn ends_of_runs(samples: &[u32]) -> impl Iterator<Item = u32> {
    let lasts = samples.iter().zip(samples.iter().skip(1).map(Some).chain([None]));
    lasts.enumerate().filter(|(_, (sample, next))| Some(*sample) != *next).map(|(i, _)| i as u32 + 1)
}

/// A field that a sample has twice cannot be told from the other.
fn check_duplicates(source: &Source, shard: &Shard, samples: &[u32]) -> Result<(), DatasetError> {
    // The last member of each extension.
    let mut last = vec![None; shard.ext_bytes.len()];
    for (member, (&sample, &ext)) in samples.iter().zip(&shard.exts).enumerate() {
        let before = last[ext as usize].replace(member);
        let Some(before) = before.filter(|&before| samples[before] == sample) else { continue };
        let [first, second] = [before, member].map(|member| header_of(shard.offsets[member]));
        let (key, ext) = (in_message(shard.key(sample as usize)), in_message(&shard.ext_bytes[ext as usize]));
        let what = format!("sample {key} has {ext} twice, at {first} and at {second}");
        return Err(source.malformed(second, what, "write the archive again with each name once"));
    }
    Ok(())
}

fn header_of(data: u64) -> u64 {
    data.saturating_sub(tar::BLOCK as u64)
}
