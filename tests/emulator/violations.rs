//! What a real driver would let pass until it corrupts data.

/// A mistake of the program under test.
pub fn report(_what: String) {}

/// Something worth seeing that is no mistake.
pub fn note(_what: String) {}
