//! The rows that one suite runs over where bytes stay on the host (engine x mode), and reading by path.
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use forebay::{EngineChoice, Extent, File, Mode, Reader, ReaderBuilder};

use super::Skip;

/// Small on purpose: every file worth reading is split, and every request meets chunk boundaries.
pub const CHUNK: u64 = 128 << 10;
pub const BUDGET: u64 = 32 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub engine: EngineChoice,
    pub mode: Mode,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{:?}", self.engine, self.mode)
    }
}

impl Row {
    pub fn builder(&self) -> ReaderBuilder {
        let builder = Reader::builder().engine(self.engine).mode(self.mode);
        builder.chunk(CHUNK).budget(BUDGET).depth(16)
    }

    pub fn reader(&self) -> Reader {
        let built = self.builder().build();
        built.unwrap_or_else(|e| panic!("{self}: {e}"))
    }
}

/// Every row that this machine can have; what it cannot have is said aloud.
pub fn rows() -> Vec<Row> {
    let modes = [Mode::Direct, Mode::Buffered, Mode::Auto];
    engines().into_iter().flat_map(|engine| modes.map(|mode| Row { engine, mode })).collect()
}

pub fn engines() -> Vec<EngineChoice> {
    match uring_here() {
        Ok(()) => vec![EngineChoice::Uring, EngineChoice::Pread],
        Err(Skip(why)) => {
            crate::common::skipped::skipped(format!("every row with the engine uring: {why}"));
            vec![EngineChoice::Pread]
        }
    }
}

/// Asks the kernel for a ring by ourselves, so that an engine that wrongly refuses is a failure and not a skip.
pub fn uring_here() -> Result<(), Skip> {
    use std::os::fd::{FromRawFd, OwnedFd};
    let mut params = [0u8; 120];
    // SAFETY: io_uring_setup reads and writes one struct io_uring_params, 120 bytes, which outlives the call.
    let fd = unsafe { nix::libc::syscall(nix::libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) };
    if fd < 0 {
        return Err(Skip::because(format!("io_uring_setup: {}", std::io::Error::last_os_error())));
    }
    // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
    drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
    Ok(())
}

/// A wish for bytes, by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub path: PathBuf,
    pub offset: u64,
    pub len: u64,
}

pub fn ask(path: &Path, offset: u64, len: u64) -> Ask {
    Ask { path: path.to_owned(), offset, len }
}

/// Opens each path once and reads all the asks as one request; an error as the user would see it.
pub fn read(reader: &Reader, asks: &[Ask]) -> Result<Vec<Vec<u8>>, String> {
    let extents = extents(reader, asks)?;
    let pieces = reader.read_blocking(&extents).map_err(|e| e.to_string())?;
    assert_eq!(pieces.len(), asks.len(), "as many pieces as extents");
    Ok((0..pieces.len()).map(|i| pieces[i].to_vec()).collect())
}

pub fn extents(reader: &Reader, asks: &[Ask]) -> Result<Vec<Extent>, String> {
    extents_of(asks, |path| reader.open(path).map_err(|e| e.to_string()))
}

pub fn extents_of(asks: &[Ask], open: impl Fn(&Path) -> Result<File, String>) -> Result<Vec<Extent>, String> {
    let mut files: HashMap<&Path, File> = HashMap::new();
    for ask in asks {
        if !files.contains_key(ask.path.as_path()) {
            files.insert(&ask.path, open(&ask.path)?);
        }
    }
    Ok(asks.iter().map(|ask| Extent::new(&files[ask.path.as_path()], ask.offset, ask.len)).collect())
}

/// An error must say where: the path, and unless it is about the whole file, ` at OFFSET`.
pub fn names_path(error: &str, path: &Path) -> Result<(), String> {
    if error.contains(&path.display().to_string()) {
        return Ok(());
    }
    Err(format!("the error does not name {}: {error}", path.display()))
}

pub fn names_offset(error: &str, path: &Path) -> Result<(), String> {
    names_path(error, path)?;
    let after = error.split(&format!("{} at ", path.display())).nth(1).unwrap_or_default();
    if after.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(());
    }
    Err(format!("the error does not name the offset in {}: {error}", path.display()))
}
