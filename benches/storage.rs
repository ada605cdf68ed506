//! Storage benchmark.
fn main() {}
