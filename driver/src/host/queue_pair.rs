//! `QueuePair`: a submission and a completion queue as the host drives them (Base 2.0c §3.3.1).
//!
//! 1. `submit` takes a command slot, describes the data and writes the entry behind the tail.
//! 2. `ring` announces all entries by one write of the tail doorbell.
//! 3. `poll` compares the phase of the entry at the head, frees the command's slot and writes the head doorbell.
//!
//! **Invariant:** at most `depth - 1` commands are outstanding, so the tail never meets the controller's head.
//! **Invariant:** memory that a command names stays reserved until its completion, or until the controller is disabled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zerocopy::IntoBytes;

use super::data_pointer::{DataPointer, DataPointers};
use super::dma::{BusRange, DmaBuffer, DmaPool};
use super::session::Session;
use crate::error::{CommandName, DriverError};
use crate::registers::Registers;
use crate::spec::registers::{CSTS, ControllerStatus};
use crate::spec::{COMPLETION_ENTRY_BYTES, NamespaceIdentity, Opcode, SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry};

/// Looks at the completion queue before the thread sleeps between looks.
const EAGER_LOOKS: u32 = 200;
/// Sleep between later looks.
const LOOK_PAUSE: Duration = Duration::from_micros(50);

/// A command that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// The command.
    pub command: CommandName,
    /// Its status.
    pub status: Status,
    /// Dword 0 of the completion: the result of some admin commands.
    pub dw0: u32,
}

impl Completed {
    /// Dword 0 of a successful completion.
    ///
    /// # Errors
    /// [`DriverError::Command`] for any other status.
    pub fn result(self) -> Result<u32, DriverError> {
        match self.status.is_success() {
            true => Ok(self.dw0),
            false => Err(DriverError::Command {
                command: self.command,
                status: self.status,
            }),
        }
    }
}

/// Limits of the commands of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// MDTS in bytes.
    pub(super) max_transfer_bytes: u64,
    /// How data is described.
    pub(super) pointers: DataPointers,
    /// Longest wait for a completion.
    pub(super) timeout: Duration,
}

/// Rings, doorbells and what belongs to them.
#[derive(Debug, Clone)]
pub(super) struct QueueParts {
    pub(super) qid: u16,
    pub(super) depth: u32,
    pub(super) sq: DmaBuffer,
    pub(super) cq: DmaBuffer,
    pub(super) sq_doorbell: usize,
    pub(super) cq_doorbell: usize,
    pub(super) registers: Arc<dyn Registers>,
    pub(super) pool: Arc<DmaPool>,
    pub(super) session: Arc<Session>,
    pub(super) limits: Limits,
}

/// A command slot.
#[derive(Debug, Default)]
struct Slot {
    /// Counts the slot's uses: a completion of an earlier use is stale.
    generation: u32,
    open: Option<Open>,
}

/// An outstanding command.
#[derive(Debug)]
struct Open {
    name: CommandName,
    /// PRP list, SGL segments and data.
    memory: [Option<DmaBuffer>; 2],
}

/// One queue pair of a [`Device`](super::Device). One thread at a time uses it.
#[derive(Debug)]
pub struct QueuePair {
    parts: QueueParts,
    /// Physical index behind the last entry.
    sq_tail: u32,
    /// Tail of the last doorbell.
    rung: u32,
    cq_head: u32,
    /// Phase tag of new completions.
    phase: bool,
    slots: Vec<Slot>,
    free: VecDeque<u16>,
    /// Slots in the order of submission, with the generation of each.
    order: VecDeque<(u16, u32)>,
    /// Completions taken while another command was waited for.
    done: VecDeque<Completed>,
    stale: u64,
}

impl QueuePair {
    pub(super) fn new(parts: QueueParts) -> Self {
        let slots = parts.depth - 1;
        Self {
            parts,
            sq_tail: 0,
            rung: 0,
            cq_head: 0,
            phase: true,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            free: (0..slots as u16).collect(),
            order: VecDeque::new(),
            done: VecDeque::new(),
            stale: 0,
        }
    }

    /// Whether the controller has the queue: no reset has ended it.
    pub(crate) fn is_alive(&self) -> bool {
        self.parts.session.is_alive()
    }

