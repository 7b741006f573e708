//! From NVMe queues to bytes: the wire types and rules of NVMe ([`spec`]), what can answer a read ([`storage`]), and the
//! software controller that stands between the two ([`controller`]).
//!
//! **Invariant:** this crate knows blocks and queues, never columns; and it never mentions CUDA: whoever owns the memory
//! that a command points at hands it in as [`bus::BusMemory`].
//! **Invariant:** `unsafe` is in [`raw`] alone.
#![deny(unsafe_code)]

pub mod bus;
#[cfg(unix)]
pub mod controller;
pub mod error;
pub mod raw;
pub mod spec;
pub mod storage;
