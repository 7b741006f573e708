//! `MemoryStorage`: bytes in memory as a storage, for tests and measurements.

use std::fmt;
use std::sync::Arc;

use super::{Channel, ImmediateChannel, Storage, namespace_bytes};
use crate::error::StorageError;

/// Bytes in memory as a namespace.
pub struct MemoryStorage {
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
}

impl MemoryStorage {
    /// Serves `bytes`, followed by zeros up to a multiple of 4 KiB.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self { bytes: Arc::new(bytes) }
    }
}

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryStorage({} bytes)", (*self.bytes).as_ref().len())
    }
}

impl Storage for MemoryStorage {
    fn describe(&self) -> String {
        "memory".into()
    }

    fn size_bytes(&self) -> u64 {
        namespace_bytes((*self.bytes).as_ref().len() as u64)
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        let bytes = self.bytes.clone();
        Ok(Box::new(ImmediateChannel::new(depth, move |offset, out: &mut [u8]| {
            copy_or_zero((*bytes).as_ref(), offset, out);
            Ok(())
        })))
    }
}

/// Copies the bytes from `offset` on, and zeros behind their end.
pub(crate) fn copy_or_zero(bytes: &[u8], offset: u64, out: &mut [u8]) {
    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    let there = (bytes.len() - from).min(out.len());
    out[..there].copy_from_slice(&bytes[from..from + there]);
    out[there..].fill(0);
}
