//! [`BlockChannel`]: one queue with staging memory. Reads of byte ranges, and writes of whole blocks, with many
//! commands in flight.
//!
//! 1. A transfer is cut into commands of whole blocks, no longer than a staging slot.
//! 2. While a slot is free, the next command is submitted. One doorbell announces all of them.
//! 3. Each completion copies its bytes between slot and caller, and frees the slot.
//!
//! **Invariant:** a slot is used again only after its command's completion. After a timeout the channel takes no more
//! commands, and the queue keeps the memory until the controller is reset.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::DriverError;
use crate::host::{Device, DmaBuffer, QueuePair};
use crate::spec::NamespaceIdentity;

/// Staging slots of a channel: the most commands in flight.
const SLOTS: usize = 8;
/// Bytes of a slot, unless the controller's largest transfer is smaller.
const SLOT_BYTES: u64 = 128 << 10;
/// Entries of a channel's queue: all slots and a flush, with room to spare.
const QUEUE_ENTRIES: u32 = 16;

/// Commands that were submitted, over all channels of a drive.
#[derive(Debug, Default)]
pub struct CommandCounts {
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
}

impl CommandCounts {
    /// Read commands.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Write commands.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Flush commands.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }
}

/// Bytes wanted from a position of the namespace.
#[derive(Debug)]
pub(super) struct ReadPiece<'a> {
    /// Position of the first byte.
    pub(super) position: u64,
    /// Where the bytes go.
    pub(super) out: &'a mut [u8],
}

/// Whole blocks of one command, and the piece of a read that they are for.
#[derive(Debug, Clone, Copy)]
struct Command {
    position: u64,
    length_bytes: u64,
    piece: usize,
}

/// Commands in flight: command id, slot and command of each.
#[derive(Debug)]
struct Flights {
    open: Vec<(u16, usize, Command)>,
    free: Vec<usize>,
}

/// A queue of one namespace. Dropping it gives the queue back to the controller.
#[derive(Debug)]
pub(super) struct BlockChannel {
    device: Arc<Mutex<Device>>,
    queue: QueuePair,
    namespace: NamespaceIdentity,
    slots: Vec<DmaBuffer>,
    slot_bytes: u64,
    counts: Arc<CommandCounts>,
    /// A wait has failed: commands may still be in flight.
    failed: bool,
}

impl BlockChannel {
    /// A channel over a new queue of the namespace's controller.
    pub(super) fn new(
        device: &Arc<Mutex<Device>>,
        namespace: NamespaceIdentity,
        counts: Arc<CommandCounts>,
    ) -> Result<Self, DriverError> {
        let mut locked = device.lock().unwrap_or_else(PoisonError::into_inner);
        let block_bytes = namespace.block_bytes();
        let slot_bytes = SLOT_BYTES.min(locked.max_transfer_bytes()) / block_bytes * block_bytes;
        if slot_bytes == 0 {
            let message = format!("a block of {block_bytes} bytes is longer than its largest transfer");
            return Err(DriverError::Unsupported(message));
        }
        let slots = (0..SLOTS).map(|_| locked.pool().allocate(slot_bytes as usize));
        let slots = slots.collect::<Result<_, _>>()?;
        let entries = QUEUE_ENTRIES.min(locked.capabilities().max_queue_entries());
        Ok(Self {
            device: device.clone(),
            queue: locked.create_queue(entries)?,
            slots,
            slot_bytes,
            namespace,
            counts,
            failed: false,
        })
    }

    /// The namespace.
    pub(super) fn namespace(&self) -> &NamespaceIdentity {
        &self.namespace
    }

    /// Whether the channel takes no more commands: a wait has failed, or the controller was reset.
    pub(super) fn has_failed(&self) -> bool {
        self.failed || !self.queue.is_alive()
    }

    fn flights(&self) -> Flights {
        Flights {
            open: Vec::new(),
            free: (0..self.slots.len().min(self.queue.depth() as usize - 1)).collect(),
        }
    }

    fn check(&self) -> Result<(), DriverError> {
        match self.failed {
            true => Err(DriverError::QueueGone { qid: self.queue.id() }),
            false => Ok(()),
        }
    }

