//! From NVMe queues to bytes.
//!
//! | module | what |
//! | --- | --- |
//! | [`spec`] | the wire types and rules of NVMe |
//! | [`storage`] | storages that answer reads |
//! | [`controller`] | the software controller between the two |
//! | [`host`] | the driver: it enables controllers, and submits commands to them |
//! | [`binding`] | the controllers of a machine, and their change between the kernel and vfio-pci |
//! | [`vfio_controller`] | a bound controller, opened for this process |
//! | [`files`] | a directory of files on a namespace |
//! | [`bus`] | the memory that commands point at |
//! | [`registers`] | access to a controller's registers |
//! | [`raw`] | shared memory and io_uring: the `unsafe` of the crate |
//! | [`error`] | the errors of all of these |
//!
//! **Invariant:** this crate knows blocks and queues, never columns, and never mentions CUDA. The owner of the memory
//! that commands point at passes it in as [`bus::BusMemory`].
//! **Invariant:** `unsafe` is in [`raw`] alone.
#![deny(unsafe_code)]

#[cfg(unix)]
pub mod binding;
pub mod bus;
#[cfg(unix)]
pub mod controller;
pub mod error;
#[cfg(unix)]
pub mod files;
#[cfg(unix)]
pub mod host;
pub mod raw;
pub mod registers;
pub mod spec;
pub mod storage;
#[cfg(unix)]
pub mod vfio_controller;
