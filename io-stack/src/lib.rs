//! Column arrays, a cache and NVMe-style queues for GPU threads, and their host half.
//!
//! The device half is CUDA C++ in `device/`; what passes between it, the host and a controller is described in
//! docs/PROTOCOL.md. [`stack::Stack`] is the way in.
//!
//! **Invariant:** `unsafe`, and every mention of CUDA's libraries, is in [`cuda`] alone.
//! **Invariant:** without libcuda or NVRTC everything builds and says so in words; nothing panics.
#![deny(unsafe_code)]

pub mod bench;
pub mod cache;
#[allow(unsafe_code)]
pub mod cuda;
pub mod device;
pub mod layout;
pub mod queues;
pub mod report;
mod sources;
pub mod stack;
pub mod status;
