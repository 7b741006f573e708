//! [`ExecutionListener`]: told of each execution of a scan.

use std::fmt;

/// A part of the engine that counts executions. Planning and EXPLAIN execute nothing.
pub(crate) trait ExecutionListener: fmt::Debug + Send + Sync {
    /// An execution begins.
    fn executed(&self);
}
