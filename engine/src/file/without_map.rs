//! In place of `memory_map.rs` if the feature `gpu` is off: files are read, because maps need the driver's guard.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use grampus_orc_layout::Result;

use super::io_error;

/// A mapped file, of which there is none.
#[derive(Debug)]
pub enum MemoryMap {}

impl MemoryMap {
    /// # Errors
    /// Always.
    pub fn new(name: &Arc<str>, _: &File, length: u64) -> Result<Self> {
        Err(io_error(name, &(0..length), "maps need the feature `gpu` of grampus"))
    }

    pub fn expect_random_loads(&self) {
        match *self {}
    }

    pub fn is_missing(&self, _: u64) -> bool {
        match *self {}
    }

    pub fn bytes(&self) -> &Bytes {
        match *self {}
    }

    pub fn has_failed(&self) -> bool {
        match *self {}
    }
}
