//! CUDA's driver and runtime compiler as the rest of the crate needs them: the one module that opens `unsafe`, and the one
//! that mentions `cudarc`. It knows memory, streams and kernels; what lies in that memory is its neighbours' business.
//!
//! Libraries are asked for before they are used: `cudarc`'s loaders panic when a library is missing, and absence is a
//! normal answer here.

mod args;
mod call;
mod compile;
mod compiled;
mod copy_engine;
mod cuda_bus;
mod device;
mod device_buffer;
mod device_facts;
mod driver;
mod host_compiler;
mod host_kernel;
mod host_machine;
mod host_work;
mod linker;
mod mapped_file;
mod module;
mod nvrtc;
mod pinned_buffer;
mod plain;
mod queue_rings;
mod slot;
mod stream;

pub use args::Args;
pub use compile::compile_for;
pub use compiled::{Compiled, KernelUse};
pub use copy_engine::StagingOptions;
pub use cuda_bus::CudaBus;
pub use device::Device;
pub use device_buffer::DeviceBuffer;
pub use device_facts::DeviceFacts;
pub use driver::{driver_version, library, probe};
pub use host_compiler::{compile_host, host_compiler};
pub use linker::link;
pub use mapped_file::MappedFile;
pub use module::{Kernel, Module};
pub use nvrtc::{compile, compile_kernels, compile_slow_path, compiler_version};
pub use pinned_buffer::PinnedBuffer;
pub use plain::Plain;
pub(crate) use queue_rings::rings;
pub use slot::{Part, PendingSlot, Slot, slots};
pub use stream::{Event, Stream};

pub use crate::error::CudaError;
