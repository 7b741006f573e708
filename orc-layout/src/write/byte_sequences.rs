//! [`ByteSequences`], the bytes of texts or binary values one behind the other, and their lengths.

use super::rle_v2::IntEncoder;
use super::stream::{OutStream, Storage, capacity_bytes};
use crate::error::Result;

/// Streams of byte sequences: all bytes, and the length of each.
#[derive(Debug)]
pub(super) struct ByteSequences {
    pub(super) data: OutStream,
    pub(super) lengths: IntEncoder,
    scratch: Vec<i64>,
}

impl ByteSequences {
    pub(super) fn new(storage: Storage) -> Self {
        Self {
            data: OutStream::new(storage),
            lengths: IntEncoder::new(OutStream::new(storage), false),
            scratch: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, value: &[u8]) -> Result<()> {
        self.scratch.push(value.len() as i64);
        self.data.write(value)
    }

    /// Passes the collected lengths to their encoder.
    pub(super) fn settle(&mut self) -> Result<()> {
        let result = self.lengths.write(&self.scratch);
        self.scratch.clear();
        result
    }

    pub(super) fn position(&mut self, positions: &mut Vec<u64>) -> Result<()> {
        self.data.position(positions);
        self.lengths.position(positions)
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        self.lengths.flush()?;
        self.lengths.stream.flush()?;
        self.data.flush()
    }

    pub(super) fn clear(&mut self) {
        self.data.clear();
        self.lengths.stream.clear();
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.data.buffered_bytes() + self.lengths.buffered_bytes()
    }

    pub(super) fn memory_size(&self) -> usize {
        self.data.memory_size() + self.lengths.memory_size() + capacity_bytes(&self.scratch)
    }
}
