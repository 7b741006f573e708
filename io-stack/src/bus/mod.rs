//! CUDA's memory as the software controller reaches it.
//!
//! | file | what |
//! | --- | --- |
//! | `copy_engine` | one controller thread's staging buffers, and copies from them to device memory |
//! | `cuda_bus` | the memory that commands may point at |
//! | `queue_rings` | the controller's side of queues in pinned memory |
//!
//! **Invariant:** memory is lent here alone: addresses come from commands, which are checked here.

mod copy_engine;
mod cuda_bus;
mod queue_rings;

pub use copy_engine::StagingOptions;
pub(crate) use cuda_bus::CudaBus;
pub(crate) use queue_rings::rings;
