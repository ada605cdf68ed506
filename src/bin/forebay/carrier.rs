//! A carrier as the common flags ask for it.

use std::path::Path;

use forebay::tuning::{Key, Profiles, TuningError};
use forebay::{Carrier, CarrierBuilder, EngineChoice, Reader, ReaderBuilder};

use crate::args::{Common, Device, Engine, Route};
use crate::failure::Failure;
use crate::stderr;

/// A carrier to `device` for what lies where `path` does, with the budget asked for, else `usual`, on the host and on the device.
pub fn build(common: &Common, device: &forebay::Device, path: Option<&Path>, usual: u64) -> Result<Carrier, Failure> {
    let budget = common.budget.map_or(usual, |budget| budget.0);
    let reader = reader(common, device, path)?;
    let builder = Carrier::builder().device(device).reader(reader).budget(budget).device_budget(budget);
    routed(builder, common.route).build().map_err(Failure::of)
}

/// How files are read: tuned where that is asked for, and there is a file.
pub fn reader(common: &Common, device: &forebay::Device, path: Option<&Path>) -> Result<ReaderBuilder, Failure> {
    let reader = Reader::builder();
    let reader = match path.filter(|_| common.tuned) {
        Some(path) => tuned(reader, path, device).map_err(Failure::of)?,
        None => reader,
    };
    let reader = reader.strict_ctime(common.strict_ctime);
    Ok(match common.engine {
        Engine::Auto => reader,
        asked => reader.engine(engine(asked)),
    })
}

/// As was kept; that nothing was is said, since who asks for it believes that something is.
fn tuned(reader: ReaderBuilder, path: &Path, device: &forebay::Device) -> Result<ReaderBuilder, TuningError> {
    let key = Key::of(path, device)?;
    Ok(match Profiles::usual()?.find(&key)? {
        Some(found) => reader.settings(&found.settings),
        None => {
            stderr::line(&format!(
                "warning: nothing is kept for {key}, which is read as usual; tune for it (forebay bench PATH --tune --save)"
            ));
            reader
        }
    })
}

/// With the route that was asked for.
pub fn routed(builder: CarrierBuilder, route: Route) -> CarrierBuilder {
    match route {
        Route::Auto => builder,
        Route::Direct => builder.route(forebay::Route::Direct),
        Route::Bounce => builder.route(forebay::Route::Bounce),
        Route::Cached => builder.route(forebay::Route::Cached),
    }
}

/// The device of a command whose bytes end up on the host: another one only where it is asked for.
pub fn device_and_back(common: &Common) -> Result<forebay::Device, Failure> {
    match common.device {
        // cuFile serves GPUs only.
        Device::Auto if common.route == Route::Direct => forebay::Device::cuda(0).map_err(Failure::of),
        Device::Auto | Device::Host => Ok(forebay::Device::host()),
        Device::Cuda(number) => forebay::Device::cuda(number as usize).map_err(Failure::of),
    }
}

/// The device of a command whose bytes stay where they land.
pub fn device(common: &Common) -> Result<forebay::Device, Failure> {
    match common.device {
        Device::Auto => Ok(forebay::Device::auto()),
        Device::Host => Ok(forebay::Device::host()),
        Device::Cuda(number) => forebay::Device::cuda(number as usize).map_err(Failure::of),
    }
}

pub fn engine(engine: Engine) -> EngineChoice {
    match engine {
        Engine::Auto => EngineChoice::Auto,
        Engine::Uring => EngineChoice::Uring,
        Engine::Pread => EngineChoice::Pread,
    }
}
