//! Errors of the library end in what to do about them.

/// Splits an error into what is wrong and what to do, `otherwise` where it does not say.
pub fn split<'a>(error: &'a str, otherwise: &'a str) -> (&'a str, &'a str) {
    error.split_once("; ").unwrap_or((error, otherwise))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn what_is_wrong_and_what_to_do() {
        assert_eq!(split("a at 0: gone; look; there", "x"), ("a at 0: gone", "look; there"));
        assert_eq!(split("gone", "look"), ("gone", "look"));
    }
}
