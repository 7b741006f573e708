//! Column arrays, a cache and NVMe-style queues for GPU threads, and their host half.
//!
//! The device half is CUDA C++ in `device/`; what passes between it, the host and a controller is described in
//! docs/PROTOCOL.md.
#![forbid(unsafe_code)]

pub mod device;
pub mod layout;
