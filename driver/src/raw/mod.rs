//! The only `unsafe` of this crate: memory that somebody else reads or writes at the same time (queue rings, doorbells,
//! data buffers), and io_uring, which writes to memory after the call that named it has returned.
#![allow(unsafe_code)]

mod mapping;
mod memory;
mod rings;
#[cfg(target_os = "linux")]
mod uring;

pub(crate) use mapping::Mapping;
pub use memory::HostMemory;
pub use rings::{QueueRings, RingAddresses};
#[cfg(target_os = "linux")]
pub(crate) use uring::Uring;
