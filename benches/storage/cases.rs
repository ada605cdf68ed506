//! The cases: what is read, who else reads it, and what we promised.

use crate::workload::Pattern;

/// A contender that we are measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// fio's io_uring; `direct=0` where the case is warm.
    FioUring,
    /// fio's psync with one job per thread of ours.
    FioPsync,
    /// One thread that reads 1 MiB at a time into the same buffer.
    PreadLoop,
}

/// Our side's settings.
#[derive(Clone, Copy, Debug)]
pub struct Ours {
    pub engine: &'static str,
    /// Bytes of host memory.
    pub budget: u64,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    /// `targets`, `chunks` or `pread`.
    pub group: &'static str,
    pub pattern: Pattern,
    pub block: u64,
    pub depth: u32,
    pub jobs: u32,
    pub warm: bool,
    pub ours: Ours,
    pub rivals: Vec<Rival>,
    /// At least this share of the best rival's throughput.
    pub throughput: Option<f64>,
    /// At most this multiple of the best rival's CPU seconds per byte.
    pub cpu: Option<f64>,
}

/// Peak memory may pass the budget by this much: code, stacks, tables.
pub const MEMORY_ALLOWANCE: u64 = 32 << 20;

const URING: Ours = Ours { engine: "uring", budget: 256 << 20 };
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

pub fn all() -> Vec<Case> {
    let mut cases = targets();
    cases.extend(chunks());
    cases.extend(pread());
    cases
}

fn targets() -> Vec<Case> {
    use Pattern::{Random, Sequential};
    vec![
        Case { throughput: Some(0.97), cpu: Some(1.15), ..case("seq-1m", Sequential, MIB) },
        Case { throughput: Some(0.97), cpu: Some(1.15), ..case("rand-128k", Random, 128 * KIB) },
        Case { throughput: Some(0.90), ..case("rand-4k", Random, 4 * KIB) },
        Case {
            warm: true,
            rivals: vec![Rival::PreadLoop, Rival::FioUring],
            throughput: Some(1.0),
            ..case("warm-seq-1m", Sequential, MIB)
        },
        Case { jobs: 2, throughput: Some(0.95), ..case("seq-1m-two", Sequential, MIB) },
        Case { jobs: 2, throughput: Some(0.95), ..case("rand-4k-two", Random, 4 * KIB) },
    ]
}

/// For choosing the default chunk.
fn chunks() -> Vec<Case> {
    [128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB]
        .map(|block| Case {
            group: "chunks",
            // Room for two windows of the largest chunk, so that the budget never limits the depth.
            ours: Ours { budget: 1 << 30, ..URING },
            ..case(&format!("chunk-{}k", block >> 10), Pattern::Sequential, block)
        })
        .into()
}

/// The engine for where io_uring is forbidden: as many threads as fio has jobs.
fn pread() -> Vec<Case> {
    let base = |name, pattern, block| Case {
        group: "pread",
        depth: 8,
        jobs: 8,
        ours: Ours { engine: "pread", ..URING },
        rivals: vec![Rival::FioPsync],
        ..case(name, pattern, block)
    };
    vec![
        base("pread-seq-1m", Pattern::Sequential, MIB),
        base("pread-rand-128k", Pattern::Random, 128 * KIB),
        base("pread-rand-4k", Pattern::Random, 4 * KIB),
    ]
}

fn case(name: &str, pattern: Pattern, block: u64) -> Case {
    Case {
        name: name.into(),
        group: "targets",
        pattern,
        block,
        depth: 32,
        jobs: 1,
        warm: false,
        ours: URING,
        rivals: vec![Rival::FioUring],
        throughput: None,
        cpu: None,
    }
}
