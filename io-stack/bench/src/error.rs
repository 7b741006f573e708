//! [`BenchError`]: why a benchmark ended early.

use grampus_cuda::CudaError;
use grampus_io_stack::error::StackError;

/// A benchmark ended early.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The stack failed.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// A CUDA call failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The data file could not be written or read.
    #[error("data file: {0}")]
    File(#[from] std::io::Error),
    /// Bytes read differ from what their address says: a defect.
    #[error("{name}: {what}")]
    Wrong {
        /// The benchmark's name.
        name: String,
        /// The finding and the expectation.
        what: String,
    },
}
