//! PCIe Access Control Services: whether a bridge lets devices below it talk to each other directly.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Size of a function's configuration space; all but root are shown the first 64 bytes.
const CONFIG_SIZE: u64 = 4096;
const EXTENDED: usize = 0x100;
const ACS: u32 = 0x0d;
/// Requests (2), completions (3) and, at egress control (5), both are sent up instead of across.
const REDIRECT: u16 = 1 << 2 | 1 << 3 | 1 << 5;

/// Whether the bridge in this folder of sysfs sends traffic between devices up to the processor. `None` where its
/// configuration may not be read.
pub(super) fn redirects(folder: &Path) -> Option<bool> {
    let mut config = Vec::new();
    File::open(folder.join("config")).ok()?.take(CONFIG_SIZE).read_to_end(&mut config).ok()?;
    if config.len() <= EXTENDED {
        return None;
    }
    Some(control(&config).is_some_and(|control| control & REDIRECT != 0))
}

/// The control register of the capability, if the bridge has it.
fn control(config: &[u8]) -> Option<u16> {
    let mut offset = EXTENDED;
    // A list that runs in circles ends, too.
    for _ in 0..(CONFIG_SIZE as usize - EXTENDED) / 8 {
        let header = u32::from_le_bytes(bytes(config, offset)?);
        if header & 0xffff == ACS {
            return Some(u16::from_le_bytes(bytes(config, offset + 6)?));
        }
        offset = (header >> 20) as usize;
        if offset < EXTENDED {
            return None;
        }
    }
    None
}

fn bytes<const N: usize>(config: &[u8], offset: usize) -> Option<[u8; N]> {
    config.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    /// A configuration space whose second extended capability is ACS with this control register.
    pub(crate) fn config(control: u16) -> Vec<u8> {
        let mut config = vec![0; CONFIG_SIZE as usize];
        config[0x100..0x104].copy_from_slice(&(0x0001_u32 | 1 << 16 | 0x148 << 20).to_le_bytes());
        config[0x148..0x14c].copy_from_slice(&(ACS | 1 << 16).to_le_bytes());
        config[0x14e..0x150].copy_from_slice(&control.to_le_bytes());
        config
    }

    fn of(config: &[u8]) -> Option<bool> {
        let sys = FakeTree::new();
        sys.bytes("config", config);
        redirects(sys.root())
    }

    #[test]
    fn redirection_on_and_off() {
        assert_eq!(of(&config(0b1101)), Some(true));
        // Source validation and upstream forwarding redirect nothing.
        assert_eq!(of(&config(0b1_0001)), Some(false));
        assert_eq!(of(&vec![0; 4096]), Some(false));
    }

    #[test]
    fn what_is_not_shown_is_none() {
        assert_eq!(of(&config(0b1100)[..64]), None);
        assert_eq!(redirects(FakeTree::new().root()), None);
    }

    #[test]
    fn a_broken_list_ends() {
        let mut circle = config(0b1100);
        circle[0x100..0x104].copy_from_slice(&(0x0001_u32 | 0x100 << 20).to_le_bytes());
        assert_eq!(of(&circle), Some(false));
        circle[0x100..0x104].copy_from_slice(&(0x0001_u32 | 0xfff << 20).to_le_bytes());
        assert_eq!(of(&circle), Some(false));
    }
}
