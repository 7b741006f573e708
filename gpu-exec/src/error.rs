//! `RunError`: why a program was not run to its end.
//!
//! **Invariant:** an error of CUDA that says that memory ran out becomes a refusal wherever it becomes a `RunError`.

use std::io;

use grampus_cuda::CudaError;
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
    Cuda(CudaError),
    /// The I/O stack reported an error.
    #[error(transparent)]
    Stack(StackError),
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
    /// There is too little device memory, or too little memory that may be pinned.
    #[error(transparent)]
    DeviceMemory(#[from] Shortage),
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

/// The memory that is too little.
#[derive(Debug, thiserror::Error)]
pub enum Shortage {
    /// Columns that stream, or the cache of columns that are read by command, need more than columns may have.
    #[error(
        "{available} bytes of device memory for columns are too few for this query; raise the bound on what is cached"
    )]
    Columns {
        /// Bytes of the smallest windows that would do, or of the cache.
        needed: u64,
        /// Bytes for columns.
        available: u64,
    },
    /// The driver has no more: other queries or other processes hold it, or a limit on locked memory does not allow it.
    #[error("too little memory beside other queries and processes: {0}")]
    Driver(#[source] CudaError),
}

impl Shortage {
    /// Whether host memory could not be pinned.
    pub(crate) fn is_of_pinned_memory(&self) -> bool {
        matches!(self, Self::Driver(error) if error.is_about_pinning())
    }
}

impl RunError {
    /// The memory that is too little; `None`: another cause.
    pub fn shortage(&self) -> Option<&Shortage> {
        match self {
            Self::Refused(RefusalReason::DeviceMemory(shortage)) => Some(shortage),
            _ => None,
        }
    }

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

impl From<Shortage> for RunError {
    fn from(shortage: Shortage) -> Self {
        RefusalReason::DeviceMemory(shortage).into()
    }
}

impl From<CudaError> for RunError {
    fn from(error: CudaError) -> Self {
        match error.is_out_of_memory() {
            true => Shortage::Driver(error).into(),
            false => Self::Cuda(error),
        }
    }
}

impl From<StackError> for RunError {
    fn from(error: StackError) -> Self {
        match error {
            StackError::Cuda(error) if error.is_out_of_memory() => error.into(),
            other => Self::Stack(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_runs_out_is_a_refusal_whatever_reports_it() {
        let call = |code| CudaError::Call {
            call: "cuMemAlloc",
            code,
            text: "out of memory".to_owned(),
            detail: String::new(),
        };
        let (direct, of_stack) = (RunError::from(call(2)), RunError::from(StackError::Cuda(call(2))));
        assert!(direct.shortage().is_some() && of_stack.shortage().is_some());
        assert!(direct.to_string().contains("cuMemAlloc: out of memory"), "{direct}");
        assert!(matches!(RunError::from(call(999)), RunError::Cuda(_)));
        assert!(matches!(
            RunError::from(StackError::Cuda(call(999))),
            RunError::Stack(_)
        ));
    }
}
