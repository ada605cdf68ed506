//! What the script sets about the machine that cuFile seems to run on.

use super::parameters;
use crate::script;

/// The way bytes take underneath cuFile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The kernel's PCI peer-to-peer DMA, without nvidia-fs.
    P2p,
    /// The nvidia-fs module.
    Nvfs,
    /// Plain reads and a copy: the compatibility mode.
    Compat,
}

/// `cufile_path=p2p|nvfs|compat`, p2p by default; the parameter that forces compatibility mode wins.
pub fn path() -> Path {
    if parameters::flag(parameters::FORCE_COMPAT) {
        return Path::Compat;
    }
    match script::setting("cufile_path").as_deref() {
        Some("compat") => Path::Compat,
        Some("nvfs") => Path::Nvfs,
        _ => Path::P2p,
    }
}

/// Whether plain reads may stand in where there is no direct path.
pub fn compat_allowed() -> bool {
    !is_set("cufile_no_compat") && parameters::flag(parameters::ALLOW_COMPAT)
}

/// A bare word sets it, and `=0` takes it back.
pub fn is_set(name: &str) -> bool {
    script::setting(name).is_some_and(|value| value != "0")
}

/// Also a size with its unit, as `64KiB`. A key with an empty value is as good as none.
pub fn number(name: &str, otherwise: u64) -> u64 {
    script::number(name, otherwise as f64) as u64
}

/// A code of cuFile that a setting asks for; 0 asks for none.
pub fn code(name: &str) -> Option<i32> {
    script::setting(name).and_then(|text| text.trim().parse().ok()).filter(|code| *code != 0)
}

/// The limit of one batch's entries.
pub fn batch_limit() -> u64 {
    number("cufile_batch", parameters::size(parameters::IO_BATCHSIZE))
}

/// The most bytes of one request to the storage; longer reads are split.
pub fn max_direct_io_kb() -> u64 {
    number("cufile_max_direct_io_kb", parameters::size(parameters::MAX_DIRECT_IO_KB))
}

/// The most bytes of device memory that may be registered at once.
pub fn pinned_limit() -> u64 {
    number("cufile_pinned_max", parameters::size(parameters::MAX_PINNED_KB).saturating_mul(1024))
}

/// `cufile_nvfs_version=2.28` as (2, 28). Without nvidia-fs the library knows no version of it.
pub fn nvfs_version() -> (u32, u32) {
    let otherwise = if path() == Path::Nvfs { "2.28" } else { "0.0" };
    let set = script::setting("cufile_nvfs_version").filter(|text| !text.is_empty());
    let text = set.unwrap_or_else(|| otherwise.to_owned());
    let mut parts = text.split('.').map(|part| part.trim().parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}
