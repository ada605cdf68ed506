//! Who carries: each is run in a process of its own.

use forebay::{CarrierBuilder, DirectForm, Route};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Copies of pinned memory to the device and no read: what the link gives at most.
    Copy,
    /// Reads to host memory and no copy: what storage gives at most.
    Storage,
    Bounce,
    DirectPool,
    DirectBatch,
    DirectStream,
    Cached,
    Auto,
}

impl Contender {
    pub const ALL: [Self; 8] = [
        Self::Copy,
        Self::Storage,
        Self::Bounce,
        Self::DirectPool,
        Self::DirectBatch,
        Self::DirectStream,
        Self::Cached,
        Self::Auto,
    ];

    /// As tables and orders call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Storage => "storage",
            Self::Bounce => "bounce",
            Self::DirectPool => "direct/pool",
            Self::DirectBatch => "direct/batch",
            Self::DirectStream => "direct/stream",
            Self::Cached => "cached",
            Self::Auto => "auto",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|contender| contender.name() == name)
    }

    /// Whether the page cache is to hold the file before it runs; else it is to hold nothing of it.
    pub fn is_warm(self) -> bool {
        self == Self::Cached
    }

    /// The settings of the carrier that takes this route; copy and storage have none.
    pub fn carrier(self, builder: CarrierBuilder) -> CarrierBuilder {
        let direct = |form| builder.clone().route(Route::Direct).direct_form(form);
        match self {
            Self::Copy | Self::Storage | Self::Auto => builder,
            Self::Bounce => builder.route(Route::Bounce),
            Self::DirectPool => direct(DirectForm::Pool),
            Self::DirectBatch => direct(DirectForm::Batch),
            Self::DirectStream => direct(DirectForm::Stream),
            Self::Cached => builder.route(Route::Cached),
        }
    }
}
