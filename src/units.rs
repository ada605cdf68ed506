//! Numbers of bytes as people write them.

use std::fmt;

/// Shows a number of bytes in the largest binary unit that keeps it short: `256 MiB`, `1.5 GiB`, `100 bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let Some((unit, shift)) = UNITS.into_iter().find(|&(_, shift)| self.0 >> shift != 0) else {
            return write!(f, "{} bytes", self.0);
        };
        let whole = 1_u64 << shift;
        if self.0.is_multiple_of(whole) {
            write!(f, "{} {unit}", self.0 / whole)
        } else {
            write!(f, "{:.1} {unit}", self.0 as f64 / whole as f64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn sizes_read_as_people_write_them() {
        let shown = [0, 100, 1024, 1536, 256 << 20, 3 << 29].map(|n| Size(n).to_string());
        assert_eq!(shown, ["0 bytes", "100 bytes", "1 KiB", "1.5 KiB", "256 MiB", "1.5 GiB"]);
    }
}
