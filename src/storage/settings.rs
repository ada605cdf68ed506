use super::engine::{EngineChoice, EngineKind};

/// How a [`Reader`](crate::Reader) reads: what there is to tune of it, and what
/// [`ReaderBuilder::settings`](crate::ReaderBuilder::settings) takes as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReaderSettings {
    /// How reads reach the kernel.
    pub engine: EngineKind,
    /// The most bytes that one read asks the kernel for: a multiple of 64 KiB, up to 1 GiB.
    pub chunk: u64,
    /// Reads under way at once, per ring, or threads of the pool; 1 to 4096.
    pub depth: u32,
    /// Rings, each with its thread; 1 to 64. The pool has none, and takes 1.
    pub rings: u32,
    /// Whether the end of direct reads is polled for.
    pub iopoll: bool,
}

impl ReaderSettings {
    /// io_uring with the defaults of a [`ReaderBuilder`](crate::ReaderBuilder).
    pub const DEFAULT: Self = Self { engine: EngineKind::Uring, chunk: 1 << 20, depth: 32, rings: 1, iopoll: false };

    /// Whichever can be had where it is io_uring: another kernel may forbid it.
    pub(super) fn engine_choice(&self) -> EngineChoice {
        match self.engine {
            EngineKind::Uring => EngineChoice::Auto,
            EngineKind::Pread => EngineChoice::Pread,
        }
    }
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self::DEFAULT
    }
}
