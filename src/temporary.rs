//! Files that get their final name when they are whole. Until then they have none, where the file system and /proc allow that, so
//! that nothing is left of them however the process ends; elsewhere a hidden one, which says whose it is, so that what a process
//! left that was killed can be removed.
#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::libc;
use nix::unistd::linkat;
use xxhash_rust::xxh3::xxh3_64;

/// A file of ours without its final name; dropping this removes it.
#[derive(Debug)]
pub struct Temporary {
    folder: PathBuf,
    maker: &'static str,
    /// `None` once it is [parked](Self::park).
    file: Option<File>,
    hidden: Option<PathBuf>,
}

impl Temporary {
    /// A new file in `folder`, open for writing; where it needs a name, `.{maker}-….tmp`.
    pub fn create(folder: &Path, maker: &'static str) -> io::Result<Self> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let temporary = |file, hidden| Self { folder: folder.to_owned(), maker, file: Some(file), hidden };
        let mut options = OpenOptions::new();
        match options.write(true).custom_flags(libc::O_TMPFILE).open(folder) {
            // Without /proc it could never be given a name.
            Ok(file) if path_of(&file).symlink_metadata().is_ok() => Ok(temporary(file, None)),
            Ok(_) => Self::named(folder, maker).map(|(path, file)| temporary(file, Some(path))),
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT | libc::EINVAL)
                ) =>
            {
                Self::named(folder, maker).map(|(path, file)| temporary(file, Some(path)))
            }
            Err(error) => Err(error),
        }
    }

    fn named(folder: &Path, maker: &str) -> io::Result<(PathBuf, File)> {
        remove_stale(folder, maker);
        with_free_name(folder, maker, |path| OpenOptions::new().write(true).create_new(true).open(path))
    }

    /// The file itself.
    pub fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::Error::other("the file was closed before"))
    }

    /// By which it can be opened once more.
    pub(crate) fn path(&self) -> PathBuf {
        match (&self.hidden, &self.file) {
            (None, Some(file)) => path_of(file),
            (hidden, _) => hidden.clone().unwrap_or_default(),
        }
    }

    /// Closes the file, which takes a hidden name: for those of which there may be more than descriptors.
    pub(crate) fn park(&mut self) -> io::Result<()> {
        self.hide()?;
        self.file = None;
        Ok(())
    }

    /// Gives the file its final name. A file that has that name now is replaced, and hands down its permissions.
    pub fn replace(mut self, path: &Path) -> io::Result<()> {
        // No call gives a name that is taken to a file without one.
        let hidden = self.hide()?;
        if let Ok(before) = path.symlink_metadata()
            && before.is_file()
        {
            fs::set_permissions(hidden, before.permissions())?;
        }
        fs::rename(hidden, path)
    }

    /// Gives the file its final name, which must be free: [`io::ErrorKind::AlreadyExists`] where it is not.
    pub(crate) fn place(self, path: &Path) -> io::Result<()> {
        let Some(hidden) = &self.hidden else { return link(self.file()?, path) };
        match fs::hard_link(hidden, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // A file system without links: then only the look before can tell.
            Err(_) if path.symlink_metadata().is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(hidden, path),
            // The hidden name goes with `self`.
            Ok(()) => Ok(()),
        }
    }

    /// The hidden name, which it is given where it has none.
    fn hide(&mut self) -> io::Result<&Path> {
        if self.hidden.is_none() {
            let file = self.file()?;
            let (path, ()) = with_free_name(&self.folder, self.maker, |path| link(file, path))?;
            self.hidden = Some(path);
        }
        self.hidden.as_deref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // After a rename there is none.
            let _ = fs::remove_file(hidden);
        }
    }
}

/// Replaces a file whole, and returns once that is on disk: a process or a machine that stops half way leaves the old one.
pub fn replace_file(path: &Path, maker: &'static str, bytes: &[u8]) -> io::Result<()> {
    let target = behind_links(path)?;
    let folder = target.parent().unwrap_or(Path::new(""));
    let temporary = Temporary::create(folder, maker)?;
    let mut file = temporary.file()?;
    file.write_all(bytes)?;
    file.sync_all()?;
    temporary.replace(&target)?;
    sync_folder(folder)
}

/// The file that a path names behind all links, which need not exist: a link stays a link when its target is replaced.
pub fn behind_links(path: &Path) -> io::Result<PathBuf> {
    /// As many as the kernel follows.
    const MOST: usize = 40;
    let mut target = path.to_owned();
    for _ in 0..MOST {
        match fs::read_link(&target) {
            Ok(to) => target = target.parent().unwrap_or(Path::new("")).join(to),
            // No link, or nothing of this name.
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// Has names that were made, changed or removed in a folder on disk, where its file system can do so.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match File::open(folder).and_then(|open| open.sync_all()) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        // One that may be written to and not read: its names can be made, and not synced.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// Where an open file without a name can be reached.
fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into()
}

fn link(file: &File, path: &Path) -> io::Result<()> {
    Ok(linkat(AT_FDCWD, &path_of(file), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW)?)
}

fn with_free_name<T>(folder: &Path, maker: &str, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let owner = Owner::this();
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".{maker}-{}-{number:06}.tmp", owner.name()));
        match make(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|made| (path, made)),
        }
    }
}

