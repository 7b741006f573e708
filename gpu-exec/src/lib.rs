//! Typed query programs to CUDA kernels and their launches.
//!
//! ```text
//! error            RunError: why a program was not run to its end
//! program          what to compute: columns, conjuncts, keys, aggregates; knows neither DataFusion nor ORC
//! input            where the values are: files, stripes, and each column's place in them
//! machine_profile  measured rates of one machine
//! options          how a GPU is opened, how columns are read, what a request says
//! abi              structs that host and kernels share, one file for each device header
//! output           partial aggregates, with what they cost
//! codegen          a program to a kernel's source, and what kernels leave to partial aggregates
//! validity         a bit for each row that has a value
//! decompress       the kernel that decompresses chunks, and calls of nvCOMP
//! decode           the kernel that decodes columns, and batches of stored bytes for it
//! generated_kernels
//!                  kernels by program and shape
//! code_folder      machine code in files, for later processes
//! kernel_cache     sources to loaded modules, kept in memory and in a folder
//! runtime          what is kept on a GPU, and a query's way through it
//! ```
//!
//! Each module uses only those above it.
//!
//! **Invariant:** a program says *what*, an input says *where*; neither is changed by how it is run.
#![forbid(unsafe_code)]

pub mod abi;
pub mod code_folder;
pub mod codegen;
pub mod decode;
pub mod decompress;
mod error;
mod generated_kernels;
pub mod input;
pub mod kernel_cache;
mod machine_profile;
mod options;
pub mod output;
pub mod program;
mod runtime;
mod validity;

pub use error::{RefusalReason, RunError, Shortage};
pub use input::Input;
pub use machine_profile::{MachineProfile, PerCodec};
pub use options::{Backing, BackingChoice, ColumnChoice, Decompression, GpuOptions, Request, RunPreview, Target};
pub use output::Output;
pub use program::Program;
pub use runtime::{FileCommands, Gpu, OpenStorage, RuntimeOptions};
