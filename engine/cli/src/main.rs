//! The program `grampus`, with its allocator. [`run_program`] is the rest.

use std::process::ExitCode;

use grampus_cli::run_program;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the command line.
fn main() -> ExitCode {
    ExitCode::from(run_program(std::env::args_os()))
}
