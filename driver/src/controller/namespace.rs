//! `Namespace`: a storage under its NVMe number.

use std::sync::Arc;

use crate::storage::Storage;

/// One storage under its namespace id.
#[derive(Debug, Clone)]
pub struct Namespace {
    /// Namespace id of the commands that it answers.
    pub nsid: u32,
    /// The storage that answers.
    pub storage: Arc<dyn Storage>,
}
