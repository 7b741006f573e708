//! The only `unsafe` of this crate: memory that other agents read or write at the same time (queue rings, doorbells,
//! data buffers), and io_uring. The kernel writes to the memory of an io_uring read after the call that named it has
//! returned. Mapped files belong here too: another process may change their bytes at any time, or take them away.
#![allow(unsafe_code)]

mod bus_error_guard;
mod host_memory;
mod host_pages;
mod mapping;
mod queue_rings;
mod shared_memory;
#[cfg(target_os = "linux")]
mod uring;
#[cfg(target_os = "linux")]
mod vfio;

pub use host_memory::HostMemory;
pub use host_pages::HostPages;
pub use mapping::{Mapping, WritableMapping};
pub use queue_rings::{Doorbells, QueueRings, RingAddresses};
pub use shared_memory::SharedMemory;
#[cfg(target_os = "linux")]
pub(crate) use uring::Uring;
#[cfg(target_os = "linux")]
pub use vfio::{DmaMapping, MappedRegisters, VfioDevice};
