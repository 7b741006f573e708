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
    /// Log2 of its logical block, 9 to 12.
    pub lba_log2: u8,
}

impl Namespace {
    /// A namespace with the blocks of its storage, mostly of 512 bytes.
    pub fn new(nsid: u32, storage: Arc<dyn Storage>) -> Self {
        Self {
            nsid,
            lba_log2: storage.block_bytes().ilog2() as u8,
            storage,
        }
    }
}
