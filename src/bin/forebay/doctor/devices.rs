//! The devices that bytes can land on, tried by opening them, and cuFile, tried by starting it.

use forebay::facts::gds::is_nvidia_gpu_shown;
use forebay::{Carrier, Device, facts};

use crate::args::{self, Common, Route};
use crate::byte_count::shown;
use crate::carrier::routed;

use super::advice::split;
use super::finding::Finding;

/// Small: enough to try a route with.
const BUDGET: u64 = 2 << 20;

/// A device that works, and a carrier to it.
pub struct Target {
    pub device: Device,
    pub carrier: Carrier,
}

/// The devices asked for, every one with `auto`, and what was found on the way.
pub fn targets(common: &Common) -> (Vec<Target>, Vec<Finding>) {
    let mut found = (Vec::new(), Vec::new());
    if let args::Device::Auto | args::Device::Host = common.device {
        found.1.push(Finding::yes("device", "host", "bytes land in host memory"));
        found.0.extend(target(Device::host(), common.route));
    }
    match common.device {
        args::Device::Host => {}
        args::Device::Cuda(ordinal) => look_at(ordinal as usize, &format!("cuda:{ordinal}"), common.route, &mut found),
        args::Device::Auto => match Device::count_cuda() {
            Ok(0) | Err(_) if !is_nvidia_gpu_shown(facts::sys(), facts::proc(), facts::root()) => {
                let reason = "this machine shows no NVIDIA GPU: bytes land in host memory";
                found.1.push(Finding::note("device", "cuda", reason));
            }
            // The error says more than that there are none.
            Ok(0) => look_at(0, "cuda", common.route, &mut found),
            Ok(count) => {
                (0..count).for_each(|ordinal| look_at(ordinal, &format!("cuda:{ordinal}"), common.route, &mut found));
            }
            Err(error) => found.1.push(failed("cuda", error)),
        },
    }
    let (targets, mut findings) = found;
    findings.extend(targets.iter().filter_map(cufile).take(1));
    (targets, findings)
}

fn look_at(ordinal: usize, name: &str, route: Route, (targets, findings): &mut (Vec<Target>, Vec<Finding>)) {
    match Device::cuda(ordinal) {
        Ok(device) => {
            findings.push(Finding::yes("device", name, about(&device)));
            match target(device, route) {
                Ok(target) => targets.push(target),
                Err(error) => findings.push(failed(name, error)),
            }
        }
        Err(error) => findings.push(failed(name, error)),
    }
}

fn target(device: Device, route: Route) -> Result<Target, forebay::BuildError> {
    let builder = Carrier::builder().device(&device).budget(BUDGET).device_budget(BUDGET);
    Ok(Target { carrier: routed(builder, route).build()?, device })
}

fn about(device: &Device) -> String {
    let mut about = device.name().to_owned();
    if let Ok(Some((free, total))) = device.memory() {
        about += &format!(", {} of {} free", shown(free), shown(total));
    }
    if let Some(address) = device.pci_address() {
        about += &format!(", PCI {address}");
    }
    if let Ok(Some((major, minor))) = device.driver_version() {
        about += &format!(", driver for CUDA {major}.{minor}");
    }
    about
}

/// cuFile is one for the process, so one finding for all devices.
fn cufile(target: &Target) -> Option<Finding> {
    const KIND: &str = "cufile";
    target.device.context()?;
    let properties = match target.carrier.cufile() {
        Ok(properties) => properties,
        Err(reason) => {
            return Some(Finding::no(KIND, "libcufile", reason.to_string(), reason.fix()));
        }
    };
    let mut about =
        target.carrier.cufile_version().map_or_else(|| "works".into(), |version| format!("version {version}"));
    about += match (properties.force_compat, properties.allow_compat) {
        (true, _) => ", in its compatibility mode only",
        (false, true) => ", falls back to its compatibility mode unasked",
        (false, false) => ", without its compatibility mode",
    };
    about += &format!(", requests up to {}", shown(properties.max_direct_io));
    if properties.batch {
        about += &format!(", batches of {}", properties.max_batch);
    }
    if properties.streams {
        about += ", stream reads";
    }
    Some(match properties.force_compat {
        true => Finding::no(KIND, "libcufile", about, "set force_compat_mode to false in cufile.json"),
        false => Finding::yes(KIND, "libcufile", about),
    })
}

fn failed(subject: &str, error: impl std::error::Error) -> Finding {
    let text = error.to_string();
    let (reason, fix) = split(&text, "use --device host");
    Finding::no("device", subject, reason, fix)
}
