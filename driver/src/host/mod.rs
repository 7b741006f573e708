//! The host's side: a driver for NVMe controllers in user space.
//!
//! 1. [`Device::open`] resets, enables and identifies a controller.
//! 2. [`Device::create_queue`] makes I/O queues in host memory, [`Device::create_queue_at`] at given addresses.
//! 3. A [`QueuePair`] submits commands, rings and reaps.
//!
//! | file | what |
//! | --- | --- |
//! | `dma` | shared memory with a bus address for each page |
//! | `device_options` | how a controller is driven |
//! | `data_pointer` | PRPs, PRP lists and SGLs |
//! | `session` | the time between two resets |
//! | `queue_pair` | rings, doorbells, commands in flight |
//! | `queue_place` | queue pairs that another agent drives |
//! | `enabling` | CC, CSTS and the admin queue |
//! | `event_requests` | asynchronous events |
//! | `vfio` | registers and memory over VFIO |
//! | `device` | the controller: initialization, admin commands, events, recovery |
//!
//! **Invariant:** no value that a controller returns makes the driver panic, or wait without a bound.

mod data_pointer;
mod device;
mod device_options;
mod dma;
mod enabling;
mod event_requests;
mod queue_pair;
mod queue_place;
mod session;
#[cfg(target_os = "linux")]
mod vfio;

pub use data_pointer::DataPointers;
pub use device::Device;
pub use device_options::DeviceOptions;
pub use dma::{BusRange, DmaBuffer, DmaMemory, DmaPool, MappedMemory};
pub use queue_pair::{Completed, QueuePair};
pub use queue_place::{QueuePlace, QueueTicket};
#[cfg(target_os = "linux")]
pub use vfio::VfioMemory;
