//! `bench` that is interrupted or killed: what it says, and that it leaves nothing.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bench::{checked, file};
use crate::common::privilege::Reduced;
use crate::common::seccomp::Deny;
use crate::common::watchdog::{CHILD_PATIENCE, eventually, guarded};
use crate::common::{folder, mounts};
use crate::or_skip;
use crate::run::{forebay, write};

/// Whenever it is interrupted: nothing is left, it says what it has, and ends soon.
#[test]
fn an_interrupted_run_leaves_no_file_and_says_what_it_has() {
    for pause in [0, 30, 100, 300, 900, 2500] {
        let folder = folder();
        let child = forebay()
            .args(["bench", "--device=host", "--size=64MiB", "--seconds=3600", "--peers=false", "--json"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        let output = guarded("an interrupted run", move || child.wait_with_output().unwrap());
        let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let status = output.status;
        // Before it listens the signal itself ends it.
        let by_signal = std::os::unix::process::ExitStatusExt::signal(&status) == Some(Signal::SIGINT as i32);
        assert!(by_signal || status.code() == Some(130), "{pause} ms: {status} {stderr}");
        if !stdout.is_empty() {
            let (_, summary) = checked(&stdout);
            assert_eq!(summary["interrupted"], true);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{pause} ms");
    }
}

/// A run that measures a file of its own, for long.
fn of_its_own(command: &mut Command, folder: &Path) -> Child {
    command
        .args(["bench", "--device=host", "--size=64MiB", "--seconds=30", "--peers=false"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Nobody can clean up behind that: there must be nothing to clean up.
#[test]
fn a_killed_run_leaves_no_file() {
    let folder = folder();
    let mut child = of_its_own(&mut forebay(), folder.path());
    std::thread::sleep(Duration::from_millis(500));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The file in a folder that a run opens, once its name ends so; `None` where the run ends without one.
fn opened(child: &Child, folder: &Path, ending: &str) -> Option<String> {
    let begun = Instant::now();
    while Path::new("/proc").join(child.id().to_string()).join("exe").exists() {
        let opened = fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
        let mut within =
            opened.filter_map(|link| fs::read_link(link.path()).ok()).filter(|path| path.starts_with(folder));
        let name = within.find_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        if let Some(name) = name.filter(|name| name.ends_with(ending)) {
            return Some(name);
        }
        assert!(begun.elapsed() < CHILD_PATIENCE, "it opens nothing");
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

/// The kernel's word for a file without a name.
const NAMELESS: &str = " (deleted)";

/// Its name is there for an instant only, and says what the file is.
#[test]
fn where_files_need_a_name_a_killed_run_leaves_none_either() {
    let folder = folder();
    let reduced = Reduced::new().deny(&[Deny::Nameless(nix::libc::EOPNOTSUPP)]);
    let mut child = of_its_own(&mut reduced.command(Path::new(env!("CARGO_BIN_EXE_forebay"))), folder.path());
    let name = opened(&child, folder.path(), NAMELESS).unwrap();
    assert!(name.starts_with(&format!(".forebay-bench-{}-", child.id())) && name.contains(".may-be-deleted"), "{name}");
    killed(&mut child, folder.path());
}

/// There an open file that is deleted has another name until it is closed.
#[test]
fn on_fuse_a_killed_run_leaves_no_file_either() {
    let fuse = or_skip!(mounts::bindfs());
    let tmpfile = fs::OpenOptions::new().write(true).custom_flags(nix::libc::O_TMPFILE).open(&fuse.dir);
    assert!(tmpfile.is_err(), "a file system without files without names");
    let mut child = of_its_own(&mut forebay(), &fuse.dir);
    assert!(opened(&child, &fuse.dir, "").is_some());
    killed(&mut child, &fuse.dir);
}

fn killed(child: &mut Child, folder: &Path) {
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    child.kill().unwrap();
    child.wait().unwrap();
    let is_empty = || fs::read_dir(folder).unwrap().count() == 0;
    assert!(eventually(is_empty), "{:?}", fs::read_dir(folder).unwrap().next());
}

#[test]
fn a_run_that_is_interrupted_before_it_measures_says_so_and_leaves_an_older_page_alone() {
    for older in [None, Some("an older report")] {
        let folder = folder();
        let page = folder.path().join("page.html");
        older.iter().for_each(|text| fs::write(&page, text).unwrap());
        let child = forebay()
            .args(["bench", "--device=host", "--size=4GiB", "--seconds=30", "--peers=false", "--html=page.html"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // So much is not written that soon.
        if opened(&child, folder.path(), NAMELESS).is_some() {
            kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        }
        let answer = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(answer.stderr).unwrap();
        if stderr.contains("free some space") {
            crate::common::skipped::skipped(stderr);
            return;
        }
        assert_eq!(answer.status.code(), Some(130), "{stderr}");
        assert!(answer.stdout.is_empty());
        assert!(
            stderr.contains("before anything was measured") && stderr.contains("page.html is not written"),
            "{stderr}"
        );
        assert_eq!(fs::read_to_string(&page).ok().as_deref(), older);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), older.iter().count());
    }
}

/// While the ceilings are measured, before the first row.
#[test]
fn a_page_without_rows_does_not_take_the_place_of_an_older_one() {
    let folder = folder();
    let page = write(folder.path(), "page.html", b"an older report");
    let child = forebay()
        .args(["bench", "--device=host", "--json", "--peers=false", "--html"])
        .args([&page, &file(folder.path())])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(opened(&child, folder.path(), "data.bin").is_some());
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let answer = child.wait_with_output().unwrap();
    assert_eq!(answer.status.code(), Some(130));
    let (rows, summary) = checked(std::str::from_utf8(&answer.stdout).unwrap());
    assert!(rows.is_empty() && summary["interrupted"] == true, "{summary}");
    let stderr = String::from_utf8(answer.stderr).unwrap();
    assert!(stderr.contains("before anything was measured"), "{stderr}");
    assert_eq!(fs::read(&page).unwrap(), b"an older report");
}
