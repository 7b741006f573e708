//! Column arrays, a cache and NVMe-style queues for GPU threads, and their host half. Nothing is here yet: see docs/ARCHITECTURE.md.
#![forbid(unsafe_code)]
