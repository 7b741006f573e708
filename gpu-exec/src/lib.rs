//! Typed query programs to CUDA kernels and their launches. Nothing is here yet: the GPU path has its own plan in docs/ARCHITECTURE.md.
#![forbid(unsafe_code)]
