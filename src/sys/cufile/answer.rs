//! What the number that a read returns means.

use std::io;

use super::code::CuFileCode;

/// What a read of cuFile's came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// So many bytes have landed; fewer than asked for is no failure of the read.
    Bytes(u64),
    /// An error number of the kernel's. `None` where the read ran elsewhere and only said that there was one.
    Errno(Option<i32>),
    /// A code of cuFile's.
    Code(CuFileCode),
}

/// Takes the number that a finished batch entry or stream read came to: bytes; -1 for an error of the kernel's whose
/// number nobody kept; a negative error number; or the negative of a code of cuFile's.
///
/// A code of cuFile's is no error number: `strerror` would call it unknown.
pub(crate) fn decode(number: isize) -> Answer {
    match number {
        0.. => Answer::Bytes(number.unsigned_abs() as u64),
        -1 => Answer::Errno(None),
        -4095..=-2 => Answer::Errno(Some(-number as i32)),
        _ => Answer::Code(CuFileCode(i32::try_from(number.unsigned_abs()).unwrap_or(i32::MAX))),
    }
}

/// Takes the number that `cuFileRead` has just returned on this thread, where -1 leaves the error number in `errno`.
pub(crate) fn decode_at_once(number: isize) -> Answer {
    match decode(number) {
        Answer::Errno(None) => Answer::Errno(io::Error::last_os_error().raw_os_error().filter(|&errno| errno != 0)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc;

    #[test]
    fn a_number_is_bytes_an_error_number_or_a_code() {
        for (number, expected) in [
            (0, Answer::Bytes(0)),
            (4096, Answer::Bytes(4096)),
            (isize::MAX, Answer::Bytes(isize::MAX as u64)),
            (-1, Answer::Errno(None)),
            (-5, Answer::Errno(Some(libc::EIO))),
            (-4095, Answer::Errno(Some(4095))),
            (-5001, Answer::Code(CuFileCode(5001))),
            (-5030, Answer::Code(CuFileCode(5030))),
            (-5999, Answer::Code(CuFileCode(5999))),
            (isize::MIN, Answer::Code(CuFileCode(i32::MAX))),
        ] {
            assert_eq!(decode(number), expected, "{number}");
        }
    }

    #[test]
    fn minus_one_takes_the_thread_s_error_number() {
        nix::errno::Errno::ENODEV.set();
        assert_eq!(decode_at_once(-1), Answer::Errno(Some(libc::ENODEV)));
        nix::errno::Errno::EIO.set();
        assert_eq!(decode_at_once(-5027), Answer::Code(CuFileCode(5027)));
        assert_eq!(decode_at_once(12), Answer::Bytes(12));
    }
}
