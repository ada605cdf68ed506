use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::TuningError;
use super::key::Key;
use super::profile::Profile;
use crate::sys::text::{WITHOUT_MARK, byte_order_mark};
use crate::temporary::{Temporary, replace_file};

/// A folder of profiles, a small JSON file for each [`Key`].
#[derive(Clone, Debug)]
pub struct Profiles {
    folder: PathBuf,
}

/// No profile is longer: of a file that has become something else no more is read.
const LONGEST: u64 = 64 << 10;

const MAKER: &str = "forebay-tuned";

impl Profiles {
    /// Those of this user: `forebay/tuned` in `$XDG_CONFIG_HOME`, or in `~/.config` where that is not set to an absolute path
    /// ([XDG Base Directory Specification](https://specifications.freedesktop.org/basedir-spec/latest/)).
    ///
    /// # Errors
    /// [`TuningError::NoHome`] where the environment has neither.
    pub fn usual() -> Result<Self, TuningError> {
        let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let config = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
        config.map(|config| Self::at(config.join("forebay/tuned"))).ok_or(TuningError::NoHome)
    }

    /// Those in this folder, which is made when the first is saved.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// What was saved for this key; `None` where nothing was.
    ///
    /// # Errors
    /// [`TuningError::File`] where it cannot be read, [`TuningError::Damaged`] where it holds something else.
    pub fn find(&self, key: &Key) -> Result<Option<Profile>, TuningError> {
        let path = self.path(key);
        let text = match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| file_error(&path, "read", error))?,
        };
        let damaged = |what: String| TuningError::Damaged { path: path.display().to_string(), what };
        let profile: Profile = serde_json::from_slice(&text).map_err(|error| {
            damaged(byte_order_mark(&text).map_or_else(|| error.to_string(), |mark| format!("{mark}: {WITHOUT_MARK}")))
        })?;
        match profile.key == *key {
            true => Ok(Some(profile)),
            false => Err(damaged(format!("is for {}", profile.key))),
        }
    }

    /// Keeps it, in place of what was saved for its key before. Its file, which is replaced whole.
    ///
    /// # Errors
    /// [`TuningError::File`] where it cannot be written; what was there before stays.
    pub fn save(&self, profile: &Profile) -> Result<PathBuf, TuningError> {
        let path = self.path(&profile.key);
        let write = || {
            fs::create_dir_all(&self.folder)?;
            let mut text = serde_json::to_string_pretty(profile)?;
            text.push('\n');
            replace_file(&path, MAKER, text.as_bytes())
        };
        write().map_err(|error| file_error(&path, "save", error))?;
        Ok(path)
    }

    /// Sees that profiles can be saved, for whoever measures long before there is one: makes their folder, and in it a file that
    /// is gone again.
    ///
    /// # Errors
    /// [`TuningError::File`] where that cannot be done.
    pub fn check(&self) -> Result<(), TuningError> {
        let made = fs::create_dir_all(&self.folder).and_then(|()| Temporary::create(&self.folder, MAKER));
        made.map(drop).map_err(|error| file_error(&self.folder, "save", error))
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(key.file_name())
    }
}

fn file_error(path: &Path, what: &'static str, error: io::Error) -> TuningError {
    TuningError::File { path: path.display().to_string(), what, error }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::ReaderSettings;

    fn profile(drive: &str, depth: u32) -> Profile {
        let key = Key { file_system: "ext4".into(), drive: drive.into(), device: "host".into() };
        Profile::new(key, ReaderSettings { depth, ..ReaderSettings::DEFAULT }, "random")
    }

    #[test]
    fn each_key_has_what_was_saved_last_for_it_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let profiles = Profiles::at(folder.path().join("made/when/needed"));
        let (a, b, later) = (profile("a", 1), profile("b", 2), profile("a", 3));
        assert_eq!(profiles.find(&a.key).unwrap(), None);
        profiles.save(&a).unwrap();
        profiles.save(&b).unwrap();
        assert_eq!(profiles.find(&a.key).unwrap(), Some(a.clone()));
        let path = profiles.save(&later).unwrap();
        assert_eq!(profiles.find(&a.key).unwrap(), Some(later));
        assert_eq!(profiles.find(&b.key).unwrap(), Some(b));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2, "nothing is left of the writing");
    }

    #[test]
    fn whether_profiles_can_be_saved_is_seen_beforehand_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        Profiles::at(folder.path().join("made")).check().unwrap();
        assert_eq!(fs::read_dir(folder.path().join("made")).unwrap().count(), 0);
        fs::write(folder.path().join("file"), "").unwrap();
        let error = Profiles::at(folder.path().join("file/in")).check().unwrap_err();
        assert!(matches!(error, TuningError::File { .. }), "{error}");
    }

    #[test]
    fn a_profile_that_is_a_link_stays_one() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let profiles = Profiles::at(folder.path());
        let (first, later) = (profile("a", 1), profile("a", 2));
        let path = profiles.save(&first).unwrap();
        let kept = elsewhere.path().join("kept.json");
        fs::rename(&path, &kept).unwrap();
        std::os::unix::fs::symlink(&kept, &path).unwrap();
        profiles.save(&later).unwrap();
        assert!(path.is_symlink());
        assert_eq!(serde_json::from_slice::<Profile>(&fs::read(&kept).unwrap()).unwrap(), later);
    }

    #[test]
    fn a_byte_order_mark_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let profiles = Profiles::at(folder.path());
        let a = profile("a", 1);
        let path = profiles.save(&a).unwrap();
        let text = fs::read(&path).unwrap();
        for (mark, name) in [(&b"\xef\xbb\xbf"[..], "UTF-8"), (b"\xff\xfe", "UTF-16")] {
            fs::write(&path, [mark, &text].concat()).unwrap();
            let said = profiles.find(&a.key).unwrap_err().to_string();
            assert!(said.contains(&format!("byte order mark of {name}")), "{said}");
        }
    }

    #[test]
    fn a_file_that_holds_something_else_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let profiles = Profiles::at(folder.path());
        let (a, b) = (profile("a", 1), profile("b", 2));
        let path = profiles.save(&a).unwrap();
        for text in [&b""[..], b"{", b"{}", b"\xff\0", &vec![b'['; 1 << 20]] {
            fs::write(&path, text).unwrap();
            let error = profiles.find(&a.key).unwrap_err();
            assert!(matches!(error, TuningError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
        }
        fs::rename(profiles.save(&b).unwrap(), &path).unwrap();
        assert!(profiles.find(&a.key).unwrap_err().to_string().contains("is for ext4 on b to host"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        for error in [profiles.find(&a.key).unwrap_err(), profiles.save(&a).unwrap_err()] {
            assert!(matches!(error, TuningError::File { .. }), "{error}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left of the writing");
    }
}
