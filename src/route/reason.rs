use super::decision::Route;
use crate::storage::NoDirect;

/// Why a route is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoRoute {
    /// It was switched off.
    #[error("it was switched off")]
    TurnedOff,
    /// Another one was asked for.
    #[error("the route {0} was asked for")]
    OtherForced(Route),
    /// It can be had, and a better one too.
    #[error("the route {0} can be had and is better")]
    Outranked(Route),
    /// Bytes are to land in host memory, where reading past the page cache is the direct way already.
    #[error("bytes are to land in host memory, which cuFile does not serve")]
    HostDevice,
    /// The file has no reads past the page cache.
    #[error("{0}")]
    NoDirectIo(NoDirect),
}

impl NoRoute {
    /// What would make the route one that can be taken, in a few words.
    pub fn fix(&self) -> String {
        match self {
            Self::TurnedOff => "switch it to auto".into(),
            Self::OtherForced(_) => "ask for this route, or for auto".into(),
            Self::Outranked(_) => "ask for this route if it is to be taken all the same".into(),
            Self::HostDevice => "ask for a CUDA device, or take the route bounce".into(),
            Self::NoDirectIo(reason) => reason.fix().into(),
        }
    }
}
