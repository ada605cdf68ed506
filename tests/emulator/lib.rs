//! An adversarial stand-in for the CUDA driver and cuFile, on host memory.
