//! Arrays of numpy's, one a file.

mod descr;
mod header;
mod literal;
#[cfg(test)]
pub(crate) mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use header::{Header, Place, Refused, looks_like, read_header, read_header_in};

use super::error::{DatasetError, DatasetFault};
use super::fingerprint::Fingerprint;
use super::interface::Dataset;
use super::parallel::in_parallel;
use super::parts::{Parts, paths_of, stem};
use super::shape::Shape;
use super::source::{DataFile, Source};
use super::spec::{FileRange, SampleSpec, StoredTensor, StoredTensors, TensorSpec};
use super::text::shown;
use super::whole::Whole;

/// Arrays in numpy's own format (`.npy`), whose samples are their rows.
///
/// Sample `i` is one tensor, `array[i]`, of the shape that the array has without its first dimension. Of several files
/// the rows go on from each to the next; they have one type and shape of a row. The tensor is called after the file,
/// without its extension, where there is one, and `data` where there are several.
///
/// Versions 1.0, 2.0 and 3.0 are read, by the rules of [`numpy.lib.format`] and NEP 1: elements of 1 to 8 bytes that are
/// truth values, integers, floats or complex numbers of two floats of 32 bits, in little-endian order and row by row.
/// Others are refused, with what to do about it; nothing is ever unpickled. A file must end where its array ends.
///
/// [`numpy.lib.format`]: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#[derive(Debug)]
pub struct Npy {
    parts: Parts,
    data_offsets: Vec<u64>,
    row: TensorSpec,
    row_bytes: u64,
}

impl Npy {
    /// Reads the headers of these files.
    ///
    /// # Errors
    /// [`DatasetError`] where a file cannot be read, is not sound, or is of a kind that is not read; where an array has no
    /// rows, since it has no dimensions; and where the rows of two files differ.
    pub fn open(paths: &[impl AsRef<Path>]) -> Result<Self, DatasetError> {
        let paths = &paths_of(paths)[..];
        Self::of(paths, read(paths)?)
    }

    fn of(paths: &[PathBuf], arrays: Vec<Array>) -> Result<Self, DatasetError> {
        let mut parts = Parts::of(paths)?;
        let mut data_offsets = Vec::with_capacity(paths.len());
        let mut row: Option<TensorSpec> = None;
        for Array { file, header: Header { data_offset, .. }, rows } in arrays {
            let (rows, spec) = rows?;
            match &row {
                None => row = Some(spec),
                Some(first) if *first == spec => {}
                Some(first) => {
                    let what = format!(
                        "its rows are {} of {}, and those of {} before it {} of {}",
                        spec.shape,
                        spec.dtype,
                        shown(&paths[0]),
                        first.shape,
                        first.dtype
                    );
                    return Err(DatasetError::setting(file.path(), what, "give files whose rows are alike"));
                }
            }
            parts.push(file, rows)?;
            data_offsets.push(data_offset);
        }
        // There is at least one file.
        let mut row = row.unwrap_or_else(|| TensorSpec::new("", super::DType::U8, [0]));
        row.name = match paths {
            [path] => stem(path).into(),
            _ => "data".into(),
        };
        // A row is a part of an array, whose bytes were counted.
        let row_bytes = row.bytes().unwrap_or(0);
        Ok(Self { parts, data_offsets, row, row_bytes })
    }
}

/// An array, and its rows as samples; in `Err` why it has none.
struct Array {
    file: DataFile,
    header: Header,
    rows: Result<(u64, TensorSpec), DatasetError>,
}

fn read(paths: &[PathBuf]) -> Result<Vec<Array>, DatasetError> {
    in_parallel(paths, |path| {
        let source = Source::open(path)?;
        let header = read_header(&source, stem(path))?;
        let rows = match rows_of(&source, TensorSpec { name: "".into(), ..header.spec.clone() }) {
            Err(error) if matches!(error.fault, DatasetFault::Malformed { .. }) => return Err(error),
            rows => rows,
        };
        Ok(Array { file: source.file, header, rows })
    })
}

/// The arrays of these files, as the samples that their rows make or, where an array has no rows or others than the first,
/// as they are: then there are no samples.
///
/// # Errors
/// As of [`Npy::open`] but for that.
pub(crate) fn open_stored(paths: &[PathBuf]) -> Result<(Box<dyn Dataset>, Option<u64>), DatasetError> {
    let arrays = read(paths)?;
    let row = |array: &Array| array.rows.as_ref().ok().map(|(_, row)| row.clone());
    let first = arrays.first().and_then(row);
    if first.is_some() && arrays.iter().all(|array| row(array) == first) {
        let npy = Npy::of(paths, arrays)?;
        let samples = npy.len();
        return Ok((Box::new(npy), Some(samples)));
    }
    let mut whole = Whole::new("npy");
    for Array { file, header: Header { spec, data_offset }, .. } in arrays {
        whole.push(file, [(spec, data_offset)]);
    }
    Ok((Box::new(whole), None))
}

/// How many rows an array has, and what each is.
fn rows_of(source: &Source, array: TensorSpec) -> Result<(u64, TensorSpec), DatasetError> {
    let rows = array.shape.first().copied();
    let row = array.shape.row().map(|shape| TensorSpec { shape, ..array });
    match (rows, row) {
        (Some(rows), Some(row)) if row.bytes().is_some() => Ok((rows, row)),
        (Some(_), Some(row)) => {
            let what = format!("rows of shape {} have more bytes than can be counted", row.shape);
            Err(source.malformed(0, what, "check where the file comes from"))
        }
        _ => {
            let what = "the array has no dimensions, and so no rows to be samples";
            Err(source.unsupported(0, what, "save numpy.atleast_1d(array)"))
        }
    }
}

impl Dataset for Npy {
    fn len(&self) -> u64 {
        self.parts.len()
    }

    fn files(&self) -> &[DataFile] {
        self.parts.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let (file, row) = self.parts.find(index)?;
        // All rows of a file lie in it, so this is less than its length.
        let offset = self.data_offsets[file] + row * self.row_bytes;
        sample.push(self.row.clone(), [FileRange { file: file as u32, offset, len: self.row_bytes }]);
        Ok(())
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("npy", "", self.len(), self.files())
    }

    fn stored(&self) -> StoredTensors<'_> {
        Box::new(self.parts.iter().map(|(file, data, rows)| {
            let range = FileRange { file: file as u32, offset: self.data_offsets[file], len: rows * self.row_bytes };
            Ok(StoredTensor { spec: array_of(&self.row, rows, stem(data.path())), range })
        }))
    }
}

/// The array that so many rows make.
pub(crate) fn array_of(row: &TensorSpec, rows: u64, name: impl Into<Arc<str>>) -> TensorSpec {
    let mut dims = vec![rows];
    dims.extend_from_slice(&row.shape);
    TensorSpec::new(name, row.dtype, Shape::from(dims))
}
