//! What the running kernel was built with.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::machine::kernel_release;
use super::text;

/// Longest configuration that is read; those of distributions are about 300 KiB.
const CONFIG_LIMIT: u64 = 4 << 20;
/// Longest table of symbols that is read; it is about 15 MiB with many modules.
const SYMBOLS_LIMIT: u64 = 256 << 20;

/// Whether the kernel was built with an option that is on or off, such as `CONFIG_RANDOMIZE_BASE`. `None` where no
/// configuration is found as plain text. `proc` is normally `/proc`, `root` `/`.
pub(super) fn option(proc: &Path, root: &Path, name: &str) -> Option<bool> {
    let release = kernel_release(proc)?;
    let files = [
        root.join(format!("boot/config-{release}")),
        root.join(format!("lib/modules/{release}/config")),
        root.join(format!("lib/modules/{release}/build/.config")),
    ];
    let config = files.iter().find_map(|file| text::bounded(file, CONFIG_LIMIT))?;
    let values = config.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    Some(values.into_iter().any(|value| value == "y" || value == "m"))
}

/// Whether the kernel has a function, which tells of what it was built with where its configuration is compressed or
/// missing. `None` where the table of symbols is not shown.
pub(super) fn has_function(proc: &Path, name: &str) -> Option<bool> {
    let table = BufReader::new(File::open(proc.join("kallsyms")).ok()?.take(SYMBOLS_LIMIT));
    let mut is_empty = true;
    for line in table.split(b'\n') {
        let line = line.ok()?;
        // A line is an address, a letter, a name and for modules the module's name.
        let symbol = line.split(|byte| byte.is_ascii_whitespace()).nth(2);
        if symbol == Some(name.as_bytes()) {
            return Some(true);
        }
        is_empty = is_empty && symbol.is_none();
    }
    (!is_empty).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    #[test]
    fn an_option_is_found_where_distributions_put_it() {
        for place in ["boot/config-6.8.0", "lib/modules/6.8.0/config", "lib/modules/6.8.0/build/.config"] {
            let tree = FakeTree::new();
            tree.file("proc/sys/kernel/osrelease", "6.8.0\n");
            assert_eq!(option(&tree.path("proc"), tree.root(), "CONFIG_A"), None);
            tree.file(place, "CONFIG_AB=y\n# CONFIG_B is not set\nCONFIG_A=y\n");
            let told = |name: &str| option(&tree.path("proc"), tree.root(), name);
            assert_eq!((told("CONFIG_A"), told("CONFIG_B"), told("CONFIG_C")), (Some(true), Some(false), Some(false)));
        }
    }

    #[test]
    fn another_kernels_configuration_is_not_read() {
        let tree = FakeTree::new();
        tree.file("proc/sys/kernel/osrelease", "6.8.0\n");
        tree.file("boot/config-6.5.0", "CONFIG_A=y\n");
        assert_eq!(option(&tree.path("proc"), tree.root(), "CONFIG_A"), None);
    }

    #[test]
    fn functions_are_found_by_their_whole_name() {
        let proc = FakeTree::new();
        assert_eq!(has_function(proc.root(), "add"), None);
        proc.file("kallsyms", "");
        assert_eq!(has_function(proc.root(), "add"), None);
        proc.file("kallsyms", "0000000000000000 T add_more\n0000000000000000 t inner\t[module]\n");
        assert_eq!((has_function(proc.root(), "add"), has_function(proc.root(), "inner")), (Some(false), Some(true)));
    }
}
