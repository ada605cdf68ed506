//! Archives of arrays of numpy's.

mod arrays;
mod end;
mod fields;
mod left_out;
mod sums;
#[cfg(test)]
mod tests;
mod zip;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::arrays::Arrays;
use self::left_out::LeftOut;
use self::sums::{MemberSum, Room};
use super::error::DatasetError;
use super::fingerprint::Fingerprint;
use super::interface::Dataset;
use super::npy::{Header, Place, Refused, array_of, read_header_in};
use super::parallel::in_parallel;
use super::parts::{Parts, paths_of};
use super::source::{DataFile, Source};
use super::spec::{FileRange, SampleSpec, StoredTensor, StoredTensors, TensorSpec};
use super::text::{in_message, shown};
use super::verified::{Checksums, RangeCheck};

/// Archives that `numpy.savez` writes (`.npz`): zip files of arrays, whose samples are the rows of all their arrays.
///
/// Sample `i` has a tensor `array[i]` for each array of the archive, in the archive's order, called as the array is; so
/// the arrays of an archive have one first dimension. Of several archives the rows go on from each to the next; they have
/// arrays of the same names, types and shapes of a row, in any order.
///
/// Members must be stored as they are: compressed and encrypted ones are refused by name. Arrays of texts or objects, and
/// members that are no arrays (`numpy.savez` writes none), are left out, with a warning that names them; where nothing else
/// is there they are an error. So are folders and AppleDouble files. ZIP64 is read, and so are archives that were written to
/// a pipe. An archive tells the place of each member twice; where the two
/// differ, where members overlap and where two have one name, it is refused. The arrays follow the rules of [`Npy`](super::Npy). A member's name is a
/// name and nothing else: it never leads to a file.
///
/// **Checksums.** An archive keeps one CRC-32 of each member, and a sample is one row. So the CRCs of rows are added up as they
/// are read, and a member is checked when every row of it was read in this process, and then anew: a whole pass, such as
/// [`pack`](crate::pack::pack) or an epoch on one rank, finds damage before the last row is delivered, and every sample of
/// the archive is an error from then on. A pass over a part, as of one rank among several in one epoch, a subset, or an epoch
/// that drops its last batch, checks nothing that it does not complete; over several epochs a rank comes to read each row. A
/// loader to a device takes the device's routes and checks only what a transform or padding has in host memory.
///
/// Which rows were read takes next to no memory where they come in order, and a bit for each row of each array in a full
/// shuffle, beside a loader's budget. Beyond 64 MiB of that for all archives of a dataset (500 million rows), members are not
/// checked any more, which a warning says once.
#[derive(Debug)]
pub struct Npz {
    parts: Parts,
    /// What a row has of each array.
    rows: Vec<TensorSpec>,
    row_bytes: Vec<u64>,
    /// Where the elements begin: for each file, for each of `rows`.
    data_offsets: Vec<u64>,
    /// The same for their checksums.
    sums: Vec<MemberSum>,
}

impl Npz {
    /// Reads the directories of these archives, and the headers of their members.
    ///
    /// # Errors
    /// [`DatasetError`] where a file cannot be read, is not sound, or has a member of a kind that is not read; where an
    /// archive's arrays are none or differ in their first dimension; and where two archives have other arrays.
    pub fn open(paths: &[impl AsRef<Path>]) -> Result<Self, DatasetError> {
        let paths = &paths_of(paths)[..];
        let archives = read(paths)?;
        left_out::warn(archives.iter().map(|archive| (&archive.file, &archive.left_out)));
        Self::of(paths, archives)
    }

    fn of(paths: &[PathBuf], archives: Vec<Archive>) -> Result<Self, DatasetError> {
        let mut parts = Parts::of(paths)?;
        let mut rows: Vec<TensorSpec> = Vec::new();
        let mut data_offsets = Vec::new();
        let (mut sums, room) = (Vec::new(), Arc::<Room>::default());
        for Archive { file, arrays, rows: in_rows, .. } in archives {
            let (len, fields) = in_rows?;
            let places = if parts.files().is_empty() {
                rows = fields;
                (0..arrays.len()).collect()
            } else {
                matched(&rows, &fields).map_err(|what| {
                    let what = format!("{what} of {} before it", shown(&paths[0]));
                    DatasetError::setting(file.path(), what, "give archives whose arrays are alike")
                })?
            };
            for (row, array) in rows.iter().zip(places.iter().map(|&place| &arrays[place])) {
                data_offsets.push(array.header.data_offset);
                sums.push(MemberSum::new(array, len, row.bytes().unwrap_or(0), &room));
            }
            parts.push(file, len)?;
        }
        // A row is a part of an array, whose bytes were counted.
        let row_bytes = rows.iter().map(|row| row.bytes().unwrap_or(0)).collect();
        Ok(Self { parts, rows, row_bytes, data_offsets, sums })
    }

