use serde::{Deserialize, Serialize};

use super::key::Key;
use crate::storage::{EngineKind, ReaderBuilder, ReaderSettings};

/// Settings that were found best for a [`Key`]; as JSON what its file holds.
///
/// To deserialise one of another version is an error that names both; the format has to describe itself, as JSON does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "FirstVersion", try_from = "serde_json::Value")]
#[non_exhaustive]
pub struct Profile {
    /// What it is good for.
    pub key: Key,
    /// What was found best.
    pub settings: ReaderSettings,
    /// Reads of which kind were measured, in the words of `forebay bench --profile`.
    pub tuned_for: String,
}

impl Profile {
    /// The version of profiles that are written and read.
    pub const VERSION: u64 = 1;

    /// Settings for a key, and the kind of reads that they were measured with.
    pub fn new(key: Key, settings: ReaderSettings, tuned_for: impl Into<String>) -> Self {
        Self { key, settings, tuned_for: tuned_for.into() }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstVersion {
    version: u64,
    file_system: String,
    drive: String,
    device: String,
    tuned_for: String,
    engine: Engine,
    chunk: u64,
    depth: u32,
    rings: u32,
    iopoll: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Engine {
    Uring,
    Pread,
}

impl From<Profile> for FirstVersion {
    fn from(profile: Profile) -> Self {
        let Profile { key: Key { file_system, drive, device }, settings, tuned_for } = profile;
        let ReaderSettings { engine, chunk, depth, rings, iopoll } = settings;
        let engine = match engine {
            EngineKind::Uring => Engine::Uring,
            EngineKind::Pread => Engine::Pread,
        };
        let version = Profile::VERSION;
        Self { version, file_system, drive, device, tuned_for, engine, chunk, depth, rings, iopoll }
    }
}

/// The version is looked at first: what follows it may be of another form in another version.
impl TryFrom<serde_json::Value> for Profile {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<Self, String> {
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(Self::VERSION) => {}
            Some(other) => return Err(format!("is of version {other}, and this forebay reads {}", Self::VERSION)),
            None => return Err("holds no tuned settings of a version".to_owned()),
        }
        let first = FirstVersion::deserialize(value).map_err(|error| format!("is damaged: {error}"))?;
        let FirstVersion { file_system, drive, device, tuned_for, chunk, depth, rings, iopoll, .. } = first;
        let engine = match first.engine {
            Engine::Uring => EngineKind::Uring,
            Engine::Pread => EngineKind::Pread,
        };
        let settings = ReaderSettings { engine, chunk, depth, rings, iopoll };
        ReaderBuilder::default().settings(&settings).check().map_err(|error| format!("cannot be used: {error}"))?;
        Ok(Self { key: Key { file_system, drive, device }, settings, tuned_for })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn profile() -> Profile {
        let key = Key { file_system: "ext4".into(), drive: "A \"B\"\n".into(), device: "host".into() };
        let settings = ReaderSettings { engine: EngineKind::Pread, chunk: 2 << 20, depth: 7, rings: 1, iopoll: true };
        Profile::new(key, settings, "images")
    }

    #[test]
    fn a_profile_comes_back_from_json_as_it_was() {
        let text = serde_json::to_string(&profile()).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile());
    }

    #[test]
    fn what_no_reader_can_do_is_refused_and_another_version_named() {
        let good = serde_json::to_value(profile()).unwrap();
        let cases = [
            ("version", serde_json::json!(2), "version 2"),
            ("version", serde_json::json!("1"), "version"),
            ("depth", serde_json::json!(0), "depth"),
            ("depth", serde_json::json!(-1), "damaged"),
            ("rings", serde_json::json!(65), "rings"),
            ("chunk", serde_json::json!(4096), "chunk"),
            ("engine", serde_json::json!("aio"), "damaged"),
            ("more", serde_json::json!(1), "damaged"),
        ];
        for (field, value, says) in cases {
            let mut wrong = good.clone();
            wrong[field] = value;
            let error = serde_json::from_value::<Profile>(wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{field}: {error}");
        }
        for text in ["1", "[]", "null", "{}"] {
            assert!(serde_json::from_str::<Profile>(text).is_err(), "{text}");
        }
    }
}
