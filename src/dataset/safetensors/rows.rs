//! Tensors as a dataset: those that share their first dimension, sample i being row i of each.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::dataset::ends::Ends;
use crate::dataset::error::DatasetError;
use crate::dataset::source::DataFile;
use crate::dataset::spec::{FileRange, SampleSpec, StoredTensor, TensorSpec};
use crate::dataset::text::shown;

/// Runs of rows, one after the other: each of a file, or of all files of an index.
#[derive(Debug)]
pub(super) struct Rows {
    ends: Ends,
    /// For each run where the first row of each field lies.
    columns: Vec<Vec<FileRange>>,
    /// Of one row, in the order of the first run's data; the same in every run.
    fields: Vec<TensorSpec>,
}

/// The fields of one run: of each one row, and where the first lies.
struct Table {
    rows: u64,
    columns: Vec<(TensorSpec, FileRange)>,
}

impl Rows {
    /// The rows of groups of tensors, one group after the other: of each file, or one of all.
    pub(super) fn new(files: &[DataFile], groups: &[&[StoredTensor]]) -> Result<Self, DatasetError> {
        let (ends, columns) = (Ends::with_capacity(groups.len()), Vec::with_capacity(groups.len()));
        let mut rows = Rows { ends, columns, fields: Vec::new() };
        for (i, &group) in groups.iter().enumerate() {
            let Some(first) = group.first() else {
                return Err(DatasetError::setting(
                    path_of(files, i as u32),
                    "there are no tensors",
                    "give a file that has some",
                ));
            };
            let path = path_of(files, first.range.file);
            let Table { rows: count, columns } = table(files, group)?;
            let (fields, mut columns): (Vec<TensorSpec>, Vec<FileRange>) = columns.into_iter().unzip();
            if i == 0 {
                rows.fields = fields;
            } else {
                columns = in_order(&rows.fields, &fields, &columns).map_err(|what| {
                    let before = path_of(files, groups[0].first().map_or(0, |tensor| tensor.range.file));
                    let what = format!("its rows are not those of {}: {what}", shown(before));
                    DatasetError::setting(path, what, "give files whose tensors are alike as one dataset")
                })?;
            }
            rows.columns.push(columns);
            rows.ends.push(count).ok_or_else(|| {
                DatasetError::setting(path, "there are more rows than can be counted", "give fewer files")
            })?;
        }
        Ok(rows)
    }

    /// With the fields in the order of these names, where they are just those.
    pub(super) fn in_order_of(mut self, names: &[String]) -> Self {
        let by_name: HashMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
        let places: Option<Vec<usize>> = self.fields.iter().map(|field| by_name.get(&*field.name).copied()).collect();
        let Some(places) = places.filter(|places| places.len() == names.len()) else { return self };
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|&i| places[i]);
        self.fields = order.iter().map(|&i| self.fields[i].clone()).collect();
        for columns in &mut self.columns {
            *columns = order.iter().map(|&i| columns[i]).collect();
        }
        self
    }

    pub(super) fn len(&self) -> u64 {
        self.ends.len()
    }

    pub(super) fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let (run, row) = self.ends.find(index).ok_or_else(|| DatasetError::no_sample(index, self.len()))?;
        for (field, column) in self.fields.iter().zip(&self.columns[run]) {
            let offset = column.offset + row * column.len;
            sample.push(field.clone(), [FileRange { offset, ..*column }]);
        }
        Ok(())
    }
}

fn path_of(files: &[DataFile], file: u32) -> &std::path::Path {
    files.get(file as usize).map_or(std::path::Path::new(""), DataFile::path)
}

fn table(files: &[DataFile], group: &[StoredTensor]) -> Result<Table, DatasetError> {
    const FIX: &str = "load it as a checkpoint, or keep in the file only tensors with one row a sample";
    let mut table: Option<Table> = None;
    for StoredTensor { spec, range } in group {
        let refuse = |what: String| Err(DatasetError::setting(path_of(files, range.file), what, FIX));
        let (Some(&rows), Some(row)) = (spec.shape.first(), spec.shape.row()) else {
            return refuse(format!("tensor {:?} is a scalar and has no rows", spec.name));
        };
        let Some(len) = row.bytes(spec.dtype) else {
            let what = if row.elements().is_some() { "does not fill whole bytes" } else { "is beyond count" };
            return refuse(format!("a row of tensor {:?}, {} {row}, {what}", spec.name, spec.dtype));
        };
        let table = table.get_or_insert_with(|| Table { rows, columns: Vec::with_capacity(group.len()) });
        if table.rows != rows {
            let first = &table.columns[0].0.name;
            return refuse(format!(
                "tensor {:?} has {rows} rows and {first:?} has {}, so no row is one sample",
                spec.name, table.rows
            ));
        }
        let field = TensorSpec { name: Arc::clone(&spec.name), dtype: spec.dtype, shape: row };
        table.columns.push((field, FileRange { len, ..*range }));
    }
    Ok(table.unwrap_or(Table { rows: 0, columns: Vec::new() }))
}

/// The columns of `theirs` in the order of `ours`, or what is different.
fn in_order(ours: &[TensorSpec], theirs: &[TensorSpec], columns: &[FileRange]) -> Result<Vec<FileRange>, String> {
    let by_name: HashMap<&str, usize> = theirs.iter().enumerate().map(|(i, their)| (&*their.name, i)).collect();
    let mut ordered = Vec::with_capacity(ours.len());
    for our in ours {
        let Some(&i) = by_name.get(&*our.name) else { return Err(format!("it has no tensor {:?}", our.name)) };
        let their = &theirs[i];
        if their != our {
            let (a, b) = ((their.dtype, &their.shape), (our.dtype, &our.shape));
            return Err(format!("a row of {:?} is {} {}, and there it is {} {}", our.name, a.0, a.1, b.0, b.1));
        }
        ordered.push(columns[i]);
    }
    // Names are unique in a file, and all of ours are there.
    if theirs.len() == ours.len() {
        return Ok(ordered);
    }
    let known: HashSet<&str> = ours.iter().map(|our| &*our.name).collect();
    let more = theirs.iter().find(|their| !known.contains(&*their.name));
    Err(format!("it has a tensor {:?} more", more.map_or("", |more| &*more.name)))
}
