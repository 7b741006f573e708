//! From NVMe queues to bytes.
//!
//! | module | what |
//! | --- | --- |
//! | [`spec`] | the wire types and rules of NVMe |
//! | [`storage`] | storages that answer reads |
//! | [`controller`] | the software controller between the two |
//! | [`bus`] | the memory that commands point at |
//! | [`raw`] | shared memory and io_uring: the `unsafe` of the crate |
//! | [`error`] | the errors of all of these |
//!
//! **Invariant:** this crate knows blocks and queues, never columns, and never mentions CUDA. The owner of the memory
//! that commands point at passes it in as [`bus::BusMemory`].
//! **Invariant:** `unsafe` is in [`raw`] alone.
#![deny(unsafe_code)]

pub mod bus;
#[cfg(unix)]
pub mod controller;
pub mod error;
pub mod raw;
pub mod spec;
pub mod storage;
