//! [`RunEncoder`], the common part of the run-length encoders: values that wait until a run is chosen for them, and
//! positions between runs.

use super::stream::{OutStream, capacity_bytes};
use crate::error::Result;

/// A way to write values as runs.
pub(super) trait Runs {
    /// Type of the values.
    type Value;

    /// Appends runs that hold exactly these values.
    fn encode(&self, values: &[Self::Value], out: &mut Vec<u8>);
}

/// Encodes values into a stream.
#[derive(Debug)]
pub(super) struct RunEncoder<R: Runs> {
    pub(super) stream: OutStream,
    pub(super) runs: R,
    /// Values whose run is not yet chosen.
    pub(super) pending: Vec<R::Value>,
    /// Runs not yet written to the stream; empty between calls.
    pub(super) scratch: Vec<u8>,
}

impl<R: Runs> RunEncoder<R> {
    /// Over an empty stream.
    pub(super) fn over(stream: OutStream, runs: R) -> Self {
        Self {
            stream,
            runs,
            pending: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Ends the current run, so that the next value starts a new one.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.runs.encode(&self.pending, &mut self.scratch);
        self.pending.clear();
        self.stream.write(&self.scratch)?;
        self.scratch.clear();
        Ok(())
    }

    /// Ends the current run and appends the position of the next value: the stream's position, and no value of a run to
    /// skip.
    pub(super) fn position(&mut self, positions: &mut Vec<u64>) -> Result<()> {
        self.flush()?;
        self.stream.position(positions);
        positions.push(0);
        Ok(())
    }

    /// Bytes held in memory, about.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.stream.buffered_bytes() + size_of_val(self.pending.as_slice())
    }

    /// Bytes held in memory, with those that wait to be used again.
    pub(super) fn memory_size(&self) -> usize {
        self.stream.memory_size() + capacity_bytes(&self.pending) + self.scratch.capacity()
    }
}
