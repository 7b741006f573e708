//! Typed query programs to CUDA kernels and their launches.
//!
//! ```text
//! program   what to compute: columns, conjuncts, keys, aggregates; knows neither DataFusion nor ORC
//! codegen   a program to the text of a kernel, and what the kernel leaves to partial aggregates
//! compile   texts to loaded modules, kept in memory and in a folder
//! gpu       the device, what is kept on it, and requests to it
//! input     where the values are: stripes, and each column's place in them
//! encoded   how columns are stored that are not raw; decode: the kernel that decodes them
//! output    partial aggregates, and what they cost
//! run       what is kept on a GPU, and a query's way through it
//! params    what a launch of a kernel is told; paging: of columns that are there in part
//! ```
//!
//! **Invariant:** a program says *what*, an input says *where*; neither is changed by how it is run.
#![forbid(unsafe_code)]

pub mod abi;
pub mod codegen;
pub mod decode;
mod error;
pub mod input;
pub mod kernel_cache;
mod machine_profile;
mod options;
pub mod output;
pub mod program;
mod runtime;

pub use error::RunError;
pub use input::Input;
pub use machine_profile::MachineProfile;
pub use options::{Backing, BackingChoice, ColumnChoice, GpuOptions, Request, Target};
pub use output::Output;
pub use program::Program;
pub use runtime::{Gpu, OpenStorage, RuntimeOptions};

// For the command line and for planners: what the machine has, and what its paths reach.
pub use grampus_io_stack::cuda::{CudaError, compiler_version, host_compiler, library};
pub use grampus_io_stack::{bench, report};
