//! The command line as types.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use forebay::dataset::{DType, Format, OpenOptions};

use crate::bench::{self, Profile};
use crate::byte_count::ByteCount;
use crate::loader_flags::LoaderFlags;
use crate::whole_number::within;

/// What options are listed under, in this order: those of the command itself before those that every command takes.
pub mod heading {
    pub const MEASURING: &str = "Measuring";
    pub const DATASET: &str = "Dataset";
    pub const ORDER: &str = "Order";
    pub const READING: &str = "Reading";
    pub const OUTPUT: &str = "Output";
}

/// Carries training data from NVMe to the GPU.
#[derive(Debug, Parser)]
#[command(
    name = "forebay",
    version,
    subcommand_required = true,
    arg_required_else_help = false,
    disable_help_flag = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measures how fast a file comes to the device by each way of reading it, and tells what holds each back
    #[command(after_help = "Example: forebay bench /data/train.bin --profile random --json > before.jsonl")]
    Bench(Bench),
    /// Writes bytes of a file to stdout, read through the engine and route asked for
    #[command(after_help = "Example: forebay cat train.bin --offset 4KiB --length 64KiB > piece")]
    Cat(Cat),
    /// Tells what this machine can do; each "no" with its reason and its fix
    #[command(after_help = "Example: forebay doctor /data")]
    Doctor(Doctor),
    /// Loads a whole checkpoint to the device
    #[command(after_help = "Example: forebay load model/ --device cuda:0 --hash")]
    Load(Load),
    /// Lists the tensors in files (name, dtype, shape and place), and counts the samples that they make
    #[command(after_help = "Example: forebay inspect 'shard-{000..002}.tar' --json")]
    Inspect(Inspect),
    /// Tells which samples make which batch, in the order of training; reads none of them
    #[command(after_help = "Example: forebay order train.npy --shuffle full --seed 7 --batch-size 64 --json")]
    Order(Order),
    /// Rewrites a dataset as safetensors files whose data begins on a block of 4096 bytes
    #[command(after_help = "Example: forebay pack tokens.bin --seq-len 1024 -o packed/")]
    Pack(Pack),
    /// Reads a dataset batch by batch, as a training loop would have it, and tells what each batch is
    #[command(after_help = "Example: forebay read 'shard-{000..002}.tar' --shuffle full --batch-size 64 --hash --json")]
    Read(Read),
}

#[derive(Debug, Args)]
pub struct Bench {
    /// The file or block device to read; of a folder, which is this one when not given, a file of its own in it, which is never
    /// left behind
    pub path: Option<PathBuf>,
    /// What is read for
    #[arg(long, value_enum, default_value_t = Profile::All, help_heading = heading::MEASURING)]
    pub profile: Profile,
    /// Bytes of a read, a multiple of 4KiB, several with commas, in place of the profile's; with the profile loader those of a
    /// record, any number of them
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = chunk, help_heading = heading::READING)]
    pub chunk: Vec<ByteCount>,
    /// Reads under way at once for each thread, several with commas, in place of the profile's
    #[arg(
        long, value_name = "READS", value_delimiter = ',', value_parser = within::<u32>(1..=4096),
        help_heading = heading::READING
    )]
    pub depth: Vec<u32>,
    /// Threads, each with its ring, several with commas, in place of the profile's
    #[arg(
        long, value_name = "RINGS", value_delimiter = ',', value_parser = within::<u32>(1..=64),
        help_heading = heading::READING
    )]
    pub threads: Vec<u32>,
    /// Whether the drive is polled for answers in place of waiting for its interrupts (IOPOLL), or both with a comma; false
    /// when not given, but the profiles all and random try it once where the drive's queue can be polled. Only io_uring
    /// polls, and only for reads past the page cache (route bounce)
    #[arg(long, value_name = "true|false", value_delimiter = ',', help_heading = heading::READING)]
    pub iopoll: Vec<bool>,
    /// Searches for the engine, depth, rings and chunk of a reader that are best for the profile's reads, between those that
    /// other flags give, and tells them; rows are what was tried
    #[arg(long, conflicts_with = "compare", help_heading = heading::MEASURING)]
    pub tune: bool,
    /// Keeps what --tune finds for the file system, the drive and the device, in this user's settings: --tuned takes it
    #[arg(long, requires = "tune", help_heading = heading::OUTPUT)]
    pub save: bool,
    /// About how long the measuring takes, in all
    #[arg(long, default_value = "30", value_parser = bench::seconds, help_heading = heading::MEASURING)]
    pub seconds: f64,
    /// How often each case is run, however long that takes; 5 when not given, fewer where there is no time for them
    #[arg(long, value_name = "N", value_parser = within::<usize>(1..=1000), help_heading = heading::MEASURING)]
    pub rounds: Option<usize>,
    /// Bytes of its own file; when not given 1GiB, or as many as space and time allow
    #[arg(
        long, value_name = "BYTES", value_parser = some_bytes, conflicts_with = "compare",
        help_heading = heading::MEASURING
    )]
    pub size: Option<ByteCount>,
    /// Whether fio, or gdsio to a GPU, does the same in turns, where it is on PATH; true when not given, but --tune tries no peers
    #[arg(long, action = ArgAction::Set, value_name = "true|false", help_heading = heading::MEASURING)]
    pub peers: Option<bool>,
    /// Whether the bytes are looked at, in a pass of its own
    #[arg(
        long, default_value_t = true, action = ArgAction::Set, value_name = "true|false",
        help_heading = heading::MEASURING
    )]
    pub verify: bool,
    /// Also writes the report as one page that needs nothing else: plots, the whole table, and how it was measured
    #[arg(long, value_name = "FILE", conflicts_with = "compare", help_heading = heading::OUTPUT)]
    pub html: Option<PathBuf>,
    /// Measures nothing: compares what two runs wrote with --json
    #[arg(
        long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with = "path",
        help_heading = heading::OUTPUT
    )]
    pub compare: Vec<PathBuf>,
}

