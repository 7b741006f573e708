//! `VirtualState`: what a virtual controller keeps under its lock: registers, the admin queue and I/O queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::admin_queue::AdminQueue;
use super::namespace::Namespace;
use super::{Controller, ControllerCounters, ControllerOptions, QueueSetup};
use crate::bus::BusMemory;
use crate::raw::{Doorbells, QueueRings};
use crate::spec::registers as reg;
use crate::spec::{COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES, StatusCode};

/// Largest number of entries of an I/O queue.
pub(super) const MAX_ENTRIES: u32 = 2048;
/// Storage reads in flight for each queue.
const DEPTH: u32 = 64;

/// How a virtual controller describes itself.
#[derive(Debug, Clone)]
pub struct VirtualOptions {
    /// Serial number, at most 20 ASCII characters.
    pub serial: String,
    /// Number of I/O queue pairs that it grants, 1 to 500.
    pub queues: u16,
    /// MDTS: log2 of the largest transfer in pages of 4 KiB; 0: no limit.
    pub mdts: u8,
}

/// An I/O completion queue, and the submission queue that posts to it.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) cq_bus: u64,
    pub(super) entries: u32,
    pub(super) doorbells: Arc<Doorbells>,
    /// The thread that serves the submission queue; `None`: no submission queue.
    pub(super) controller: Option<Controller>,
}

/// Registers, queues and counters of a virtual controller.
pub(super) struct VirtualState {
    pub(super) options: VirtualOptions,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) bus: Arc<dyn BusMemory>,
    pub(super) cc: u32,
    pub(super) csts: u32,
    pub(super) aqa: u32,
    pub(super) asq: u64,
    pub(super) acq: u64,
    pub(super) admin: Option<AdminQueue>,
    /// By queue id.
    pub(super) pairs: BTreeMap<u16, Pair>,
    /// Counters of deleted queues.
    ended: ControllerCounters,
    pub(super) critical_warning: u8,
}

impl VirtualState {
    pub(super) fn new(options: VirtualOptions, namespaces: Vec<Namespace>, bus: Arc<dyn BusMemory>) -> Self {
        Self {
            options,
            namespaces,
            bus,
            cc: 0,
            csts: 0,
            aqa: 0,
            asq: 0,
            acq: 0,
            admin: None,
            pairs: BTreeMap::new(),
            ended: ControllerCounters::default(),
            critical_warning: 0,
        }
    }

    /// Counters of all queues since the start.
    pub(super) fn counters(&self) -> ControllerCounters {
        let running = self.pairs.values().filter_map(|pair| pair.controller.as_ref());
        running.fold(self.ended, |sum, controller| sum + controller.counters())
    }

    /// Ends the thread of a submission queue after its commands in flight.
    pub(super) fn end_queue(&mut self, qid: u16) {
        let Some(controller) = self.pairs.get_mut(&qid).and_then(|pair| pair.controller.take()) else {
            return;
        };
        self.ended = self.ended + controller.counters();
    }

    /// The admin queue of registers that say where it lies; `None`: they break a rule.
    pub(super) fn admin_queue(&self) -> Option<AdminQueue> {
        let entries = (self.aqa & 0xfff) + 1;
        let settings = reg::CC_SETTINGS | reg::CC_ENABLE;
        if self.aqa >> 16 & 0xfff != entries - 1 || self.cc & !reg::CC_SHN_MASK != settings {
            return None;
        }
        let doorbells = Arc::new(Doorbells::default());
        let rings = self.rings(self.asq, self.acq, entries, &doorbells).ok()?;
        Some(AdminQueue::new(rings, doorbells, entries))
    }

    /// The rings at two bus addresses.
    fn rings(
        &self,
        sq_bus: u64,
        cq_bus: u64,
        entries: u32,
        doorbells: &Arc<Doorbells>,
    ) -> Result<QueueRings, StatusCode> {
        if !sq_bus.is_multiple_of(4096) || !cq_bus.is_multiple_of(4096) {
            return Err(StatusCode::InvalidPrpOffset);
        }
        if !(2..=4096).contains(&entries) {
            return Err(StatusCode::InvalidQueueSize);
        }
        let ring = |bus, bytes| self.bus.host_memory(bus, u64::from(entries) * bytes as u64);
        let sq = ring(sq_bus, SUBMISSION_ENTRY_BYTES).ok_or(StatusCode::DataTransferError)?;
        let cq = ring(cq_bus, COMPLETION_ENTRY_BYTES).ok_or(StatusCode::DataTransferError)?;
        QueueRings::in_memory(sq, cq, doorbells.clone()).ok_or(StatusCode::InvalidQueueSize)
    }

    /// Starts the thread of a queue pair.
    pub(super) fn start_queue(&mut self, qid: u16, sq_bus: u64) -> Result<(), StatusCode> {
        let pair = self.pairs.get(&qid).ok_or(StatusCode::CompletionQueueInvalid)?;
        let rings = self.rings(sq_bus, pair.cq_bus, pair.entries, &pair.doorbells)?;
        let options = ControllerOptions {
            threads: 1,
            depth: DEPTH,
        };
        let setup = vec![QueueSetup { rings, qid }];
        let started = Controller::start(setup, self.namespaces.clone(), self.bus.clone(), &options);
        let controller = started.map_err(|e| {
            log::warn!("queue {qid}: {e}");
            StatusCode::InternalError
        })?;
        controller.be_strict(self.max_transfer_bytes());
        controller.resume();
        if let Some(pair) = self.pairs.get_mut(&qid) {
            pair.controller = Some(controller);
        }
        Ok(())
    }

    fn max_transfer_bytes(&self) -> u64 {
        match self.options.mdts {
            0 => u64::MAX,
            mdts => 4096 << mdts.min(20),
        }
    }
}
