//! The members of tar archives, found by their headers alone.
//!
//! The rules are those of POSIX.1-2017 (`pax`, "Extended Description": ustar and pax), and of GNU tar's manual ("Basic Tar
//! Format") for long names, base-256 numbers and sparse members. Where readers of tar disagree on where the next member
//! begins, or on whose a record is, the archive is refused: a member that one reader sees and another does not is worse
//! than an error.

mod end;
mod header;
mod links;
mod pax;
mod records;
mod walk;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod writer;

pub(crate) use header::looks_like;
pub(crate) use links::{Link, Places, resolve};
pub(crate) use walk::{Kind, Member, each_member};

/// Headers and data lie in blocks of so many bytes.
pub(crate) const BLOCK: usize = 512;
