//! The records of a pax header: `LENGTH KEY=VALUE\n`, where LENGTH counts itself and the line's end.

/// What a pax header says that decides where data lies and what it is called.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    /// What a link leads to.
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    /// Whether the member's data is a map of holes and what is between them.
    pub(super) is_sparse: bool,
}

impl Pax {
    /// Reads all records. Of a key that is there twice the last holds; an empty value takes a key back.
    ///
    /// # Errors
    /// Where in `bytes` it is malformed, and how.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, (usize, &'static str)> {
        let mut pax = Self::default();
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let (record, len) = record(rest).ok_or((at, "is not of the form LENGTH KEY=VALUE"))?;
            pax.take(record).map_err(|fault| (at, fault))?;
            at += len;
        }
        Ok(pax)
    }

    fn take(&mut self, record: Record<'_>) -> Result<(), &'static str> {
        match record.key {
            b"path" if record.value.contains(&0) => return Err("is a path with a NUL in it"),
            b"path" => self.path = (!record.value.is_empty()).then(|| record.value.to_vec()),
            b"linkpath" if record.value.contains(&0) => return Err("is a link's path with a NUL in it"),
            b"linkpath" => self.link = (!record.value.is_empty()).then(|| record.value.to_vec()),
            b"size" if record.value.is_empty() => self.size = None,
            b"size" => self.size = Some(decimal(record.value).ok_or("is a size, but no decimal number of 64 bits")?),
            // Its data has holes that star left out.
            b"SCHILY.realsize" => self.is_sparse = true,
            // The name a sparse member is to have; the one in its header is made up.
            b"GNU.sparse.name" => (self.path, self.is_sparse) = (Some(record.value.to_vec()), true),
            key if key.starts_with(b"GNU.sparse.") => self.is_sparse = true,
            _ => {}
        }
        Ok(())
    }
}

struct Record<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

/// The first record, and its length.
fn record(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let space = bytes.iter().take(21).position(|&byte| byte == b' ')?;
    let len = usize::try_from(decimal(&bytes[..space])?).ok()?;
    let text = bytes.get(space + 1..len)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|&byte| byte == b'=')?;
    Some((Record { key: &text[..equals], value: &text[equals + 1..] }, len))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &digit| match digit {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn path_and_size_are_taken_and_the_rest_is_left() {
        let pax = Pax::parse(b"30 mtime=1700000000.123456789\n15 path=a/b.jpg\n12 size=700\n9 size=\n").unwrap_err();
        assert_eq!(pax, (30, "is not of the form LENGTH KEY=VALUE"));
        let pax = Pax::parse(b"30 mtime=1700000000.123456789\n16 path=a/b.jpg\n12 size=700\n").unwrap();
        assert_eq!(pax, Pax { path: Some(b"a/b.jpg".to_vec()), size: Some(700), ..Pax::default() });
        let pax = Pax::parse(b"12 size=700\n10 size=8\n8 path=\n14 path=\xff\xfe\n\n").unwrap_err();
        assert_eq!(pax.0, 30);
        assert_eq!(Pax::parse(b"12 size=700\n10 size=8\n").unwrap().size, Some(8));
        assert_eq!(Pax::parse(b"12 size=700\n8 size=\n").unwrap().size, None);
        assert_eq!(Pax::parse(b"12 path=a\nb\n").unwrap().path.unwrap(), b"a\nb", "lines may be in a value");
        assert_eq!(Pax::parse(b"").unwrap(), Pax::default());
    }

    #[test]
    fn sparse_members_are_seen_in_every_form() {
        for records in [&b"22 GNU.sparse.major=1\n"[..], b"22 GNU.sparse.size=10\n", b"24 SCHILY.realsize=1000\n"] {
            assert!(Pax::parse(records).unwrap().is_sparse, "{}", records.escape_ascii());
        }
    }

    #[test]
    fn malformed_records_are_refused() {
        for records in [
            &b"size=700\n"[..],
            b"12 size=700",
            b"13 size=700\n",
            b"11 size=700\n",
            b"0 \n",
            b"3 \n",
            b"99999999999999999999999999 size=700\n",
            b"18446744073709551615 size=700\n",
            b"-12 size=700\n",
            b"13 size=-700\n",
            b"14 size=0x700\n",
            b"29 size=18446744073709551616\n",
            b"10 size700\n",
            b"12 path=a\0b\n",
            b"12 size=700\n\0\0\0\0",
        ] {
            assert!(Pax::parse(records).is_err(), "{}", records.escape_ascii());
        }
    }
}
