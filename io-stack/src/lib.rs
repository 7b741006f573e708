//! Column arrays, a cache and NVMe-style queues for GPU threads, and their host half.
//!
//! The device half is CUDA C++ in `device/`; what passes between it, the host and a controller is described in
//! docs/PROTOCOL.md. [`stack::Stack`] is the way in.
//!
//! **Invariant:** `unsafe`, and every mention of CUDA's libraries, is in [`cuda`] alone.
//! **Invariant:** without libcuda or NVRTC everything builds and says so in words; nothing panics.
#![deny(unsafe_code)]

pub mod abi;
pub mod bench;
pub mod cache;
mod column;
#[allow(unsafe_code)]
pub mod cuda;
pub mod device_headers;
pub mod error;
pub mod machine_report;
pub mod queues;
mod source;
pub mod stack;
