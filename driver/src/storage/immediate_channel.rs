//! `ImmediateChannel`: a channel whose reads finish inside `start`.

use super::{Channel, ReadDone, ReadRequest};
use crate::error::StorageError;

/// A channel whose reads finish inside `start`, for every storage without asynchronous I/O.
pub(crate) struct ImmediateChannel<F> {
    read: F,
    depth: usize,
    done: Vec<ReadDone>,
}

impl<F: FnMut(u64, &mut [u8]) -> Result<(), StorageError> + Send> ImmediateChannel<F> {
    pub(crate) fn new(depth: u32, read: F) -> Self {
        Self {
            read,
            depth: depth.max(1) as usize,
            done: Vec::new(),
        }
    }
}

impl<F: FnMut(u64, &mut [u8]) -> Result<(), StorageError> + Send> Channel for ImmediateChannel<F> {
    fn start(&mut self, mut request: ReadRequest) -> Result<(), ReadRequest> {
        if self.done.len() >= self.depth {
            return Err(request);
        }
        let result = (self.read)(request.offset_bytes, request.memory.bytes_mut());
        self.done.push(ReadDone {
            token: request.token,
            memory: request.memory,
            result,
        });
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<ReadDone>) {
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}
