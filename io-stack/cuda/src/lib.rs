//! CUDA's driver and runtime compiler: memory, streams, kernels, compilation; and host threads in a GPU's place.
//!
//! | file | what |
//! | --- | --- |
//! | `driver`, `device`, `device_facts` | the driver; one GPU, or host threads in its place |
//! | `call` | a driver call's answer as a result |
//! | `device_buffer`, `pinned_buffer`, `mapped_file`, `slot` | memory with one owner |
//! | `stream` | streams and events |
//! | `gate` | calls of the driver that wait for kernels, beside kernels that wait for the host |
//! | `module`, `args`, `plain` | kernels and their arguments |
//! | `compile`, `nvrtc`, `host_compiler`, `linker`, `compiled` | text to machine code |
//! | `host_machine`, `host_kernel`, `host_work` | kernels on host threads |
//! | `host_lanes` | the lanes of a warp there |
//! | `host_faults` | operations on host threads that fail on purpose |
//! | `nvcomp`, `nvcomp_functions` | NVIDIA's decompressors, if they are installed |
//! | [`machine_report`] | what this machine has, and what is missing |
//! | `error` | [`CudaError`] |
//!
//! **Invariant:** no other crate names `cudarc`.
//!
//! **Invariant:** without libcuda or NVRTC everything builds, and calls return errors; nothing panics.
//!
//! **Invariant:** a library's presence is checked before its first use. `cudarc`'s loaders panic when a library is
//! missing, and a machine without CUDA is a normal case.

mod args;
mod call;
mod compile;
mod compiled;
mod device;
mod device_buffer;
mod device_facts;
mod driver;
mod error;
mod gate;
mod host_compiler;
mod host_faults;
mod host_kernel;
mod host_lanes;
mod host_machine;
mod host_work;
mod linker;
pub mod machine_report;
mod mapped_file;
mod module;
mod nvcomp;
mod nvcomp_functions;
mod nvrtc;
mod pinned_buffer;
mod plain;
mod slot;
mod stream;

pub use args::Args;
pub use compile::compile_for;
pub use compiled::{Compiled, KernelUse};
pub use device::{Device, STACK_BYTES};
pub use device_buffer::DeviceBuffer;
pub use device_facts::DeviceFacts;
pub use driver::{driver_version, library, probe};
pub use error::CudaError;
pub use host_compiler::{compile_host, compile_host_unit, compile_host_with, host_compiler, host_environment};
pub use host_faults::{HostFault, HostFaults, HostOperation, HostUse};
pub use host_lanes::HostLanes;
pub use linker::link;
pub use mapped_file::MappedFile;
pub use module::{Grid, Kernel, Module};
pub use nvcomp::{Nvcomp, NvcompBatch};
pub use nvcomp_functions::NvcompCodec;
pub use nvrtc::{compile, compile_kernels, compiler_version};
pub use pinned_buffer::PinnedBuffer;
pub use plain::Plain;
pub use slot::{Part, PendingSlot, Slot, slots};
pub use stream::{Event, Stream};
