//! From NVMe queues to bytes. So far: the wire types and rules of NVMe ([`spec`]), which a host driver and a
//! software controller share.
//!
//! **Invariant:** this crate knows blocks and queues, never columns; and it never mentions CUDA.
#![forbid(unsafe_code)]

pub mod spec;
