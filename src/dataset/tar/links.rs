//! Links whose targets are members of the same archive: their bytes are those members'.

use std::collections::{HashMap, HashSet};

use super::walk::{Kind, Member, each_member};
use crate::dataset::error::DatasetError;
use crate::dataset::source::Source;

/// A link that stays inside its archive.
#[derive(Debug)]
pub(crate) struct Link {
    /// Where its header begins.
    at: u64,
    /// The target's name, as [`normal`] has names.
    target: Box<[u8]>,
    is_hard: bool,
}

/// For each link that was resolved, by the place of its header: where the target's data begins, and its bytes.
pub(crate) type Places = HashMap<u64, (u64, u64)>;

impl Link {
    /// `None` where the member is no link, or one that leads out of the archive.
    pub(crate) fn of(member: &Member<'_>) -> Option<Self> {
        let (target, is_hard) = match member.kind {
            // Named as the member is that it is another name of.
            Kind::HardLink(target) => (normal(target)?, true),
            Kind::SymbolicLink(target) => (normal(&beside(member.name, target))?, false),
            Kind::File | Kind::Other => return None,
        };
        Some(Self { at: member.at, target: target.into(), is_hard })
    }
}

/// A symbolic link's target begins at the folder of the link.
fn beside(name: &[u8], target: &[u8]) -> Vec<u8> {
    let folder = name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    match target.starts_with(b"/") {
        true => target.to_vec(),
        false => [&name[..folder], target].concat(),
    }
}

/// One spelling of a name, without `.`, `..` and slashes that mean nothing. `None` where it leads out, or to no name.
fn normal(name: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in name.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    let root: &[u8] = if name.starts_with(b"/") { b"/" } else { b"" };
    (!parts.is_empty()).then(|| [root, &parts.join(&b'/')].concat())
}

/// Whether two names are spellings of one.
pub(super) fn is_same(name: &[u8], other: &[u8]) -> bool {
    normal(name).is_some_and(|name| normal(other).as_ref() == Some(&name))
}

/// What a name is at one place of the archive.
#[derive(Debug)]
enum Named {
    File(u64, u64),
    /// Which of the links.
    Link(usize),
    Nothing,
}

/// Finds the targets of links, in one more walk over the archive. `links` are all of its links that [`Link::of`] gives, in
/// order.
///
/// A hard link is another name of the last member before it that is called so, as readers of tar extract it, or of the first
/// behind it where there is none. A symbolic link means what its name would after all members were extracted: the last.
///
/// # Errors
/// Those of [`each_member`].
pub(crate) fn resolve(source: &Source, links: &[Link]) -> Result<Places, DatasetError> {
    let wanted: HashSet<&[u8]> = links.iter().map(|link| &*link.target).collect();
    let mut named: HashMap<&[u8], Vec<(u64, Named)>> = HashMap::new();
    let mut next_link = 0;
    each_member(source, &mut |member| {
        let what = match member.kind {
            Kind::File => Named::File(member.data, member.size),
            Kind::HardLink(_) | Kind::SymbolicLink(_) => match links.get(next_link) {
                Some(link) if link.at == member.at => {
                    next_link += 1;
                    Named::Link(next_link - 1)
                }
                _ => Named::Nothing,
            },
            Kind::Other => Named::Nothing,
        };
        if let Some(&name) = normal(member.name).and_then(|name| wanted.get(&*name)) {
            named.entry(name).or_default().push((member.at, what));
        }
        Ok(())
    })?;
    let place = |link| Some((link, follow(links, &named, link)?));
    Ok(links.iter().filter_map(place).map(|(link, place)| (link.at, place)).collect())
}

fn follow(links: &[Link], named: &HashMap<&[u8], Vec<(u64, Named)>>, link: &Link) -> Option<(u64, u64)> {
    /// As many as the kernel follows.
    const MOST: usize = 40;
    let mut link = link;
    for _ in 0..MOST {
        let found = named.get(&*link.target)?;
        let before = found.partition_point(|(at, _)| *at < link.at);
        let of_it = if link.is_hard { found.get(before.saturating_sub(1)) } else { found.last() };
        match of_it? {
            (_, Named::File(data, size)) => return Some((*data, *size)),
            (_, Named::Link(next)) => link = links.get(*next)?,
            (_, Named::Nothing) => return None,
        }
    }
    None
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn names_have_one_spelling() {
        for (name, spelled) in [
            ("a", Some("a")),
            ("./a", Some("a")),
            ("a//b/./c", Some("a/b/c")),
            ("a/../b", Some("b")),
            ("/a", Some("/a")),
            ("//a/", Some("/a")),
            ("..", None),
            ("a/../../b", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(normal(name.as_bytes()).as_deref(), spelled.map(str::as_bytes), "{name}");
        }
        assert_eq!(beside(b"a/b/c", b"../d"), b"a/b/../d");
        assert_eq!(beside(b"c", b"d"), b"d");
        assert_eq!(beside(b"a/c", b"/d"), b"/d");
    }
}
