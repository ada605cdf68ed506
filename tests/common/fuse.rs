//! A FUSE file system of our own: it serves self-describing files and misbehaves on demand.
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use fuser::{
    Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry, ReplyOpen, Request,
};

use super::Skip;
use super::knobs::{Ask, Knobs};
use super::mounts::Work;

/// The mounted file system and its knobs. Dropping it releases stalled reads, aborts the connection and unmounts, so
/// that nothing can be left waiting for an answer.
#[derive(Debug)]
pub struct Fuse {
    pub dir: PathBuf,
    pub knobs: Arc<Knobs>,
    session: Option<fuser::BackgroundSession>,
    guardian: Child,
    work: Work,
}

/// How the kernel passes reads on to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Through the page cache.
    Cached,
    /// One by one and as they are asked for (FOPEN_DIRECT_IO).
    DirectIo,
    /// The same, and O_DIRECT reads do not wait for each other (FUSE_ASYNC_DIO).
    AsyncDirectIo,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Cached, Kind::DirectIo, Kind::AsyncDirectIo];

    pub fn direct_io(self) -> bool {
        self != Kind::Cached
    }
}

impl Fuse {
    pub fn mount(kind: Kind) -> Result<Fuse, Skip> {
        let work = Work::new("fuse")?;
        let dir = work.subdir("mnt")?;
        let knobs = Arc::new(Knobs::default());
        let skip = |e: std::io::Error| Skip::because(format!("fuse: cannot mount through /dev/fuse: {e}"));
        let mut config = fuser::Config::default();
        config.mount_options = vec![fuser::MountOption::FSName("forebay-test".into())];
        config.acl = fuser::SessionACL::All;
        knobs.direct_io(kind.direct_io());
        let server = Server { knobs: knobs.clone(), async_dio: kind == Kind::AsyncDirectIo };
        let session = fuser::Session::new(server, &dir, &config).and_then(|session| session.spawn()).map_err(skip)?;
        let guardian = guardian(&dir).unwrap();
        Ok(Fuse { dir, knobs, session: Some(session), guardian, work })
    }

    /// Adds a self-describing file; nothing is stored, so its length may be anything.
    pub fn add(&self, name: &str, seed: u64, len: u64) -> PathBuf {
        self.knobs.add(name, seed, len);
        self.dir.join(name)
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.knobs.release();
        abort(&self.dir);
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        if let Some(session) = self.session.take() {
            let _ = session.umount_and_join();
        }
    }
}

/// A process that is killed while one of its threads waits for an answer that another of its threads owes never goes
/// away: the waiting thread cannot be killed, and it keeps the server's descriptor open. So somebody outside watches,
/// in a process group of its own, and ends the connection when we are dead.
fn guardian(dir: &Path) -> std::io::Result<Child> {
    const WATCH: &str = r#"
        while grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null; do sleep 1; done
        umount --force "$2"; umount --lazy "$2"
    "#;
    let mut sh = Command::new("sh");
    sh.args(["-c", WATCH, "guardian", &std::process::id().to_string()]).arg(dir).process_group(0);
    sh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// Forced unmounting makes the kernel fail every request of the connection that is still unanswered.
fn abort(dir: &Path) {
    let path = CString::new(dir.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is a NUL-terminated string that lives through the call.
    unsafe { nix::libc::umount2(path.as_ptr(), nix::libc::MNT_FORCE | nix::libc::MNT_DETACH) };
}

struct Server {
    knobs: Arc<Knobs>,
    async_dio: bool,
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        if self.async_dio {
            // A kernel without it has only the other kind, which is tested too.
            let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.knobs.find(name).and_then(|ino| self.knobs.attr(ino)) {
            Some(attr) => reply.entry(&self.knobs.ttl(), &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.knobs.attr(ino.0) {
            Some(attr) => reply.attr(&self.knobs.ttl(), &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let direct = self.knobs.opens_for_direct_io();
        // Without KEEP_CACHE, opening a file again waits for its stalled pages, and no signal ends that wait.
        let flags = if direct { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE };
        reply.opened(FileHandle(0), flags);
    }

    #[allow(clippy::too_many_arguments)]
    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.knobs.read(Ask { ino: ino.0, offset, size: u64::from(size) }, reply);
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        for (i, (ino, name)) in self.knobs.names().into_iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(ino), i as u64 + 1, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }
}
