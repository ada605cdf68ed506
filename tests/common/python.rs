//! Python as the oracle: packages that people write and read these formats with.
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Skip;

/// A Python that has these packages: `$FOREBAY_PYTHON`, or `python3`.
pub struct Python(PathBuf);

impl Python {
    pub fn with(packages: &[&str]) -> Result<Python, Skip> {
        let python = std::env::var_os("FOREBAY_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
        let imports =
            format!("import sys\n{}", packages.iter().map(|name| format!("import {name}\n")).collect::<String>());
        let tried = Command::new(&python).args(["-c", &imports]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        match tried {
            Ok(status) if status.success() => Ok(Python(python)),
            Ok(_) => Err(Skip::because(format!(
                "{} has not all of {}; see tests/formats/requirements.txt",
                python.display(),
                packages.join(", ")
            ))),
            Err(error) => Err(Skip::because(format!("{} cannot be run: {error}", python.display()))),
        }
    }

    /// Runs a script in `folder`, which must end well, and gives what it printed.
    pub fn run(&self, folder: &Path, script: &str) -> String {
        let output = Command::new(&self.0).arg("-c").arg(script).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{}\n{script}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}
