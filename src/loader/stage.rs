use std::fmt;

/// A part of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Which samples are next, where they lie, and opening the files that they lie in.
    Plan,
    /// Waiting for memory that batches hold which the consumer has not dropped.
    Memory,
    /// Reading; on a CUDA device without work of the processor's, carrying to the device.
    Read,
    /// Work of the processor's: transforms, checks, and copies of what could not be read to its place.
    Transform,
    /// Copying to the device what the processor has worked on.
    Copy,
    /// Made, and not taken yet.
    Ready,
}

impl Stage {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Memory => "memory",
            Self::Read => "read",
            Self::Transform => "transform",
            Self::Copy => "copy",
            Self::Ready => "ready",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
