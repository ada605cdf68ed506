//! Tests on the stand-in for CUDA and cuFile (`emulated`), and on functions of our own in its place (`faked`), which
//! say what no cuFile should.

mod emulated;
