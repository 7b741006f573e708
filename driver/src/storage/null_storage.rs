//! `NullStorage`: a storage that moves nothing, to measure queues and controller by themselves.

use super::{Channel, ImmediateChannel, Storage, namespace_bytes};
use crate::error::StorageError;

/// Answers every read with success and leaves the memory as it is. For measuring only.
#[derive(Debug)]
pub struct NullStorage {
    size_bytes: u64,
}

impl NullStorage {
    /// A namespace of this many bytes, rounded up to 4 KiB.
    pub fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes: namespace_bytes(size_bytes),
        }
    }
}

impl Storage for NullStorage {
    fn describe(&self) -> String {
        "null storage".into()
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        Ok(Box::new(ImmediateChannel::new(depth, |_, _: &mut [u8]| Ok(()))))
    }
}
