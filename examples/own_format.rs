//! A format of one's own: the images of CIFAR-10 as they are handed out, records of 3073 bytes: a label, then 32 x 32
//! pixels in red, green and blue planes. Written here, opened as a dataset, and carried to the GPU, or to host memory
//! where there is none.
//!
//! `cargo run --example own_format [FILE…]`, where each FILE is such a batch; without, it writes itself two small ones.

use std::error::Error;
use std::path::{Path, PathBuf};

use forebay::dataset::{DType, DataFile, Dataset, DatasetError, FileRange, Fingerprint, SampleSpec, TensorSpec};
use forebay::{Carrier, Device};

const RECORD: u64 = 1 + 3 * 32 * 32;

/// What is known of the files once they are opened: enough to say where any sample is.
#[derive(Debug)]
struct Cifar10 {
    files: Vec<DataFile>,
    /// For each file the number of the sample behind its last.
    ends: Vec<u64>,
    label: TensorSpec,
    image: TensorSpec,
}

impl Cifar10 {
    /// Looks at the lengths of the files, and reads nothing of them.
    fn open(paths: &[PathBuf]) -> Result<Self, DatasetError> {
        let mut files = Vec::new();
        let mut ends = Vec::new();
        let mut end = 0;
        for path in paths {
            let file = DataFile::new(path)?;
            if file.len() % RECORD != 0 {
                let (whole, what) =
                    (file.len() / RECORD * RECORD, format!("it ends within a record of {RECORD} bytes"));
                return Err(DatasetError::malformed(path, whole, what, "get the file again"));
            }
            end += file.len() / RECORD;
            ends.push(end);
            files.push(file);
        }
        let label = TensorSpec::new("label", DType::U8, []);
        Ok(Self { files, ends, label, image: TensorSpec::new("image", DType::U8, [3, 32, 32]) })
    }
}

impl Dataset for Cifar10 {
    fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn files(&self) -> &[DataFile] {
        &self.files
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let file = self.ends.partition_point(|&end| end <= index);
        if file == self.files.len() {
            return Err(DatasetError::no_sample(index, self.len()));
        }
        let first = if file == 0 { 0 } else { self.ends[file - 1] };
        let (file, offset) = (file as u32, (index - first) * RECORD);
        // A clone of a spec copies no text.
        sample.push(self.label.clone(), [FileRange { file, offset, len: 1 }]);
        sample.push(self.image.clone(), [FileRange { file, offset: offset + 1, len: RECORD - 1 }]);
        Ok(())
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("cifar10", "", self.len(), &self.files)
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let given: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let folder = tempfile::tempdir()?;
    let paths = if given.is_empty() { write_two(folder.path())? } else { given };

    let dataset = Cifar10::open(&paths)?;
    let device = Device::auto();
    let carrier = Carrier::builder().device(&device).budget(16 << 20).device_budget(16 << 20).build()?;
    let files = dataset.open_files(&carrier)?;

    let wanted = [0, 7, 4, 9].into_iter().filter(|&index| index < dataset.len());
    for index in wanted {
        let sample = dataset.sample(index)?;
        let landed = carrier.carry_blocking(&sample.extents(&files))?;
        let (label, image) = (landed.to_host(0)?, landed.to_host(1)?);
        let mean = image.iter().map(|&byte| f64::from(byte)).sum::<f64>() / image.len() as f64;
        println!(
            "sample {}: label {}, image {} of mean {mean:.1}",
            dataset.id(index),
            label[0],
            sample.tensors()[1].shape
        );
    }
    println!("{} samples in {} files, carried to {device}: {}", dataset.len(), paths.len(), carrier.carried());
    Ok(())
}

/// Six images and four: sample i has label i, and all its bytes are 20 i.
fn write_two(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let write = |name: &str, labels: std::ops::Range<u8>| {
        let record = |label: u8| std::iter::once(label).chain(std::iter::repeat_n(20 * label, RECORD as usize - 1));
        let path = folder.join(name);
        std::fs::write(&path, labels.flat_map(record).collect::<Vec<u8>>()).map(|()| path)
    };
    Ok(vec![write("data_batch_1.bin", 0..6)?, write("data_batch_2.bin", 6..10)?])
}
