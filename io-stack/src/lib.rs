//! Column arrays, a cache and NVMe-style queues for GPU threads, and their host half.
//!
//! The device half is CUDA C++ in `device/`. docs/PROTOCOL.md describes what passes between device code, host and
//! controller. [`stack::Stack`] is the entry.
//!
//! | file | what |
//! | --- | --- |
//! | `stack` | [`Stack`](stack::Stack): queues, cache, controller and storages, built once and reused |
//! | `source`, `column` | a storage's cache keys; a column's extents |
//! | `queues`, `cache` | their memory and start state |
//! | `abi` | mirrors of the structs of `device/*.h` |
//! | `device_headers` | the headers of `device/` as text for a compiler |
//! | `cuda` | driver, memory, streams, kernels, compilers |
//! | `machine_report` | what this machine has, and what is missing |
//! | `bench` | the microbenchmarks and their kernels |
//! | `error` | the errors of all of these |
//!
//! **Invariant:** `unsafe`, and every mention of CUDA's libraries, is in [`cuda`] alone.
//! **Invariant:** without libcuda or NVRTC everything builds, and calls return errors; nothing panics.
#![deny(unsafe_code)]

pub mod abi;
pub mod bench;
pub mod cache;
mod column;
mod command_server;
mod controller_queues;
#[allow(unsafe_code)]
pub mod cuda;
pub mod device_headers;
pub mod error;
pub mod machine_report;
pub mod queues;
mod source;
pub mod stack;
