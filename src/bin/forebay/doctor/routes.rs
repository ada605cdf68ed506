//! The verdict on one path and each device: which route its bytes take, and for every other why not.

use std::path::Path;

use forebay::{CarryFault, Route};

use super::advice::split;
use super::devices::Target;
use super::finding::Finding;

const KIND: &str = "route";

/// `sample` stands for the path: the file itself, or one of the folder.
pub fn findings(name: &str, sample: &Path, targets: &[Target]) -> Vec<Finding> {
    targets.iter().flat_map(|target| of_target(name, sample, target)).collect()
}

fn of_target(name: &str, sample: &Path, target: &Target) -> Vec<Finding> {
    let subject = |route: &str| format!("{name} -> {} by {route}", target.device);
    let file = match target.carrier.open(sample) {
        Ok(file) => file,
        Err(error) => {
            let text = match error.fault {
                CarryFault::Open(fault) => fault.to_string(),
                fault => fault.to_string(),
            };
            let (reason, fix) = split(&text, "check the path");
            return vec![Finding::no(KIND, subject("any route"), reason, fix)];
        }
    };
    // What it says is in the decision.
    let _ = target.carrier.reader().prove_direct(&file);
    let Some(decision) = target.carrier.decision(&file) else { return Vec::new() };
    let chosen = Finding::yes(KIND, subject(&decision.chosen.to_string()), about(decision.chosen, target));
    // That cuFile does not serve the host is no fault of the machine's.
    let rejected = decision.rejected.iter().filter(|rejected| rejected.reason != forebay::NoRoute::HostDevice);
    let others = rejected.map(|rejected| {
        let (subject, reason) = (subject(&rejected.route.to_string()), rejected.reason.to_string());
        match rejected.reason {
            forebay::NoRoute::Outranked(_) => Finding::note(KIND, subject, reason),
            _ => Finding::no(KIND, subject, reason, rejected.fix()),
        }
    });
    std::iter::once(chosen).chain(others).collect()
}

fn about(route: Route, target: &Target) -> String {
    let to_host = target.device.context().is_none();
    match route {
        Route::Direct => "cuFile, from the drive into device memory: tried on its first bytes".into(),
        Route::Bounce if to_host => {
            "O_DIRECT into registered memory; what is in the page cache comes from there".into()
        }
        Route::Bounce => "O_DIRECT into pinned memory, then a copy; what is in the page cache comes from there".into(),
        _ if to_host => "through the page cache into registered memory".into(),
        _ => "through the page cache into pinned memory, then a copy".into(),
    }
}