/// Removes files under the hidden names of `maker` whose processes have ended. Those of other machines and of containers that
/// share the folder stay, since nobody here can tell whether they live.
pub(crate) fn remove_stale(folder: &Path, maker: &str) {
    let (here, user) = (Owner::this(), user());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix('.')?.strip_prefix(maker)?.strip_prefix('-'));
        let owner = rest
            .and_then(|rest| rest.strip_suffix(".tmp")?.rsplit_once('-'))
            .and_then(|(owner, _)| Owner::parse(owner));
        // Of other users' processes /proc may tell nothing.
        let is_ours = || entry.metadata().is_ok_and(|file| Some(file.uid()) == user);
        if owner.is_some_and(|owner| owner.has_ended(&here)) && is_ours() {
            // Another may be removing it, too, or it is not ours to remove.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A process, so that it is never taken for a later one of the same number.
struct Owner {
    /// The run of a machine's kernel and the namespace of processes in which the number counts.
    place: u64,
    process: u32,
    /// In ticks since the machine started.
    started: u64,
}

impl Owner {
    fn this() -> Self {
        let process = process::id();
        let mut place = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
        place.extend(namespace.to_le_bytes());
        // A /proc of another namespace has others under our numbers.
        let started = started("self").filter(|ticks| started(&process.to_string()) == Some(*ticks));
        Self { place: xxh3_64(&place), process, started: started.unwrap_or(0) }
    }

    fn name(&self) -> String {
        format!("{:016x}-{}-{}", self.place, self.process, self.started)
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let place = u64::from_str_radix(parts.next()?, 16).ok()?;
        let (process, started) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(Self { place, process, started })
    }

    fn has_ended(&self, here: &Self) -> bool {
        // Without /proc nothing is known of any process.
        let is_told = here.started > 0 && self.started > 0;
        is_told && self.place == here.place && started(&self.process.to_string()) != Some(self.started)
    }
}

/// Who this process runs as.
fn user() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|process| process.uid())
}

/// When a process started, by the 22nd field of its `stat`; the second, its name, may hold anything.
fn started(process: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::{Command, Stdio};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn both(folder: &Path) -> [Temporary; 2] {
        let (path, file) = Temporary::named(folder, "test").unwrap();
        let named = Temporary { folder: folder.to_owned(), maker: "test", file: Some(file), hidden: Some(path) };
        [named, Temporary::create(folder, "test").unwrap()]
    }

    #[test]
    fn a_file_has_its_final_name_or_none_is_left() {
        let folder = tempfile::tempdir().unwrap();
        for temporary in both(folder.path()) {
            drop(temporary);
            assert!(names(folder.path()).is_empty());
        }
        for (round, temporary) in both(folder.path()).into_iter().enumerate() {
            write!(temporary.file().unwrap(), "{round}").unwrap();
            temporary.replace(&folder.path().join("file")).unwrap();
            assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), round.to_string());
        }
        for mut temporary in both(folder.path()) {
            temporary.park().unwrap();
            assert_eq!(names(folder.path()).len(), 2);
            assert_eq!(temporary.place(&folder.path().join("file")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        for temporary in both(folder.path()) {
            temporary.place(&folder.path().join("other")).unwrap();
            fs::remove_file(folder.path().join("other")).unwrap();
        }
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn a_file_that_is_replaced_hands_down_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for mode in [0o600, 0o640, 0o444, 0o755] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            for mut temporary in both(folder.path()) {
                temporary.park().unwrap();
                temporary.replace(&path).unwrap();
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
            }
            replace_file(&path, "test", b"new").unwrap();
            assert_eq!(
                (fs::metadata(&path).unwrap().mode() & 0o7777, fs::read(&path).unwrap()),
                (mode, b"new".to_vec())
            );
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn links_stay_links_whether_their_target_exists() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("inner")).unwrap();
        symlink("inner/second", at("first")).unwrap();
        symlink("../third", at("inner/second")).unwrap();
        for text in ["made", "replaced"] {
            replace_file(&at("first"), "test", text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(at("third")).unwrap(), text);
            assert!(at("first").is_symlink() && at("inner/second").is_symlink() && !at("third").is_symlink());
        }
        symlink("circle", at("circle")).unwrap();
        let error = replace_file(&at("circle"), "test", b"").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
        assert_eq!(names(folder.path()), ["circle", "first", "inner", "third"]);
    }

    /// What lies under a hidden name is not opened, whatever it is, and a name may be as long as the file system allows.
    #[test]
    fn what_is_planted_at_a_hidden_name_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("other"), "theirs").unwrap();
        let owner = Owner::this().name();
        for number in 0..2000 {
            symlink("other", at(&format!(".test-{owner}-{number:06}.tmp"))).unwrap();
        }
        let long = "n".repeat(255);
        let (path, mut file) = Temporary::named(folder.path(), "test").unwrap();
        file.write_all(b"ours").unwrap();
        let named = Temporary { folder: folder.path().to_owned(), maker: "test", file: Some(file), hidden: Some(path) };
        named.replace(&at(&long)).unwrap();
        assert_eq!(fs::read_to_string(at("other")).unwrap(), "theirs");
        assert_eq!(fs::read_to_string(at(&long)).unwrap(), "ours");
    }

    #[test]
    fn what_processes_left_that_have_ended_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let here = Owner::this();
        let mut sleeper = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let id = sleeper.id();
        let began = started(&id.to_string()).unwrap();
        let name = |place, process, started| format!(".test-{}-000003.tmp", Owner { place, process, started }.name());
        let live = name(here.place, id, began);
        let stays = [
            name(here.place, here.process, here.started),
            name(here.place ^ 1, id, began + 1),
            ".other-1-2-3-000003.tmp".to_owned(),
            ".test-1-000003.tmp".to_owned(),
            "test.tmp".to_owned(),
        ];
        // The number of a live process that began later.
        let stale = name(here.place, id, began + 1);
        for name in stays.iter().chain([&live, &stale]) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        remove_stale(folder.path(), "test");
        let mut left = stays.to_vec();
        left.push(live);
        left.sort();
        assert_eq!(names(folder.path()), left);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        remove_stale(folder.path(), "test");
        let mut left = stays.to_vec();
        left.sort();
        assert_eq!(names(folder.path()), left);
    }
}
