//! [`LossyStorage`]: memory that keeps, over a loss of power, what was flushed and any of the blocks written since.

use std::sync::{Arc, Mutex, MutexGuard};

use grampus_driver::error::StorageError;
use grampus_driver::spec::StatusCode;
use grampus_driver::storage::{BlockWriter, Channel, ReadDone, ReadRequest, Storage};

use crate::random::Random;

#[derive(Debug)]
struct State {
    /// What reads return.
    visible: Vec<u8>,
    /// What a loss of power leaves for certain.
    durable: Vec<u8>,
    /// Writes since the last flush: position and bytes, in order. Each is one block, which the drive writes whole.
    pending: Vec<(usize, Vec<u8>)>,
    /// Writes and flushes until the power is lost.
    left: u64,
    /// Writes and flushes so far.
    done: u64,
}

/// The bytes of a namespace, in blocks that are written whole or not at all.
#[derive(Debug, Clone)]
pub(crate) struct LossyStorage {
    state: Arc<Mutex<State>>,
    block_bytes: usize,
}

impl LossyStorage {
    pub(crate) fn new(image: Vec<u8>, block_bytes: usize) -> Self {
        let state = State {
            visible: image.clone(),
            durable: image,
            pending: Vec::new(),
            left: u64::MAX,
            done: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            block_bytes,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Loses the power after so many more writes and flushes. Commands fail from then on.
    pub(crate) fn lose_power_after(&self, steps: u64) {
        self.state().left = steps;
    }

    /// Writes and flushes so far.
    pub(crate) fn steps(&self) -> u64 {
        self.state().done
    }

    /// The bytes as they are.
    pub(crate) fn image(&self) -> Vec<u8> {
        self.state().visible.clone()
    }

    /// The bytes after the loss: of the blocks written since the last flush, each holds an old or a newer version.
    pub(crate) fn after_loss(&self, random: &mut Random) -> Vec<u8> {
        let state = self.state();
        let mut image = state.durable.clone();
        // Drives store most of what they cache, or little of it.
        let odds = random.below(5);
        for (at, bytes) in &state.pending {
            if random.below(4) < odds {
                image[*at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
        image
    }
}

impl State {
    fn step(&mut self) -> Result<(), StorageError> {
        if self.left == 0 {
            return Err(StorageError {
                storage: "memory".to_owned(),
                offset: 0,
                length: 0,
                reason: "the power is lost".to_owned(),
                code: StatusCode::WriteFault,
            });
        }
        (self.left, self.done) = (self.left - 1, self.done + 1);
        Ok(())
    }
}

impl BlockWriter for LossyStorage {
    /// Counts each block as a step: the power can be lost in the middle of a command.
    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let mut state = self.state();
        for (i, block) in bytes.chunks(self.block_bytes).enumerate() {
            state.step()?;
            let at = offset_bytes as usize + i * self.block_bytes;
            state.visible[at..at + block.len()].copy_from_slice(block);
            state.pending.push((at, block.to_vec()));
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), StorageError> {
        let mut state = self.state();
        state.step()?;
        let State { durable, pending, .. } = &mut *state;
        for (at, bytes) in pending.drain(..) {
            durable[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }
}

impl Storage for LossyStorage {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn size_bytes(&self) -> u64 {
        self.state().visible.len() as u64
    }

    fn channel(&self, _: u32) -> Result<Box<dyn Channel>, StorageError> {
        Ok(Box::new(MemoryChannel {
            storage: self.clone(),
            done: Vec::new(),
        }))
    }

    fn writer(&self) -> Option<Arc<dyn BlockWriter>> {
        Some(Arc::new(self.clone()))
    }
}

struct MemoryChannel {
    storage: LossyStorage,
    done: Vec<ReadDone>,
}

impl Channel for MemoryChannel {
    fn start(&mut self, request: ReadRequest) -> Result<(), ReadRequest> {
        let ReadRequest {
            token,
            offset_bytes,
            mut memory,
        } = request;
        let (at, length) = (offset_bytes as usize, memory.len());
        memory
            .bytes_mut()
            .copy_from_slice(&self.storage.state().visible[at..at + length]);
        self.done.push(ReadDone {
            token,
            memory,
            result: Ok(()),
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