/// From a block to what one read may ask for.
fn chunk(text: &str) -> Result<ByteCount, String> {
    match text.parse()? {
        ByteCount(bytes) if (4096..=256 << 20).contains(&bytes) => Ok(ByteCount(bytes)),
        _ => Err("from 4KiB to 256MiB".to_owned()),
    }
}

#[derive(Debug, Args)]
pub struct Cat {
    /// The file or block device to read
    pub file: PathBuf,
    /// First byte to write
    #[arg(long, value_name = "BYTES", default_value = "0", help_heading = heading::READING)]
    pub offset: ByteCount,
    /// How many bytes to write; all to the end of the file when not given
    #[arg(long, value_name = "BYTES", help_heading = heading::READING)]
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
    /// Loads what there is of a set of files whose names say that there are more, `model-00001-of-00003.safetensors`
    #[arg(long, help_heading = heading::READING)]
    pub allow_incomplete: bool,
    /// One line per tensor with its SHA-256 before the summary
    #[arg(long, help_heading = heading::OUTPUT)]
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
pub struct Order {
    /// Files, folders, brace patterns such as `shard-{000..005}.tar`, or a model's `*.index.json`
    #[arg(value_name = "DATASET", required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub flags: LoaderFlags,
}

#[derive(Debug, Args)]
pub struct Pack {
    /// Files, folders, brace patterns such as `shard-{000..005}.tar`, or a model's `*.index.json`
    #[arg(value_name = "IN", required = true)]
    pub inputs: Vec<PathBuf>,
    #[command(flatten)]
    pub dataset: DatasetFlags,
    /// A name that ends in `.safetensors` is one file, any other a folder of `shard-000000.safetensors` and so on
    #[arg(short, long, value_name = "OUT", help_heading = heading::OUTPUT)]
    pub out: PathBuf,
    /// The most bytes of data in one file; 1GiB when not given, and any number where OUT is one file
    #[arg(long, value_name = "BYTES", value_parser = some_bytes, help_heading = heading::OUTPUT)]
    pub shard_bytes: Option<ByteCount>,
    /// Replaces files of those names, and removes other shards of an earlier pack
    #[arg(long, help_heading = heading::OUTPUT)]
    pub overwrite: bool,
}

#[derive(Debug, Args)]
pub struct Read {
    /// Files, folders, brace patterns such as `shard-{000..005}.tar`, or a model's `*.index.json`
    #[arg(value_name = "DATASET", required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub flags: LoaderFlags,
    /// Tells the SHA-256 of each sample, over all that it holds
    #[arg(long, help_heading = heading::OUTPUT)]
    pub hash: bool,
}

/// How the files of a dataset are to be read, where that does not follow from them.
#[derive(Debug, Args)]
pub struct DatasetFlags {
    /// safetensors, npy, npz, records, tokens, megatron, webdataset (or tar) or tfrecord; told by content, then by name,
    /// when not given. Files without a header are read as what it says even if they begin as others do, with a warning
    #[arg(long, help_heading = heading::DATASET)]
    pub format: Option<Format>,
    /// Files without a header are records of so many bytes each
    #[arg(long, value_name = "BYTES", value_parser = some_bytes, help_heading = heading::DATASET)]
    pub record_bytes: Option<ByteCount>,
    /// A sample of tokens is a window of so many, and one more for the targets. `order` and `read` need it, `pack` to
    /// write windows, `inspect` to count them; else tokens are taken whole. They are U16 unless their file or --dtype says
    /// otherwise
    #[arg(
        long, value_name = "TOKENS", value_parser = within::<u64>(1..=u64::MAX),
        help_heading = heading::DATASET
    )]
    pub seq_len: Option<u64>,
    /// The type of tokens, U16 when not given, or of the elements of records, U8 when not given; numpy's names such as
    /// uint16 are known, too
    #[arg(long, help_heading = heading::DATASET)]
    pub dtype: Option<DType>,
    /// Takes what there is of a set of files whose names say that there are more, such as `train-00000-of-00010.tar`
    #[arg(long, help_heading = heading::DATASET)]
    pub allow_incomplete: bool,
    /// A link in a tar file that leads to no file in it is an error; else such links are left out, with a warning that
    /// counts them
    #[arg(long, help_heading = heading::DATASET)]
    pub deny_dangling_links: bool,
}

