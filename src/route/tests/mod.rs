//! Tests that need a hook inside the crate. What needs none is tested from outside.

mod degraded;
mod mutants;
