//! The only `unsafe` of this crate: memory that other agents read or write at the same time (queue rings, doorbells,
//! data buffers), and io_uring. The kernel writes to the memory of an io_uring read after the call that named it has
//! returned.
#![allow(unsafe_code)]

mod host_memory;
mod mapping;
mod queue_rings;
#[cfg(target_os = "linux")]
mod uring;

pub use host_memory::HostMemory;
pub(crate) use mapping::Mapping;
pub use queue_rings::{QueueRings, RingAddresses};
#[cfg(target_os = "linux")]
pub(crate) use uring::Uring;
