//! Column arrays, a cache and NVMe-style queues for GPU threads, and their host half.
//!
//! The device half is CUDA C++ in `device/`. docs/PROTOCOL.md describes what passes between device code, host and
//! controller. [`stack::Stack`] is the entry.
//!
//! | file | what |
//! | --- | --- |
//! | `stack` | [`Stack`](stack::Stack): queues, cache, controller and storages, built once and reused |
//! | `source`, `column` | a storage's cache keys; a column's extents |
//! | `command_server` | what answers commands: the software controller, or an NVMe controller |
//! | `controller_queues` | queue pairs of an NVMe controller that kernels drive |
//! | `queues`, `cache` | their memory and start state |
//! | `abi` | mirrors of the structs of `device/*.h` |
//! | `device_headers` | the headers of `device/` as text for a compiler |
//! | `bus` | CUDA's memory as the software controller reaches it |
//! | `error` | the errors of all of these |
//!
//! **Invariant:** `unsafe` is in `bus` and `abi` alone, and CUDA's libraries are named by `grampus_cuda` alone.
#![deny(unsafe_code)]

pub mod abi;
#[allow(unsafe_code)]
mod bus;
pub mod cache;
mod column;
mod command_server;
mod controller_queues;
pub mod device_headers;
pub mod error;
pub mod queues;
mod source;
pub mod stack;

pub use bus::StagingOptions;
