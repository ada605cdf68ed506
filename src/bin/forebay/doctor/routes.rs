//! The devices and routes that this build has at all.

use super::finding::Finding;

pub fn findings() -> Vec<Finding> {
    const MISSING: &str = "this build of forebay has no device layer yet";
    vec![
        Finding::yes("device", "host", "bytes land in host memory"),
        Finding::no("device", "cuda", MISSING, "use --device host"),
        Finding::no("route", "direct", format!("cuFile needs a CUDA device, and {MISSING}"), "use --route bounce"),
        Finding::yes("route", "bounce", "O_DIRECT into host memory, where a path allows it (see direct io)"),
        Finding::yes("route", "cached", "through the page cache, for every file"),
    ]
}
