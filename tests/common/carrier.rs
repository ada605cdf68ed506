//! Rows that end on a device, and one face for what reads and what carries, so that one suite runs over both.
use std::fmt;

use forebay::{Carrier, Device, DeviceKind, DirectForm, EngineChoice, Extent, File, Landed, Reader, Route};

use super::reader::{self, Ask, BUDGET, CHUNK};

/// A device's memory is all that a request must fit, so it is as much as the host's in the rows that stay there.
pub const DEVICE_BUDGET: u64 = BUDGET;

/// Where bytes end up, and by which route: `None` for the best one.
#[derive(Debug, Clone)]
pub struct Row {
    pub device: Device,
    pub engine: EngineChoice,
    pub route: Option<Route>,
    pub form: DirectForm,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let route = self.route.map_or_else(|| "auto".to_owned(), |route| route.to_string());
        write!(f, "{}/{:?}/{route}/{:?}", self.device, self.engine, self.form)
    }
}

impl Row {
    pub fn carrier(&self) -> Carrier {
        let reader = Reader::builder().engine(self.engine).chunk(CHUNK).depth(16);
        let builder = Carrier::builder().device(&self.device).reader(reader).chunk(3 * CHUNK);
        let builder = builder.budget(BUDGET).device_budget(DEVICE_BUDGET).direct_form(self.form);
        let builder = match self.route {
            Some(route) => builder.route(route),
            None => builder,
        };
        builder.build().unwrap_or_else(|e| panic!("{self}: {e}"))
    }
}

/// Every row of a device; the direct route only where there is a GPU for it, and there once: no engine carries its bytes.
pub fn rows(device: &Device) -> Vec<Row> {
    let row = |engine, route, form| Row { device: device.clone(), engine, route, form };
    let mut rows = Vec::new();
    for engine in reader::engines() {
        rows.extend([None, Some(Route::Bounce), Some(Route::Cached)].map(|route| row(engine, route, DirectForm::Pool)));
    }
    if device.kind() != DeviceKind::Host {
        let forms = [DirectForm::Pool, DirectForm::Batch, DirectForm::Stream];
        rows.extend(forms.map(|form| row(EngineChoice::Pread, Some(Route::Direct), form)));
    }
    rows
}

/// What a row of the suite reads with.
#[derive(Debug, Clone)]
pub enum Subject {
    Reads(Reader),
    Carries(Carrier),
}

impl Subject {
    pub fn open(&self, path: &std::path::Path) -> Result<File, String> {
        match self {
            Subject::Reads(reader) => reader.open(path).map_err(|e| e.to_string()),
            Subject::Carries(carrier) => carrier.open(path).map_err(|e| e.to_string()),
        }
    }

    /// The bytes of each extent, brought back to the host; a device must have counted each of them once.
    pub fn read(&self, extents: &[Extent]) -> Result<Vec<Vec<u8>>, String> {
        match self {
            Subject::Reads(reader) => {
                let pieces = reader.read_blocking(extents).map_err(|e| e.to_string())?;
                Ok(pieces.iter().map(<[u8]>::to_vec).collect())
            }
            Subject::Carries(carrier) => fetched(&carrier.carry_blocking(extents).map_err(|e| e.to_string())?),
        }
    }

    pub async fn read_later(&self, extents: &[Extent]) -> Result<Vec<Vec<u8>>, String> {
        match self {
            Subject::Reads(reader) => {
                let pieces = reader.read(extents).await.map_err(|e| e.to_string())?;
                Ok(pieces.iter().map(<[u8]>::to_vec).collect())
            }
            Subject::Carries(carrier) => fetched(&carrier.carry(extents).await.map_err(|e| e.to_string())?),
        }
    }

    /// Opens each path once and reads all the asks as one request; an error as the user would see it.
    pub fn read_asks(&self, asks: &[Ask]) -> Result<Vec<Vec<u8>>, String> {
        let got = self.read(&self.extents(asks)?)?;
        assert_eq!(got.len(), asks.len(), "as many pieces as extents");
        Ok(got)
    }

    pub fn extents(&self, asks: &[Ask]) -> Result<Vec<Extent>, String> {
        reader::extents_of(asks, |path| self.open(path))
    }

    pub fn reader(&self) -> &Reader {
        match self {
            Subject::Reads(reader) => reader,
            Subject::Carries(carrier) => carrier.reader(),
        }
    }

    /// Waits until all that was begun is over.
    pub fn close(self) {
        match self {
            Subject::Reads(reader) => reader.close_blocking(),
            Subject::Carries(carrier) => drop(carrier),
        }
    }
}

fn fetched(landed: &Landed) -> Result<Vec<Vec<u8>>, String> {
    let got: Vec<Vec<u8>> =
        (0..landed.len()).map(|i| landed.to_host(i)).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    for (i, piece) in got.iter().enumerate() {
        assert_eq!(landed.piece_len(i), Some(piece.len()));
    }
    let bytes: usize = got.iter().map(Vec::len).sum();
    assert_eq!(landed.carried().total(), bytes as u64, "every byte is counted once: {:?}", landed.carried());
    Ok(got)
}