    /// The members of a file, in the order of `rows`.
    fn sums_of(&self, file: usize) -> &[MemberSum] {
        let first = file * self.rows.len();
        self.sums.get(first..first + self.rows.len()).unwrap_or_default()
    }

    fn data_offset(&self, file: usize, field: usize) -> u64 {
        self.data_offsets[file * self.rows.len() + field]
    }
}

/// The arrays of these archives, as the samples that they make or, where an archive's arrays have not one first dimension,
/// as they are: then there are no samples.
///
/// # Errors
/// As of [`Npz::open`] but for that.
pub(crate) fn open_stored(paths: &[PathBuf]) -> Result<(Box<dyn Dataset>, Option<u64>), DatasetError> {
    let archives = read(paths)?;
    left_out::warn(archives.iter().map(|archive| (&archive.file, &archive.left_out)));
    if archives.iter().all(|archive| archive.rows.is_ok()) {
        let npz = Npz::of(paths, archives)?;
        let samples = npz.len();
        return Ok((Box::new(npz), Some(samples)));
    }
    let mut all = Arrays::default();
    for Archive { file, arrays, .. } in archives {
        all.push(file, arrays);
    }
    Ok((Box::new(all), None))
}

struct Archive {
    file: DataFile,
    arrays: Vec<Array>,
    left_out: LeftOut,
    /// How many rows the arrays have, and what each has of a row; in `Err` why they have none.
    rows: Result<(u64, Vec<TensorSpec>), DatasetError>,
}

fn read(paths: &[PathBuf]) -> Result<Vec<Archive>, DatasetError> {
    in_parallel(paths, |path| {
        let source = Source::open(path)?;
        let (arrays, left_out) = read_arrays(&source)?;
        check_rows(&source, &arrays)?;
        check_empty(&source, &arrays)?;
        let rows = fields_of(&source, &arrays);
        Ok(Archive { file: source.file, arrays, left_out, rows })
    })
}

/// An array in an archive.
#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) header: Header,
    /// Where the archive tells of it.
    entry: u64,
    /// Where its member's bytes begin, and their CRC-32.
    start: u64,
    crc: u32,
}

impl Array {
    /// Its checksum, where it is read whole.
    fn sum(&self, room: &Arc<Room>) -> MemberSum {
        MemberSum::new(self, 1, self.header.spec.bytes().unwrap_or(0), room)
    }
}

/// Whether a file that begins so is an archive.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06")
}

/// The arrays of an archive, in its order, and what else is in it.
fn read_arrays(source: &Source) -> Result<(Vec<Array>, LeftOut), DatasetError> {
    let zip::Members { members, apple_doubles } = zip::members(source)?;
    let mut left_out = LeftOut { apple_doubles, ..LeftOut::default() };
    let mut arrays = Vec::with_capacity(members.len());
    let mut seen = HashSet::with_capacity(members.len());
    for member in members {
        let Some(name) = member.name.strip_suffix(".npy") else {
            let fix = "leave it out; if this is a checkpoint of PyTorch's, save it as safetensors";
            left_out.push(member.name, source.unsupported(member.entry, "it is no array", fix));
            continue;
        };
        let name: Arc<str> = name.into();
        if !seen.insert(Arc::clone(&name)) {
            let what = format!("two members are called {}", in_message(member.name.as_bytes()));
            return Err(source.malformed(member.entry, what, zip::REWRITE));
        }
        let place = Place { start: member.start, end: member.start + member.len };
        match read_header_in(source, place, name) {
            Ok(header) => {
                arrays.push(Array { header, entry: member.entry, start: member.start, crc: member.crc });
            }
            Err(Refused::NoNumbers(error)) => left_out.push(member.name, error),
            Err(Refused::Other(error)) => return Err(error),
        }
    }
    match left_out.first_where(arrays.is_empty()) {
        Some(error) => Err(error),
        None => Ok((arrays, left_out)),
    }
}

/// Of an array without elements nothing will be read: it is checked now.
fn check_empty(source: &Source, arrays: &[Array]) -> Result<(), DatasetError> {
    let room = Arc::default();
    arrays.iter().try_for_each(|array| array.sum(&room).check_empty(source))
}

