//! What must not matter for the bytes.
use std::fmt;
use std::path::Path;

use forebay::{Device, Mode, Route};

use crate::common::carrier::{self, Subject};
use crate::common::reader;
use crate::site::{DirectIo, Site};

#[derive(Debug, Clone)]
pub enum Row {
    /// Engine and mode; bytes stay where they are read to.
    Reads(reader::Row),
    /// Device, engine and route.
    Carries(carrier::Row),
}

impl Row {
    pub fn subject(&self) -> Subject {
        match self {
            Row::Reads(row) => Subject::Reads(row.reader()),
            Row::Carries(row) => Subject::Carries(row.carrier()),
        }
    }

    /// Whether reading past the page cache was asked for, so that it may have to be refused.
    pub fn is_direct_forced(&self) -> bool {
        match self {
            Row::Reads(row) => row.mode == Mode::Direct,
            Row::Carries(row) => matches!(row.route, Some(Route::Bounce | Route::Direct)),
        }
    }

    pub fn direct_io(&self, site: &Site, path: &Path) -> DirectIo {
        match (self, site.direct_io(path)) {
            // cuFile has a mode for files that it cannot read directly.
            (Row::Carries(row), DirectIo::MustBeRefused) if row.route == Some(Route::Direct) => DirectIo::MayWork,
            (_, verdict) => verdict,
        }
    }

    /// Whether the page cache decides how bytes are read.
    pub fn is_auto(&self) -> bool {
        match self {
            Row::Reads(row) => row.mode == Mode::Auto,
            Row::Carries(row) => row.route.is_none(),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Row::Reads(row) => row.fmt(f),
            Row::Carries(row) => row.fmt(f),
        }
    }
}

/// Every row of a device.
pub fn on_device(device: &Device) -> Vec<Row> {
    carrier::rows(device).into_iter().map(Row::Carries).collect()
}

/// Every row whose bytes end up on the host.
pub fn on_host() -> Vec<Row> {
    reader::rows().into_iter().map(Row::Reads).chain(on_device(&Device::host())).collect()
}
