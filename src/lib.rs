//! forebay carries training data from NVMe to the GPU.
