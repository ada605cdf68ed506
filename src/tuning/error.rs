use std::io;

/// Settings that could not be found again, or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuningError {
    /// Nobody says where this user's settings are.
    #[error("neither XDG_CONFIG_HOME nor HOME says where settings are kept; set one of them to a folder")]
    NoHome,
    /// The path whose file system and drive were asked for cannot be looked at.
    #[error("{path}: cannot see what it lies on: {error}; name a file, a folder or a block device that is there")]
    Path {
        /// The path as it was given.
        path: String,
        /// What the system said.
        error: io::Error,
    },
    /// The file of a profile cannot be read or written.
    #[error("{path}: cannot {what} tuned settings: {error}; see its permissions, and the space there is")]
    File {
        /// The file's path.
        path: String,
        /// `read` or `save`.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// What stands in a profile's file cannot be used.
    #[error("{path}: {what}; tune again (`forebay bench --tune --save`), or remove the file")]
    Damaged {
        /// The file's path.
        path: String,
        /// What is wrong.
        what: String,
    },
}