/// An array without rows may have rows that are too large for any file.
fn check_rows(source: &Source, arrays: &[Array]) -> Result<(), DatasetError> {
    for Header { spec, data_offset, .. } in arrays.iter().map(|array| &array.header) {
        if let Some(shape) = spec.shape.row().filter(|row| row.bytes(spec.dtype).is_none()) {
            let what = format!("rows of shape {shape} have more bytes than can be counted");
            return Err(source.malformed(*data_offset, what, zip::REWRITE));
        }
    }
    Ok(())
}

/// How many rows the arrays have, and what each has of a row.
fn fields_of(source: &Source, arrays: &[Array]) -> Result<(u64, Vec<TensorSpec>), DatasetError> {
    let mut fields = Vec::with_capacity(arrays.len());
    let mut len: Option<(u64, &str)> = None;
    for Array { header: Header { spec, .. }, entry, .. } in arrays {
        let row = spec.shape.row().map(|shape| TensorSpec { shape, ..spec.clone() });
        let (Some(&rows), Some(row)) = (spec.shape.first(), row) else {
            let what = format!(
                "array {} has no dimensions, and so no rows to be in samples",
                in_message(spec.name.as_bytes())
            );
            return Err(source.unsupported(*entry, what, "save numpy.atleast_1d(array), or leave it out"));
        };
        match len {
            Some((others, name)) if others != rows => {
                let what = format!(
                    "array {} has {others} rows and array {} has {rows}",
                    in_message(name.as_bytes()),
                    in_message(spec.name.as_bytes())
                );
                return Err(source.unsupported(*entry, what, "save arrays of one first dimension"));
            }
            _ => len = Some((rows, &spec.name)),
        }
        fields.push(row);
    }
    match len {
        Some((rows, _)) => Ok((rows, fields)),
        None => Err(source.unsupported(0, "the archive has no arrays", "leave it out")),
    }
}

/// Where each of `wanted` is among `fields`, or in words what is different.
fn matched(wanted: &[TensorSpec], fields: &[TensorSpec]) -> Result<Vec<usize>, String> {
    if wanted.len() != fields.len() {
        return Err(format!("it has {} arrays, and not the {}", fields.len(), wanted.len()));
    }
    let places: HashMap<&str, usize> = fields.iter().enumerate().map(|(i, field)| (&*field.name, i)).collect();
    let place_of = |field: &TensorSpec| match places.get(&*field.name) {
        Some(&place) if fields[place] == *field => Ok(place),
        Some(&place) => {
            let other = &fields[place];
            Err(format!(
                "the rows of its array {} are {} of {}, and not the {} of {}",
                in_message(field.name.as_bytes()),
                other.shape,
                other.dtype,
                field.shape,
                field.dtype
            ))
        }
        None => Err(format!("it has no array {}, unlike those", in_message(field.name.as_bytes()))),
    };
    wanted.iter().map(place_of).collect()
}

impl Dataset for Npz {
    fn len(&self) -> u64 {
        self.parts.len()
    }

    fn files(&self) -> &[DataFile] {
        self.parts.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let (file, row) = self.parts.find(index)?;
        for (field, (spec, &len)) in self.rows.iter().zip(&self.row_bytes).enumerate() {
            // All rows of an array lie in its file, so this is less than the file's length.
            let offset = self.data_offset(file, field) + row * len;
            sample.push(spec.clone(), [FileRange { file: file as u32, offset, len }]);
        }
        Ok(())
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("npz", "", self.len(), self.files())
    }

    fn checksums(&self) -> Checksums {
        Checksums::Members
    }

    fn check(&self, index: u64, fields: &[&[u8]]) -> Result<(), DatasetError> {
        let (number, row) = self.parts.find(index)?;
        let Some(file) = self.files().get(number) else { return Ok(()) };
        self.sums_of(number).iter().zip(fields).try_for_each(|(sum, bytes)| sum.check_row(file, row, bytes))
    }

    fn check_range(&self, range: FileRange) -> Option<Box<dyn RangeCheck + '_>> {
        let file = self.files().get(range.file as usize)?;
        self.sums_of(range.file as usize).iter().find_map(|sum| sum.check_range(file, range))
    }

    fn stored(&self) -> StoredTensors<'_> {
        Box::new(self.parts.iter().flat_map(move |(file, _, rows)| {
            self.rows.iter().zip(&self.row_bytes).enumerate().map(move |(field, (row, row_bytes))| {
                let offset = self.data_offset(file, field);
                let range = FileRange { file: file as u32, offset, len: rows * row_bytes };
                Ok(StoredTensor { spec: array_of(row, rows, Arc::clone(&row.name)), range })
            })
        }))
    }
}
