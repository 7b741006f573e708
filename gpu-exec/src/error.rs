//! `RunError`: why a program was not run to its end.

use std::io;

use grampus_io_stack::cuda::CudaError;
use grampus_io_stack::stack::StackError;

/// Why a program was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The GPU cannot answer. Another plan can, or gives the right error.
    #[error("the GPU gave up: {0}")]
    Refused(RefusalReason),
    /// The caller's flag was set.
    #[error("the query was cancelled")]
    Cancelled,
    /// A column could not be decoded.
    #[error("{0}")]
    Decode(Box<dyn std::error::Error + Send + Sync>),
    /// A file cannot be read, or another file has taken its place since the query was planned.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// The operating system's words.
        reason: String,
    },
    /// A file was written to or truncated after the query was planned: a result would mix its versions.
    #[error("{path}: the file changed while it was being queried ({reason}); run the query again")]
    FileChanged {
        /// The file.
        path: String,
        /// The difference.
        reason: String,
    },
    /// A program or an input that contradicts itself: a bug of its builder.
    #[error("invalid program: {0}")]
    Invalid(String),
    /// CUDA or its compiler reported an error.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The I/O stack reported an error.
    #[error(transparent)]
    Stack(#[from] StackError),
}

/// Why the GPU cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum RefusalReason {
    /// A cast out of its type's range, or a division by zero.
    #[error("a value out of a type's range, or a division by zero")]
    ValueOutOfRange,
    /// The group table is full.
    #[error("more than {groups} groups, for which the group table has space")]
    TooManyGroups {
        /// Groups that the table has space for.
        groups: u32,
    },
    /// Columns that stream need more device memory than columns may have.
    #[error(
        "{available} bytes of device memory for columns are too few for this query; raise the bound on what is cached"
    )]
    DeviceMemory {
        /// Bytes of the smallest windows that would do.
        needed: u64,
        /// Bytes for columns.
        available: u64,
    },
    /// A column has a value that its layout in memory does not hold: statistics are wrong, or a dictionary has grown.
    /// The runtime runs the query again with a wider layout.
    #[error("column {column} of the query has a value beyond the bounds that are known")]
    NarrowLayout {
        /// By position in the program's columns.
        column: usize,
    },
    /// The system started no reader thread.
    #[error("no thread for reading: {0}")]
    Thread(#[source] io::Error),
}

impl RunError {
    /// The error of CUDA, its compiler or nvCOMP; `None`: another cause.
    pub fn cuda(&self) -> Option<&CudaError> {
        match self {
            Self::Cuda(error) | Self::Stack(StackError::Cuda(error)) => Some(error),
            _ => None,
        }
    }
}

impl From<RefusalReason> for RunError {
    fn from(reason: RefusalReason) -> Self {
        Self::Refused(reason)
    }
}
