//! `RunError`: why a program was not run to its end.

use grampus_io_stack::cuda::CudaError;
use grampus_io_stack::stack::StackError;

/// Why a program was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It cannot be answered here, but another plan can answer it, or give the right error: a value out of a cast's range, a
    /// division by zero, too many groups.
    #[error("the GPU gave up: {0}")]
    Refused(String),
    /// The caller's flag was set.
    #[error("the query was cancelled")]
    Cancelled,
    /// A column could not be decoded.
    #[error("{0}")]
    Decode(Box<dyn std::error::Error + Send + Sync>),
    /// A file is not what it was when the query was planned.
    #[error("{path}: {reason}")]
    File {
        /// Which.
        path: String,
        /// What about it.
        reason: String,
    },
    /// A program that contradicts itself: a bug of whoever built it.
    #[error("invalid program: {0}")]
    Invalid(String),
    /// CUDA or its compiler said no.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The I/O stack said no.
    #[error(transparent)]
    Stack(#[from] StackError),
}
