use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::PackError;
use crate::dataset::Layout;
use crate::device::{Device, DeviceKind};
use crate::route::Carrier;

/// How a dataset is packed.
///
/// ## Defaults
/// shards of 1 GiB in a folder, one of any size where a file is asked for; a carrier of its own with a budget of 64 MiB;
/// nothing is overwritten; no metadata but our own.
#[derive(Clone, Default)]
#[must_use = "options do nothing until `pack` is called with them"]
pub struct PackOptions {
    pub(super) shard_bytes: Option<u64>,
    pub(super) overwrite: bool,
    pub(super) metadata: BTreeMap<String, String>,
    carrier: Option<Carrier>,
    progress: Option<Arc<dyn Fn(PackProgress) + Send + Sync>>,
}

impl PackOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The most bytes of data in one file, its header not counted. A sample that has more gets a file of its own. A
    /// folder's file also ends where its header would have more than 8 MiB. Where one file is asked for, data that needs
    /// more than one is refused before anything is written.
    pub fn shard_bytes(mut self, bytes: u64) -> Self {
        self.shard_bytes = Some(bytes);
        self
    }

    /// Whether files of the same names are replaced. In a folder, shards of an earlier pack that are not replaced are
    /// then removed, since they would be read with the new ones.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// An entry of `__metadata__` in every file, such as `format`, `pt` of a checkpoint that had it. Keys that begin with
    /// `forebay.` are our own and refused.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Reads the payload with this carrier, to host memory; its budget bounds what is read ahead.
    pub fn with(mut self, carrier: &Carrier) -> Self {
        self.carrier = Some(carrier.clone());
        self
    }

    /// Called on the packing thread before the first byte and after each few MiB.
    pub fn progress(mut self, tell: impl Fn(PackProgress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(tell));
        self
    }

    pub(super) fn carrier_or_new(&self) -> Result<Carrier, PackError> {
        const BUDGET: u64 = 64 << 20;
        match &self.carrier {
            Some(carrier) if carrier.device().kind() == DeviceKind::Host => Ok(carrier.clone()),
            Some(carrier) => Err(PackError::setting(
                format!("the carrier is for {}, and packing reads to the host", carrier.device()),
                "give one whose device is the host",
            )),
            None => Ok(Carrier::builder().device(&Device::host()).budget(BUDGET).build()?),
        }
    }

    pub(super) fn tell(&self, progress: PackProgress) {
        if let Some(tell) = &self.progress {
            tell(progress);
        }
    }
}

impl fmt::Debug for PackOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackOptions")
            .field("shard_bytes", &self.shard_bytes)
            .field("overwrite", &self.overwrite)
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}

/// How far packing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackProgress {
    /// Bytes of data written, headers not counted.
    pub bytes: u64,
    /// Bytes of data in all.
    pub total: u64,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packed {
    /// What a tensor of the files is.
    pub layout: Layout,
    /// The files, in the order of the samples.
    pub files: Vec<PackedFile>,
    /// Samples in all; none where tensors were packed as they are.
    pub samples: u64,
    /// Tensors in all files.
    pub tensors: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Whether all of it was written past the page cache (`O_DIRECT`), as far as the kernel says.
    pub direct: bool,
}

/// One file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedFile {
    /// Its final name.
    pub path: PathBuf,
    /// Samples in it; none where tensors were packed as they are.
    pub samples: u64,
    /// Tensors in it.
    pub tensors: u64,
    /// Bytes, with the header.
    pub bytes: u64,
}

impl Packed {
    pub(super) fn new(layout: Layout, files: Vec<PackedFile>, direct: bool) -> Self {
        let sum = |of: fn(&PackedFile) -> u64| files.iter().map(of).fold(0, u64::saturating_add);
        let (samples, tensors, bytes) = (sum(|file| file.samples), sum(|file| file.tensors), sum(|file| file.bytes));
        Self { layout, files, samples, tensors, bytes, direct }
    }
}
