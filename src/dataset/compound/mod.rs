//! Datasets made of others: one after the other, a part of one, several mixed.
//!
//! Owns: which sample of which child a sample is. Touches no file.

mod children;
mod concat;
mod mixture;
mod quota;
mod ratio;
mod subset;

pub use concat::Concat;
pub use mixture::Mixture;
pub use subset::Subset;