impl DatasetFlags {
    pub fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new().allow_incomplete(self.allow_incomplete);
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
        options.deny_dangling_links(self.deny_dangling_links)
    }
}

/// A page, which is the least memory there is; how much there may be depends on the machine.
fn budget(text: &str) -> Result<ByteCount, String> {
    match text.parse()? {
        ByteCount(bytes) if bytes < 4096 => Err("at least 4KiB".to_owned()),
        bytes => Ok(bytes),
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
    /// How reads reach the kernel; for commands that read data, which `inspect` and `order` do not
    #[arg(
        long, global = true, value_enum, default_value_t = Engine::Auto,
        help_heading = heading::READING, display_order = 100
    )]
    pub engine: Engine,
    /// The way bytes take to the device; for `cat`, `load`, `pack` and `read`
    #[arg(
        long, global = true, value_enum, default_value_t = Route::Auto,
        help_heading = heading::READING, display_order = 101
    )]
    pub route: Route,
    /// Where bytes must end up: auto, host or cuda:N. `load` and `read`: auto is the first GPU that works, else the host.
    /// `cat`: the bytes go there and back to stdout; auto is the host, and cuda:0 with `--route direct`. `pack`: host only.
    /// `bench`: auto is the first GPU and the host beside it, in turns, or the host alone.
    /// `doctor`: the one to judge, all with auto. `inspect` and `order` read no data, and ignore this
    #[arg(long, global = true, default_value = "auto", help_heading = heading::READING, display_order = 102)]
    pub device: Device,
    /// The most host memory, with a suffix KiB, MiB, GiB or TiB; no more is taken than what is read and held. `cat` and `pack`: for reads in flight; 64MiB when not given, of
    /// `cat` less for a short range. `load` to a GPU: for bytes on their way there, 64MiB when not given; to the host: the
    /// most that the tensors may take, as much as they need when not given. `read`: for batches, those that are read ahead
    /// and the one in hand, 256MiB when not given; with a GPU that much of its memory, too, and 512MiB when not given.
    /// `doctor`: what the machine is judged against, 256MiB when not given. `inspect` and `order` read no data, and ignore
    /// this
    #[arg(long, global = true, value_name = "BYTES", value_parser = budget, help_heading = heading::READING, display_order = 103)]
    pub budget: Option<ByteCount>,
    /// Reads as `bench --tune --save` found best for the file system, the drive and the device; what --engine says counts.
    /// For `cat`, `load`, `pack` and `read`
    #[arg(long, global = true, help_heading = heading::READING, display_order = 104)]
    pub tuned: bool,
    /// A file whose ctime alone has changed since it was opened is an error, where chmod, chown or a new hard link is one
    /// warning otherwise. For `cat`, `load`, `pack` and `read`
    #[arg(long, global = true, help_heading = heading::READING, display_order = 105)]
    pub strict_ctime: bool,
    /// One JSON object per line on stdout instead of text for people; of `cat`, whose bytes go there, on stderr
    #[arg(long, global = true, help_heading = heading::OUTPUT, display_order = 106)]
    pub json: bool,
    /// Prints help; with -h the short form
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = heading::OUTPUT, display_order = 107)]
    pub help: Option<bool>,
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