    /// Queue id.
    pub fn id(&self) -> u16 {
        self.parts.qid
    }

    /// Number of entries of each ring.
    pub fn depth(&self) -> u32 {
        self.parts.depth
    }

    /// Largest transfer of one command in bytes.
    pub fn max_transfer_bytes(&self) -> u64 {
        self.parts.limits.max_transfer_bytes
    }

    /// Number of commands submitted and not completed.
    pub fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Completions that named no outstanding command.
    pub fn stale_completions(&self) -> u64 {
        self.stale
    }

    /// Longest wait of [`wait`](Self::wait) and of the calls that wait by themselves.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.parts.limits.timeout = timeout;
    }

    // A slot's bits are never all ones: there is one slot less than entries. So no command has the id 0xFFFF, which
    // Error Information entries have that are about no command.
    fn slot_bits(&self) -> u32 {
        u32::BITS - (self.parts.depth - 1).leading_zeros()
    }

    /// Writes a command behind the tail, under the next free command id, which is returned. `data`, if any, is put into
    /// the command. The controller sees the command after [`ring`](Self::ring).
    ///
    /// # Errors
    /// [`DriverError::QueueFull`], [`DriverError::QueueGone`], or data that no data pointer can name.
    pub fn submit(&mut self, mut entry: SubmissionEntry, data: Option<&BusRange>) -> Result<u16, DriverError> {
        let qid = self.parts.qid;
        if !self.parts.session.is_alive() {
            return Err(DriverError::QueueGone { qid });
        }
        let full = DriverError::QueueFull {
            qid,
            slots: self.parts.depth - 1,
        };
        let slot = *self.free.front().ok_or(full)?;
        let mut list = None;
        if let Some(range) = data {
            // SGLs are for I/O commands: admin commands take PRPs over PCI Express.
            let pointer = match self.parts.limits.pointers {
                DataPointers::Sgl if qid != 0 => DataPointer::sgl(range, &self.parts.pool)?,
                _ => DataPointer::prps(range, &self.parts.pool)?,
            };
            pointer.put(&mut entry);
            list = pointer.list;
        }
        self.free.pop_front();
        let bits = self.slot_bits();
        let state = &mut self.slots[usize::from(slot)];
        state.generation = state.generation.wrapping_add(1);
        entry.cid = (u32::from(slot) | state.generation.checked_shl(bits).unwrap_or(0)) as u16;
        let name = CommandName {
            opcode: entry.opc,
            qid,
            cid: entry.cid,
            nsid: entry.nsid,
            slba: entry.slba,
            blocks: entry.blocks(),
        };
        state.open = Some(Open {
            name,
            memory: [list, data.and_then(|range| range.owner.clone())],
        });
        self.order.push_back((slot, state.generation));
        let at = self.sq_tail as usize * SUBMISSION_ENTRY_BYTES;
        self.parts.sq.write(at, entry.as_bytes());
        self.sq_tail = (self.sq_tail + 1) % self.parts.depth;
        Ok(entry.cid)
    }

    /// Announces the entries written since the last call, by one doorbell.
    pub fn ring(&mut self) {
        if self.rung != self.sq_tail && self.parts.session.is_alive() {
            // D: the entries are visible before the doorbell (`Registers::write32`).
            self.parts.registers.write32(self.parts.sq_doorbell, self.sq_tail);
            self.rung = self.sq_tail;
        }
    }

    /// The next completion, if there is one. Completions that name no outstanding command are counted and skipped.
    ///
    /// # Errors
    /// [`DriverError::QueueGone`].
    pub fn poll(&mut self) -> Result<Option<Completed>, DriverError> {
        if let Some(done) = self.done.pop_front() {
            return Ok(Some(done));
        }
        self.take()
    }

    fn take(&mut self) -> Result<Option<Completed>, DriverError> {
        if !self.parts.session.is_alive() {
            return Err(DriverError::QueueGone { qid: self.parts.qid });
        }
        // A ring at most: a controller that overwrites entries must not keep the driver here.
        for _ in 0..self.parts.depth {
            let at = self.cq_head as usize * COMPLETION_ENTRY_BYTES;
            // R: the phase first, with acquire; the rest of the entry and the data are visible then.
            let dw3 = self.parts.cq.load_acquire(at + 12);
            if (dw3 >> 16 & 1 == 1) != self.phase {
                return Ok(None);
            }
            let dw0 = self.parts.cq.load_acquire(at);
            self.cq_head += 1;
            if self.cq_head == self.parts.depth {
                (self.cq_head, self.phase) = (0, !self.phase);
            }
            self.parts.registers.write32(self.parts.cq_doorbell, self.cq_head);
            match self.close(dw3 as u16) {
                Some(command) => {
                    let status = Status((dw3 >> 17) as u16);
                    return Ok(Some(Completed { command, status, dw0 }));
                }
                None => self.stale += 1,
            }
        }
        Ok(None)
    }

    /// Ends the command with this id; `None`: it is not outstanding.
    fn close(&mut self, cid: u16) -> Option<CommandName> {
        let slot = u32::from(cid) & ((1 << self.slot_bits()) - 1);
        let state = self.slots.get_mut(slot as usize)?;
        if state.open.as_ref()?.name.cid != cid {
            return None;
        }
        let open = state.open.take()?;
        self.free.push_back(slot as u16);
        while let Some((slot, generation)) = self.order.front()
            && (self.slots[usize::from(*slot)].generation != *generation
                || self.slots[usize::from(*slot)].open.is_none())
        {
            self.order.pop_front();
        }
        Some(open.name)
    }

    /// Waits for the next completion.
    ///
    /// # Errors
    /// [`DriverError::Timeout`], or what [`poll`](Self::poll) returns, or the controller's failure.
    pub fn wait(&mut self) -> Result<Completed, DriverError> {
        if let Some(done) = self.done.pop_front() {
            return Ok(done);
        }
        self.wait_until(|_| true)
    }

    /// Waits for the completion of one command. Completions of others are kept for [`poll`](Self::poll).
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_for(&mut self, cid: u16) -> Result<Completed, DriverError> {
        if let Some(at) = self.done.iter().position(|done| done.command.cid == cid)
            && let Some(done) = self.done.remove(at)
        {
            return Ok(done);
        }
        self.wait_until(|done| done.command.cid == cid)
    }

    fn wait_until(&mut self, wanted: impl Fn(&Completed) -> bool) -> Result<Completed, DriverError> {
        self.ring();
        let (began, limit) = (Instant::now(), self.parts.limits.timeout);
        let mut looks = 0u32;
        loop {
            match self.take()? {
                Some(done) if wanted(&done) => return Ok(done),
                Some(done) => self.done.push_back(done),
                None if self.outstanding() == 0 => {
                    return Err(DriverError::NothingOutstanding { qid: self.parts.qid });
                }
                None if began.elapsed() >= limit => return Err(self.late(limit)),
                None if looks < EAGER_LOOKS => std::thread::yield_now(),
                None => {
                    // A failed controller posts no completions: no need to wait for the bound.
                    if looks.is_multiple_of(64) {
                        self.check()?;
                    }
                    std::thread::sleep(LOOK_PAUSE);
                }
            }
            looks = looks.saturating_add(1);
        }
    }

    fn check(&self) -> Result<(), DriverError> {
        let csts = ControllerStatus(self.parts.registers.read32(CSTS));
        if csts.is_removed() {
            return Err(DriverError::Removed);
        }
        if csts.is_fatal() {
            let during = match self.oldest() {
                Some(name) => format!("during {name}"),
                None => "while idle".to_owned(),
            };
            return Err(DriverError::Fatal { csts: csts.0, during });
        }
        Ok(())
    }

    fn oldest(&self) -> Option<CommandName> {
        let (slot, _) = self.order.front()?;
        Some(self.slots[usize::from(*slot)].open.as_ref()?.name)
    }

    fn late(&self, waited: Duration) -> DriverError {
        match (self.check(), self.oldest()) {
            (Err(e), _) => e,
            (Ok(()), Some(command)) => DriverError::Timeout { command, waited },
            (Ok(()), None) => DriverError::NothingOutstanding { qid: self.parts.qid },
        }
    }

    /// Checks and submits a command over blocks of a namespace.
    fn submit_blocks(
        &mut self,
        opcode: Opcode,
        namespace: &NamespaceIdentity,
        (slba, blocks): (u64, u32),
        data: Option<&BusRange>,
    ) -> Result<u16, DriverError> {
        let nsid = namespace.nsid;
        let inside = slba
            .checked_add(u64::from(blocks))
            .is_some_and(|end| end <= namespace.blocks);
        if blocks == 0 || blocks > 65_536 || !inside {
            return Err(DriverError::BlockRange {
                nsid,
                slba,
                blocks,
                size: namespace.blocks,
            });
        }
        if namespace.format.metadata_bytes != 0 {
            let message = format!("namespace {nsid} has metadata: format it without");
            return Err(DriverError::Unsupported(message));
        }
        if let Some(range) = data {
            let (length, limit) = (range.length_bytes as u64, self.parts.limits.max_transfer_bytes);
            if length != u64::from(blocks) << namespace.format.lba_log2 || length > limit {
                return Err(DriverError::DataLength {
                    length_bytes: range.length_bytes,
                    blocks,
                    block_bytes: namespace.block_bytes(),
                    max_bytes: limit,
                });
            }
        }
        self.submit(SubmissionEntry::io(opcode, nsid, slba, blocks), data)
    }

    /// Submits a read of `blocks` blocks from `slba` into `to`; returns the command id.
    ///
    /// # Errors
    /// Blocks outside the namespace, data of another length or over MDTS, or as [`submit`](Self::submit).
    pub fn submit_read(
        &mut self,
        namespace: &NamespaceIdentity,
        slba: u64,
        blocks: u32,
        to: &BusRange,
    ) -> Result<u16, DriverError> {
        self.submit_blocks(Opcode::Read, namespace, (slba, blocks), Some(to))
    }

    /// Submits a write of `blocks` blocks at `slba` from `from`; returns the command id.
    ///
    /// # Errors
    /// As [`submit_read`](Self::submit_read).
    pub fn submit_write(
        &mut self,
        namespace: &NamespaceIdentity,
        slba: u64,
        blocks: u32,
        from: &BusRange,
    ) -> Result<u16, DriverError> {
        self.submit_blocks(Opcode::Write, namespace, (slba, blocks), Some(from))
    }

    fn finish(&mut self, cid: u16) -> Result<(), DriverError> {
        self.wait_for(cid)?.result().map(|_| ())
    }

    /// Reads, and waits for the data.
    ///
    /// # Errors
    /// As [`submit_read`](Self::submit_read) and [`wait`](Self::wait), or the command's status.
    pub fn read(
        &mut self,
        namespace: &NamespaceIdentity,
        slba: u64,
        blocks: u32,
        to: &BusRange,
    ) -> Result<(), DriverError> {
        let cid = self.submit_read(namespace, slba, blocks, to)?;
        self.finish(cid)
    }

    /// Writes, and waits for the completion. Bytes are durable after a [`flush`](Self::flush).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(
        &mut self,
        namespace: &NamespaceIdentity,
        slba: u64,
        blocks: u32,
        from: &BusRange,
    ) -> Result<(), DriverError> {
        let cid = self.submit_write(namespace, slba, blocks, from)?;
        self.finish(cid)
    }

    /// Makes all completed writes of a namespace durable.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn flush(&mut self, namespace: &NamespaceIdentity) -> Result<(), DriverError> {
        let cid = self.submit(SubmissionEntry::io(Opcode::Flush, namespace.nsid, 0, 0), None)?;
        self.finish(cid)
    }

    /// Sets blocks to zero without a transfer.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write_zeroes(&mut self, namespace: &NamespaceIdentity, slba: u64, blocks: u32) -> Result<(), DriverError> {
        let cid = self.submit_blocks(Opcode::WriteZeroes, namespace, (slba, blocks), None)?;
        self.finish(cid)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if !self.parts.session.is_alive() {
            return; // the controller was disabled: it writes nothing more
        }
        for open in self.slots.iter_mut().filter_map(|slot| slot.open.take()) {
            for buffer in open.memory.into_iter().flatten() {
                self.parts.session.keep(buffer);
            }
        }
    }
}
