//! A carrier to the emulated device, files whose bytes are known, and the looks that most tests take at both.
use std::path::PathBuf;

use forebay::{Carrier, CarrierBuilder, Device, DirectForm, Extent, File, Landed, Reader, Route};

use crate::common::reader::CHUNK;
use crate::common::{data, folder};

pub const FORMS: [DirectForm; 3] = [DirectForm::Pool, DirectForm::Batch, DirectForm::Stream];

/// Small enough that every file worth reading is split.
pub fn builder() -> CarrierBuilder {
    builder_on(&Device::cuda(0).unwrap())
}

pub fn builder_on(device: &Device) -> CarrierBuilder {
    let reader = Reader::builder().chunk(CHUNK).depth(16);
    Carrier::builder().device(device).reader(reader).chunk(2 * CHUNK).budget(8 << 20).device_budget(16 << 20)
}

pub fn carrier(route: Route) -> Carrier {
    builder().route(route).build().unwrap()
}

/// Every way to carry: bounce, cached, and cuFile in each form.
pub fn ways() -> Vec<(String, CarrierBuilder)> {
    let direct = FORMS.map(|form| (format!("direct/{form:?}"), builder().route(Route::Direct).direct_form(form)));
    let copied = [Route::Bounce, Route::Cached].map(|route| (route.to_string(), builder().route(route)));
    copied.into_iter().chain(direct).collect()
}

/// A folder of self-describing files; each has its number as its seed.
#[derive(Debug)]
pub struct Files {
    _dir: tempfile::TempDir,
    pub paths: Vec<PathBuf>,
}

impl Files {
    pub fn new(lens: &[u64]) -> Files {
        let dir = folder();
        let paths = (0..lens.len()).map(|i| dir.path().join(format!("file-{i:04}"))).collect();
        let files = Files { _dir: dir, paths };
        for (i, len) in lens.iter().enumerate() {
            data::write_dense(&files.paths[i], i as u64, *len).unwrap();
        }
        files.cool();
        files
    }

    pub fn one(len: u64) -> Files {
        Files::new(&[len])
    }

    /// So that nothing is in the page cache.
    pub fn cool(&self) {
        for path in &self.paths {
            data::drop_cache(path).unwrap();
        }
    }

    pub fn open(&self, carrier: &Carrier) -> Vec<File> {
        self.paths.iter().map(|path| carrier.open(path).unwrap()).collect()
    }
}

pub fn whole(file: &File) -> Extent {
    Extent::new(file, 0, file.len())
}

/// Looks at bytes of the file with that seed, brought back to the host, and at their count.
pub fn check(landed: &Landed, wanted: &[(u64, u64, u64)]) {
    assert_eq!(landed.len(), wanted.len());
    for (i, &(seed, offset, len)) in wanted.iter().enumerate() {
        let got = landed.to_host(i).unwrap();
        assert_eq!(got.len() as u64, len);
        data::check(&got, seed, offset).unwrap();
    }
    let asked: u64 = wanted.iter().map(|(_, _, len)| len).sum();
    assert_eq!(landed.carried().total(), asked, "every byte is counted once: {:?}", landed.carried());
}

/// Carries the whole first file and looks at it: the carrier still works.
pub fn works(carrier: &Carrier, files: &Files) {
    let file = carrier.open(&files.paths[0]).unwrap();
    let landed = carrier.carry_blocking(&[whole(&file)]).unwrap();
    check(&landed, &[(0, 0, file.len())]);
}
