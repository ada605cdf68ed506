use super::decision::Route;
use super::hindrance::Hindrance;
use crate::device::cufile::{CuFileError, Refusal};
use crate::storage::NoDirect;

/// Why a route is not taken. Its words tell what is wrong, and [`fix`](Self::fix) what to do about it.
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
    #[error("the route {0} can be had and is better for what is not in the page cache")]
    Outranked(Route),
    /// Bytes are to land in host memory, where reading past the page cache is the direct way already.
    #[error("bytes are to land in host memory, which cuFile does not serve")]
    HostDevice,
    /// The file has no reads past the page cache.
    #[error("{0}")]
    NoDirectIo(NoDirect),
    /// There is no cuFile library, or one without the functions that are needed: in cuFile's or the loader's words.
    #[error("{}", parted(.0).0)]
    NoCuFile(String),
    /// cuFile cannot be started or used at all.
    #[error("cuFile: {}", bare(.0))]
    CuFileRefuses(Refusal),
    /// cuFile cannot be used at all, for another reason than an answer of its own.
    #[error("{}", parted(.0).0)]
    CuFileFails(String),
    /// The carrier's device memory cannot be registered with cuFile.
    #[error("{0}")]
    MemoryRefused(String),
    /// cuFile refuses the file.
    #[error("cuFile: {}{}", bare(.refusal), said(.seen))]
    FileRefused {
        /// Its answer.
        refusal: Refusal,
        /// What the machine lacks for it, as far as that is seen, the most likely cause first.
        seen: Vec<Hindrance>,
    },
    /// cuFile serves the file through host memory only.
    #[error("cuFile would only serve it through its compatibility mode, by way of host memory{}", said(.seen))]
    CompatOnly {
        /// As above.
        seen: Vec<Hindrance>,
    },
    /// Other reads of this process went through that mode while it was tried, and cuFile's counts do not tell them apart.
    #[error("whether cuFile serves it directly could not be told, as other reads went through its compatibility mode")]
    Unsure,
    /// The caller wants the bytes where cuFile cannot put them.
    #[error("offset, length or place of the extent is not a multiple of {block}, which cuFile's reads must be")]
    Alignment {
        /// Bytes that all three must be multiples of.
        block: u32,
    },
    /// The bytes pass through host memory, where the processor works on them.
    #[error("the processor works on these bytes in host memory before the device gets them")]
    ByTheHost,
    /// The file could not be read to find out.
    #[error("a first read with cuFile failed: {}", parted(.0).0)]
    Unreadable(String),
}

fn said(seen: &[Hindrance]) -> String {
    let seen: Vec<String> = seen.iter().map(ToString::to_string).collect();
    if seen.is_empty() { String::new() } else { format!(" ({})", seen.join("; ")) }
}

/// Errors end in what to do about them: what is wrong, and that.
fn parted(error: &str) -> (&str, Option<&str>) {
    error.rsplit_once("; ").map_or((error, None), |(what, fix)| (what, Some(fix)))
}

/// A refusal without what to do about it.
fn bare(refusal: &Refusal) -> String {
    let said = refusal.to_string();
    said.strip_suffix(&format!("; {}", refusal.code.fix())).unwrap_or(&said).to_owned()
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
            Self::NoCuFile(error) => parted(error)
                .1
                .unwrap_or("install GPUDirect Storage (package nvidia-gds, or the toolkit's libcufile)")
                .into(),
            Self::CuFileRefuses(refusal) => refusal.code.fix().into(),
            Self::CuFileFails(error) => parted(error).1.unwrap_or("see cufile.log").into(),
            Self::MemoryRefused(_) => "lower the device budget, or raise the limit that is named".into(),
            Self::FileRefused { refusal, seen } => first_fix(seen).unwrap_or_else(|| refusal.code.fix()).into(),
            Self::CompatOnly { seen } => first_fix(seen)
                .unwrap_or("set allow_compat_mode to false in cufile.json to see in cufile.log what is missing")
                .into(),
            Self::Unsure => "open the file when nothing else reads with cuFile, or ask for this route".into(),
            Self::Alignment { .. } => "align the data and its places, or take another route".into(),
            Self::ByTheHost => "leave out transforms, checks and padding".into(),
            Self::Unreadable(error) => parted(error).1.unwrap_or("check the file, and see cufile.log").into(),
        }
    }

    pub(super) fn of_cufile(error: CuFileError) -> Self {
        let text = error.to_string();
        match error {
            CuFileError::Library(_) | CuFileError::Lacks(_) => Self::NoCuFile(text),
            CuFileError::Refused(refusal) => Self::CuFileRefuses(refusal),
            CuFileError::Register { .. } | CuFileError::Range { .. } => Self::MemoryRefused(text),
            _ => Self::CuFileFails(text),
        }
    }

    pub(super) fn of_refused_file(error: CuFileError, seen: Vec<Hindrance>) -> Self {
        match error {
            CuFileError::Refused(refusal) => Self::FileRefused { refusal, seen },
            other => Self::CuFileFails(other.to_string()),
        }
    }
}

fn first_fix(seen: &[Hindrance]) -> Option<&'static str> {
    seen.first().map(Hindrance::fix)
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;
    use crate::sys::cufile::CuFileCode;

    #[test]
    fn what_is_wrong_is_said_apart_from_what_to_do() {
        let refusal = Refusal { call: "cuFileDriverOpen", code: CuFileCode(5012), cuda: None };
        let library = "cuFile: the cuFile library cannot be loaded (a: no; b: no); install it";
        let memory = "cuda:0: 2 MiB asked for, 1 of 2 free; lower the device budget";
        let seen = vec![Hindrance::NoUdev];
        let reasons = [
            (NoRoute::NoCuFile(library.into()), "(a: no; b: no)", "install it"),
            (NoRoute::CuFileFails(memory.into()), "2 free", "lower the device budget"),
            (NoRoute::Unreadable("it ends; check it".into()), "it ends", "check it"),
            (NoRoute::CuFileRefuses(refusal.clone()), "(5012)", refusal.code.fix()),
            (NoRoute::FileRefused { refusal: refusal.clone(), seen: vec![] }, "(5012)", refusal.code.fix()),
            (NoRoute::FileRefused { refusal, seen: seen.clone() }, "the disk under a file)", seen[0].fix()),
            (NoRoute::Unreadable("said nothing".into()), "said nothing", "check the file, and see cufile.log"),
        ];
        for (reason, end, fix) in reasons {
            let said = reason.to_string();
            assert!(said.ends_with(end), "{said}");
            assert!(!said.contains(fix), "{said}");
            assert_eq!(reason.fix(), fix);
        }
    }
}
