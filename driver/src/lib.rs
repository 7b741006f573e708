//! From NVMe queues to bytes: wire types, storages and the software controller. Nothing is here yet: see docs/ARCHITECTURE.md.
#![forbid(unsafe_code)]
