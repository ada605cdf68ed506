//! A made-up /sys or /proc in a temporary folder, for the tests of this layer.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

pub(crate) struct FakeTree {
    root: tempfile::TempDir,
}

impl FakeTree {
    pub(crate) fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn dir(&self, name: &str) {
        fs::create_dir_all(self.path(name)).unwrap();
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        self.bytes(name, text.as_bytes());
    }

    pub(crate) fn bytes(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Many files of one folder: `("queue/rotational", "0\n")`.
    pub(crate) fn files(&self, folder: &str, files: &[(&str, &str)]) {
        for (name, text) in files {
            self.file(&format!("{folder}/{name}"), text);
        }
    }

    /// A link at `name` to `target`, both counted from the root of the tree.
    pub(crate) fn link(&self, name: &str, target: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let up = "../".repeat(name.split('/').count() - 1);
        symlink(format!("{up}{target}"), path).unwrap();
    }
}