    /// Reads bytes that lie inside the namespace. They need not be aligned.
    ///
    /// # Errors
    /// The first failed command's. All commands have ended then, or the channel has failed.
    pub(super) fn read(&mut self, pieces: &mut [ReadPiece<'_>]) -> Result<(), DriverError> {
        self.check()?;
        let mut next = (0, 0);
        let (mut flights, mut first_error) = (self.flights(), None);
        loop {
            while first_error.is_none()
                && let Some(slot) = flights.free.last().copied()
                && let Some(command) = self.next_read(pieces, &mut next)
            {
                match self.submit_read(slot, command) {
                    Ok(cid) => flights.start(cid, command),
                    Err(error) => first_error = Some(error),
                }
            }
            if flights.open.is_empty() {
                return first_error.map_or(Ok(()), Err);
            }
            match self.finish_one(&mut flights) {
                Ok((slot, command)) => self.copy_out(slot, command, &mut pieces[command.piece]),
                Err(error) if self.failed => return Err(first_error.unwrap_or(error)),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
    }

    /// Reads the bytes at a position.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(super) fn read_at(&mut self, position: u64, out: &mut [u8]) -> Result<(), DriverError> {
        self.read(&mut [ReadPiece { position, out }])
    }

    /// The next command of a read; `next` is the piece and the bytes of it that commands have.
    fn next_read(&self, pieces: &[ReadPiece<'_>], next: &mut (usize, u64)) -> Option<Command> {
        let block_bytes = self.namespace.block_bytes();
        loop {
            let (piece, done) = *next;
            let ReadPiece { position, out } = pieces.get(piece)?;
            if done >= out.len() as u64 {
                *next = (piece + 1, 0);
                continue;
            }
            let start = position + done;
            let first = start / block_bytes * block_bytes;
            let end = (position + out.len() as u64).next_multiple_of(block_bytes);
            let length_bytes = self.slot_bytes.min(end - first);
            *next = (piece, first + length_bytes - position);
            return Some(Command {
                position: first,
                length_bytes,
                piece,
            });
        }
    }

    /// LBA and number of blocks.
    fn blocks(&self, command: Command) -> (u64, u32) {
        let log2 = self.namespace.format.lba_log2;
        (command.position >> log2, (command.length_bytes >> log2) as u32)
    }

    fn submit_read(&mut self, slot: usize, command: Command) -> Result<u16, DriverError> {
        let (slba, blocks) = self.blocks(command);
        let to = self.slots[slot].range(0, command.length_bytes as usize)?;
        let cid = self.queue.submit_read(&self.namespace, slba, blocks, &to)?;
        self.counts.reads.fetch_add(1, Ordering::Relaxed);
        Ok(cid)
    }

    /// Copies the bytes that a command and its piece have in common.
    fn copy_out(&self, slot: usize, command: Command, piece: &mut ReadPiece<'_>) {
        let start = command.position.max(piece.position);
        let end = (command.position + command.length_bytes).min(piece.position + piece.out.len() as u64);
        let to = (start - piece.position) as usize..(end - piece.position) as usize;
        self.slots[slot].read((start - command.position) as usize, &mut piece.out[to]);
    }

    /// Waits for a command, and returns its slot.
    fn finish_one(&mut self, flights: &mut Flights) -> Result<(usize, Command), DriverError> {
        loop {
            let done = match self.queue.wait() {
                Ok(done) => done,
                Err(error) => {
                    self.failed = true;
                    return Err(error);
                }
            };
            // A completion that is not of this transfer cannot be: each transfer ends all its commands.
            let Some(at) = flights.open.iter().position(|(cid, ..)| *cid == done.command.cid) else {
                continue;
            };
            let (_, slot, command) = flights.open.swap_remove(at);
            flights.free.push(slot);
            return done.result().map(|_| (slot, command));
        }
    }

    /// Writes `length_bytes` bytes at a position, both whole blocks. `fill` gives the bytes of each command in turn.
    ///
    /// # Errors
    /// The first failed command's, or that of `fill`. Any of the blocks may be written then.
    pub(super) fn write<E: From<DriverError>>(
        &mut self,
        position: u64,
        length_bytes: u64,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check()?;
        let (mut flights, mut first_error) = (self.flights(), None);
        let (mut done, mut bytes) = (0, vec![0; self.slot_bytes as usize]);
        loop {
            while first_error.is_none()
                && done < length_bytes
                && let Some(slot) = flights.free.last().copied()
            {
                let command = Command {
                    position: position + done,
                    length_bytes: self.slot_bytes.min(length_bytes - done),
                    piece: 0,
                };
                let bytes = &mut bytes[..command.length_bytes as usize];
                let submitted = fill(bytes).and_then(|()| Ok(self.submit_write(slot, command, bytes)?));
                match submitted {
                    Ok(cid) => flights.start(cid, command),
                    Err(error) => first_error = Some(error),
                }
                done += command.length_bytes;
            }
            if flights.open.is_empty() {
                return first_error.map_or(Ok(()), Err);
            }
            if let Err(error) = self.finish_one(&mut flights) {
                let error = first_error.unwrap_or_else(|| error.into());
                if self.failed {
                    return Err(error);
                }
                first_error = Some(error);
            }
        }
    }

    fn submit_write(&mut self, slot: usize, command: Command, bytes: &[u8]) -> Result<u16, DriverError> {
        let (slba, blocks) = self.blocks(command);
        self.slots[slot].write(0, bytes);
        let from = self.slots[slot].range(0, bytes.len())?;
        let cid = self.queue.submit_write(&self.namespace, slba, blocks, &from)?;
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        Ok(cid)
    }

    /// Writes these bytes, whole blocks, at a position.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(super) fn write_at(&mut self, position: u64, bytes: &[u8]) -> Result<(), DriverError> {
        let mut rest = bytes;
        self.write(position, bytes.len() as u64, &mut |out: &mut [u8]| {
            let (now, later) = rest.split_at(out.len());
            out.copy_from_slice(now);
            rest = later;
            Ok(())
        })
    }

    /// Writes zeros over whole blocks.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(super) fn write_zeros(&mut self, position: u64, length_bytes: u64) -> Result<(), DriverError> {
        self.write(position, length_bytes, &mut |out: &mut [u8]| {
            out.fill(0);
            Ok(())
        })
    }

    /// Makes all writes that have ended durable.
    ///
    /// # Errors
    /// The command's.
    pub(super) fn flush(&mut self) -> Result<(), DriverError> {
        self.check()?;
        self.counts.flushes.fetch_add(1, Ordering::Relaxed);
        let flushed = self.queue.flush(&self.namespace);
        // Without a status, the flush may still be in flight.
        self.failed |= flushed
            .as_ref()
            .is_err_and(|error| !matches!(error, DriverError::Command { .. }));
        flushed
    }
}

impl Drop for BlockChannel {
    fn drop(&mut self) {
        // The controller would wait for commands that do not end.
        if self.failed {
            return;
        }
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = device.delete_queue(&self.queue) {
            log::debug!("queue {}: {error}", self.queue.id());
        }
    }
}

impl Flights {
    /// Notes a command in the last free slot.
    fn start(&mut self, cid: u16, command: Command) {
        if let Some(slot) = self.free.pop() {
            self.open.push((cid, slot, command));
        }
    }
}
