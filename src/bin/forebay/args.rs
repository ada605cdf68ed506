//! The command line as types.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay::dataset::{DType, Format, OpenOptions};

use crate::byte_count::ByteCount;

/// Carries training data from NVMe to the GPU.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, subcommand_required = true, arg_required_else_help = false)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Writes bytes of a file to stdout, read through the engine and route asked for
    Cat(Cat),
    /// Tells what this machine can do; each "no" with its reason and its fix
    Doctor(Doctor),
    /// Loads a whole checkpoint to the device
    Load(Load),
    /// Lists the tensors in files: name, dtype, shape and place, and how many samples they make
    Inspect(Inspect),
    /// Rewrites a dataset as safetensors files whose data begins on a block of 4096 bytes
    Pack(Pack),
}

#[derive(Debug, Args)]
pub struct Cat {
    /// The file or block device to read
    pub file: PathBuf,
    /// First byte to write
    #[arg(long, value_name = "BYTES", default_value = "0")]
    pub offset: ByteCount,
    /// How many bytes to write; all to the end of the file when not given
    #[arg(long, value_name = "BYTES")]
    pub length: Option<ByteCount>,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Files, folders or block devices to judge
    #[arg(value_name = "PATH", default_value = ".")]
    pub paths: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Load {
    /// A .safetensors file, a model's *.index.json, or a folder that holds either
    pub checkpoint: PathBuf,
    /// Gives the SHA-256 of each tensor first
    #[arg(long)]
    pub hash: bool,
}

#[derive(Debug, Args)]
pub struct Inspect {
    /// Files, folders, brace patterns such as `shard-{000..005}.tar`, or a model's `*.index.json`
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub dataset: DatasetFlags,
}

#[derive(Debug, Args)]
pub struct Pack {
    /// Files, folders, brace patterns such as `shard-{000..005}.tar`, or a model's `*.index.json`
    #[arg(value_name = "IN", required = true)]
    pub inputs: Vec<PathBuf>,
    /// A name that ends in `.safetensors` is one file, any other a folder of `shard-000000.safetensors` and so on
    #[arg(short, long, value_name = "OUT")]
    pub out: PathBuf,
    /// The most bytes of data in one file; 1GiB when not given, and any number where OUT is one file
    #[arg(long, value_name = "BYTES", value_parser = some_bytes)]
    pub shard_bytes: Option<ByteCount>,
    /// Replaces files of those names, and removes other shards of an earlier pack
    #[arg(long)]
    pub overwrite: bool,
    #[command(flatten)]
    pub dataset: DatasetFlags,
}

/// How the files of a dataset are to be read, where that does not follow from them.
#[derive(Debug, Args)]
pub struct DatasetFlags {
    /// safetensors, npy, npz, records, tokens, megatron, webdataset or tfrecord; told by content, then by name, when not
    /// given
    #[arg(long)]
    pub format: Option<Format>,
    /// Files without a header are records of so many bytes each
    #[arg(long, value_name = "BYTES", value_parser = some_bytes)]
    pub record_bytes: Option<ByteCount>,
    /// A sample of tokens is a window of so many, and one more for the targets
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    pub seq_len: Option<u64>,
    /// The type of tokens, or of the elements of records, such as U16
    #[arg(long)]
    pub dtype: Option<DType>,
}

impl DatasetFlags {
    pub fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new();
        if let Some(format) = self.format {
            options = options.format(format);
        }
        if let Some(bytes) = self.record_bytes {
            options = options.record_bytes(bytes.0);
        }
        if let Some(tokens) = self.seq_len {
            options = options.seq_len(tokens);
        }
        if let Some(dtype) = self.dtype {
            options = options.dtype(dtype);
        }
        options
    }
}

fn some_bytes(text: &str) -> Result<ByteCount, String> {
    match text.parse()? {
        ByteCount(0) => Err("at least one byte".to_owned()),
        bytes => Ok(bytes),
    }
}

/// The flags that every command takes.
#[derive(Debug, Args)]
pub struct Common {
    /// How reads reach the kernel
    #[arg(long, global = true, value_enum, default_value_t = Engine::Auto)]
    pub engine: Engine,
    /// The way bytes take to the device
    #[arg(long, global = true, value_enum, default_value_t = Route::Auto)]
    pub route: Route,
    /// Where bytes must end up: auto, host or cuda:N. Auto is the host for `cat`, whose bytes end there, and cuda:0 with
    /// `--route direct`; `doctor` judges every device with it, else the one named
    #[arg(long, global = true, default_value = "auto")]
    pub device: Device,
    /// Host memory for reads in flight, with a suffix KiB, MiB, GiB or TiB
    #[arg(long, global = true, value_name = "BYTES")]
    pub budget: Option<ByteCount>,
    /// One JSON object per line on stdout instead of text for people; of `cat`, whose bytes go there, on stderr
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Auto,
    Uring,
    Pread,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Route {
    Auto,
    /// cuFile, straight into GPU memory
    Direct,
    /// O_DIRECT into pinned host memory, then a copy
    Bounce,
    /// Page cache, then pinned host memory, then a copy
    Cached,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    Auto,
    Host,
    Cuda(u32),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "host" => Ok(Self::Host),
            _ => {
                let number = text.strip_prefix("cuda:").and_then(|number| number.parse().ok());
                number.map(Self::Cuda).ok_or_else(|| "a device is auto, host or cuda:N".to_owned())
            }
        }
    }
}
