//! The configuration file of cuFile that is in force: JSON with comments that begin with `//` or `#`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Names the file to read instead of `/etc/cufile.json`.
pub const PATH_VARIABLE: &str = "CUFILE_ENV_PATH_JSON";
/// Variables that outweigh the file.
const VARIABLES: [&str; 4] =
    ["CUFILE_FORCE_COMPAT_MODE", "CUFILE_ALLOW_COMPAT_MODE", "CUFILE_USE_PCIP2PDMA", "CUFILE_LOGGING_LEVEL"];
/// Longest file that is read; NVIDIA's own has about 6 KiB.
const LIMIT: u64 = 1 << 20;

/// What cuFile is told by its file and by the environment.
#[derive(Debug)]
pub struct CuFileJson {
    pub path: PathBuf,
    /// Whether the environment names the file.
    pub from_env: bool,
    pub content: Content,
    /// Variables of the environment that are set and not empty.
    variables: Vec<(&'static str, String)>,
}

#[derive(Debug)]
pub enum Content {
    Missing,
    /// Why it cannot be read.
    Unreadable(String),
    /// What is wrong, and at which line and column.
    Malformed(String),
    Settings(Value),
}

impl CuFileJson {
    /// `root` is normally `/`; `env` looks up a variable of the environment.
    pub fn read(root: &Path, env: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let named = set(PATH_VARIABLE);
        let from_env = named.is_some();
        let path = named.map_or_else(|| root.join("etc/cufile.json"), PathBuf::from);
        let variables =
            VARIABLES.into_iter().filter_map(|name| Some((name, set(name)?.to_string_lossy().into_owned())));
        Self { content: Content::read(&path), variables: variables.collect(), path, from_env }
    }

    /// A setting of the file by its path, such as `/properties/io_batchsize`.
    pub fn setting(&self, pointer: &str) -> Option<&Value> {
        match &self.content {
            Content::Settings(settings) => settings.pointer(pointer),
            _ => None,
        }
    }

    /// A variable of the environment.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

impl Content {
    fn read(path: &Path) -> Self {
        let text = match text(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::Missing,
            Err(error) => return Self::Unreadable(error.to_string()),
        };
        match serde_json::from_str::<Value>(&without_comments(&text)) {
            Ok(settings) if settings.is_object() => Self::Settings(settings),
            Ok(_) => Self::Malformed("it holds no object { … }".to_owned()),
            Err(error) => Self::Malformed(error.to_string()),
        }
    }
}

/// Whoever set the variable may have named anything: a pipe must not keep us waiting, nor an endless file.
fn text(path: &Path) -> io::Result<String> {
    let file = File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

/// The text without its comments, but with all its lines, so that errors name the right ones. What looks like a comment
/// inside a string is none.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    let (mut in_string, mut in_comment) = (false, false);
    while let Some(sign) = signs.next() {
        if in_comment && sign != '\n' {
            continue;
        }
        in_comment = false;
        match sign {
            '\\' if in_string => {
                kept.push(sign);
                kept.extend(signs.next());
                continue;
            }
            '"' => in_string = !in_string,
            '#' if !in_string => in_comment = true,
            '/' if !in_string && signs.peek() == Some(&'/') => in_comment = true,
            _ => {}
        }
        if !in_comment {
            kept.push(sign);
        }
    }
    kept
}

#[cfg(test)]
mod tests;
