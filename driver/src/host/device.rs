//! `Device`: a controller that this process drives (Base 2.0c §3.5, memory-based controller initialization).
//!
//! ```text
//!            reset: CC.EN = 0, CSTS.RDY = 0         enable: AQA, ASQ, ACQ, CC.EN = 1, CSTS.RDY = 1
//! any state ─────────────────────────────► disabled ─────────────────────────────► ready
//!                                              ▲                                     │ CSTS.CFS, or a lost command
//!                                              └─────────────── recover ─────────────┘
//! ```
//!
//! **Invariant:** memory that the controller may write is freed only while the controller is disabled.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::data_pointer::DataPointers;
use super::device_options::DeviceOptions;
use super::dma::{DmaBuffer, DmaPool};
use super::enabling::{await_status, command_timeout, disable, enable};
use super::event_requests::EventRequests;
use super::queue_pair::{Completed, Limits, QueuePair, QueueParts};
use super::queue_place::{QueuePlace, QueueTicket};
use super::session::Session;
use crate::error::DriverError;
use crate::registers::Registers;
use crate::spec::registers::{self as reg, Capabilities, ControllerStatus};
use crate::spec::{
    AdminOpcode, AsyncEvent, COMPLETION_ENTRY_BYTES, Cns, ControllerIdentity, IDENTIFY_BYTES, LogPage,
    NamespaceIdentity, PAGE_BYTES, SMART_LOG_BYTES, SUBMISSION_ENTRY_BYTES, SmartLog, StatusCode, SubmissionEntry,
    feature, namespace_list,
};

/// The largest transfer without MDTS: NLB has 16 bits, and a block may have 64 KiB.
const MAX_TRANSFER_BYTES: u64 = 4 << 30;
/// Namespace number of commands about all namespaces.
const ALL_NAMESPACES: u32 = u32::MAX;

/// A controller, enabled by [`open`](Self::open) and disabled when dropped.
#[derive(Debug)]
pub struct Device {
    registers: Arc<dyn Registers>,
    pool: Arc<DmaPool>,
    options: DeviceOptions,
    capabilities: Capabilities,
    session: Arc<Session>,
    /// The rings of the admin queue and of the I/O queues in the driver's memory, which the controller may access.
    rings: Vec<(u16, [DmaBuffer; 2])>,
    admin: QueuePair,
    identity: ControllerIdentity,
    granted: u16,
    /// By queue id: the entries of its rings.
    queues: BTreeMap<u16, u32>,
    /// Resets of the controller by this driver.
    resets: u64,
    events: EventRequests,
}

impl Device {
    /// Resets and enables the controller behind `registers`, identifies it, and asks for I/O queues. Rings and data
    /// take memory of `pool`.
    ///
    /// # Errors
    /// The controller does not answer in time, or lacks the NVM command set or 4 KiB pages.
    pub fn open(
        registers: Arc<dyn Registers>,
        pool: Arc<DmaPool>,
        options: DeviceOptions,
    ) -> Result<Self, DriverError> {
        if registers.length_bytes() < reg::DOORBELLS + 8 {
            let message = format!("its registers have {} bytes and no doorbells", registers.length_bytes());
            return Err(DriverError::Unsupported(message));
        }
        if registers.read32(reg::CSTS) == reg::REMOVED {
            return Err(DriverError::Removed);
        }
        let capabilities = Capabilities(registers.read64(reg::CAP));
        if !capabilities.has_nvm_command_set() || capabilities.min_page_bytes() > PAGE_BYTES {
            let message = format!("CAP is {:#x}: no NVM command set with pages of 4 KiB", capabilities.0);
            return Err(DriverError::Unsupported(message));
        }
        disable(&*registers, capabilities)?;
        let (admin, rings, session) = enable(&registers, &pool, capabilities, options)?;
        let mut device = Self {
            registers,
            pool,
            options,
            capabilities,
            session,
            rings: vec![(0, rings)],
            admin,
            // Replaced by `introduce`, before any other command.
            identity: ControllerIdentity::parse(&[0; IDENTIFY_BYTES], PAGE_BYTES),
            granted: 0,
            queues: BTreeMap::new(),
            resets: 0,
            events: EventRequests::default(),
        };
        device.introduce()?;
        Ok(device)
    }

    /// Identifies the controller, and asks for queues and events.
    fn introduce(&mut self) -> Result<(), DriverError> {
        let data = self.identify(Cns::Controller, 0)?;
        self.identity = ControllerIdentity::parse(&data, self.capabilities.min_page_bytes());
        if !self.identity.has_standard_entries {
            let message = "it has no queue entries of 64 and 16 bytes".to_owned();
            return Err(DriverError::Unsupported(message));
        }
        let wanted = match self.options.queues {
            0 => self.doorbells(),
            queues => queues.min(self.doorbells()),
        };
        if wanted == 0 {
            let message = "its registers have no doorbells of I/O queues".to_owned();
            return Err(DriverError::Unsupported(message));
        }
        let asked = u32::from(wanted - 1);
        let entry = SubmissionEntry::admin(
            AdminOpcode::SetFeatures,
            0,
            u32::from(feature::NUMBER_OF_QUEUES),
            asked << 16 | asked,
        );
        // Both counts are zero-based; the controller may grant more than was asked for.
        let granted = self.command(entry, None)?;
        let least = (granted & 0xffff).min(granted >> 16) + 1;
        self.granted = least.min(u32::from(wanted)) as u16;
        Ok(())
    }

    /// Number of I/O queue pairs whose doorbells lie inside the registers.
    fn doorbells(&self) -> u16 {
        let pairs = (self.registers.length_bytes() - reg::DOORBELLS) / (8 << self.capabilities.dstrd());
        // Less the admin queue. 65,535 is no valid number of queues (Base 2.0c figure 331).
        pairs.saturating_sub(1).min(65_534) as u16
    }

    /// CAP.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// The Identify data of the controller.
    pub fn identity(&self) -> &ControllerIdentity {
        &self.identity
    }

    /// Number of I/O queue pairs that the controller granted.
    pub fn granted_queues(&self) -> u16 {
        self.granted
    }

    /// Largest transfer of one command in bytes.
    pub fn max_transfer_bytes(&self) -> u64 {
        self.identity.max_transfer_bytes.unwrap_or(MAX_TRANSFER_BYTES)
    }

    /// Number of I/O queue pairs that can still be made.
    pub fn free_queues(&self) -> u16 {
        self.granted.saturating_sub(self.queues.len() as u16)
    }

    /// The registers, for an agent that rings doorbells itself.
    pub fn registers(&self) -> &Arc<dyn Registers> {
        &self.registers
    }

    /// Memory for queues and data.
    pub fn pool(&self) -> &Arc<DmaPool> {
        &self.pool
    }

    /// CSTS.
    ///
    /// # Errors
    /// [`DriverError::Removed`].
    pub fn status(&self) -> Result<ControllerStatus, DriverError> {
        match ControllerStatus(self.registers.read32(reg::CSTS)) {
            status if status.is_removed() => Err(DriverError::Removed),
            status => Ok(status),
        }
    }

    /// Runs an admin command and returns dword 0 of its completion.
    ///
    /// # Errors
    /// The command's status, a timeout, or the controller's failure.
    pub fn command(&mut self, entry: SubmissionEntry, data: Option<&DmaBuffer>) -> Result<u32, DriverError> {
        let range = data.map(|buffer| buffer.range(0, buffer.len())).transpose()?;
        let cid = self.admin.submit(entry, range.as_ref())?;
        self.admin.wait_for(cid)?.result()
    }

    fn identify(&mut self, cns: Cns, nsid: u32) -> Result<[u8; IDENTIFY_BYTES], DriverError> {
        let buffer = self.pool.allocate(IDENTIFY_BYTES)?;
        let entry = SubmissionEntry::admin(AdminOpcode::Identify, nsid, cns as u32, 0);
        self.command(entry, Some(&buffer))?;
        let mut data = [0; IDENTIFY_BYTES];
        buffer.read(0, &mut data);
        Ok(data)
    }

    /// The active namespaces that can be read and written, in the order of their numbers.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn namespaces(&mut self) -> Result<Vec<NamespaceIdentity>, DriverError> {
        let mut found = Vec::new();
        let mut after = 0;
        loop {
            let list = namespace_list(&self.identify(Cns::ActiveNamespaces, after)?);
            for nsid in &list {
                // Numbers ascend (Base 2.0c §5.17.2.2): a list that does not must not keep the driver here.
                if *nsid <= after || *nsid > self.identity.max_namespace {
                    let message = format!("its namespace list names {nsid} after {after}");
                    return Err(DriverError::Unsupported(message));
                }
                after = *nsid;
                let data = self.identify(Cns::Namespace, *nsid)?;
                found.extend(NamespaceIdentity::parse(*nsid, &data));
            }
            if list.len() < IDENTIFY_BYTES / 4 {
                return Ok(found);
            }
        }
    }

    /// The first `data.len()` bytes of a log page; a multiple of 4, at most 4,096. Reading ends the page's event.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn log_page(&mut self, page: u8, data: &mut [u8]) -> Result<(), DriverError> {
        let buffer = self.pool.allocate(data.len())?;
        let dwords = (data.len() / 4).clamp(1, PAGE_BYTES as usize / 4) as u32 - 1;
        let entry = SubmissionEntry::admin(
            AdminOpcode::GetLogPage,
            ALL_NAMESPACES,
            u32::from(page) | dwords << 16,
            0,
        );
        self.command(entry, Some(&buffer))?;
        buffer.read(0, data);
        Ok(())
    }

    /// The controller's health and counters.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn smart_log(&mut self) -> Result<SmartLog, DriverError> {
        let mut data = [0; SMART_LOG_BYTES];
        self.log_page(LogPage::Smart as u8, &mut data)?;
        Ok(SmartLog::parse(&data))
    }

    fn limits(&self) -> Limits {
        let pointers = match self.identity.has_sgls {
            true => self.options.pointers,
            false => DataPointers::Prp,
        };
        Limits {
            max_transfer_bytes: self.max_transfer_bytes(),
            pointers,
            timeout: command_timeout(self.capabilities, self.options),
        }
    }

    /// Creates an I/O queue pair of `entries` in memory of the pool.
    ///
    /// # Errors
    /// [`DriverError::NoQueue`], [`DriverError::QueueSize`], too little memory, or the controller's answer.
    pub fn create_queue(&mut self, entries: u32) -> Result<QueuePair, DriverError> {
        self.check_entries(entries)?;
        let sq = self
            .pool
            .allocate_contiguous(entries as usize * SUBMISSION_ENTRY_BYTES)?;
        let cq = self
            .pool
            .allocate_contiguous(entries as usize * COMPLETION_ENTRY_BYTES)?;
        let ticket = self.create_queue_at(QueuePlace {
            sq_bus: sq.bus_address(0),
            cq_bus: cq.bus_address(0),
            entries,
            vector: None,
        })?;
        self.rings.push((ticket.qid, [sq.clone(), cq.clone()]));
        Ok(QueuePair::new(QueueParts {
            qid: ticket.qid,
            depth: entries,
            sq,
            cq,
            sq_doorbell: ticket.sq_doorbell,
            cq_doorbell: ticket.cq_doorbell,
            registers: self.registers.clone(),
            pool: self.pool.clone(),
            session: self.session.clone(),
            limits: self.limits(),
        }))
    }

    fn check_entries(&self, entries: u32) -> Result<(), DriverError> {
        let max = self.capabilities.max_queue_entries();
        match (2..=max).contains(&entries) {
            true => Ok(()),
            false => Err(DriverError::QueueSize { entries, max }),
        }
    }

    /// Creates an I/O queue pair at given addresses. The caller drives it, and keeps the rings in place until the
    /// queue is deleted or the controller reset. Each ring is contiguous on the bus (PC = 1).
    ///
    /// # Errors
    /// As [`create_queue`](Self::create_queue), or rings that are not page-aligned.
    pub fn create_queue_at(&mut self, place: QueuePlace) -> Result<QueueTicket, DriverError> {
        self.check_entries(place.entries)?;
        for bus in [place.sq_bus, place.cq_bus] {
            if !bus.is_multiple_of(PAGE_BYTES) {
                let message = format!("a ring at bus address {bus:#x} is not aligned to 4,096 bytes");
                return Err(DriverError::Unsupported(message));
            }
        }
        let free = (1..=self.granted).find(|qid| !self.queues.contains_key(qid));
        let qid = free.ok_or(DriverError::NoQueue { granted: self.granted })?;
        let (number, contiguous) = (u32::from(qid) | (place.entries - 1) << 16, 1);
        let interrupt = place.vector.map_or(0, |vector| 1 << 1 | u32::from(vector) << 16);
        let mut create = SubmissionEntry::admin(AdminOpcode::CreateCq, 0, number, contiguous | interrupt);
        create.prp1 = place.cq_bus;
        self.command(create, None)?;
        let mut create = SubmissionEntry::admin(AdminOpcode::CreateSq, 0, number, contiguous | u32::from(qid) << 16);
        create.prp1 = place.sq_bus;
        self.queues.insert(qid, place.entries);
        if let Err(e) = self.command(create, None) {
            // If the completion queue stays, its id is taken until the controller is reset.
            let _ = self.delete_queue_at(qid);
            return Err(e);
        }
        let dstrd = self.capabilities.dstrd();
        Ok(QueueTicket {
            qid,
            sq_doorbell: reg::sq_doorbell(qid, dstrd),
            cq_doorbell: reg::cq_doorbell(qid, dstrd),
            resets: self.resets,
        })
    }

    /// Deletes an I/O queue pair, unless a reset has ended it. The controller ends its outstanding commands first.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn delete_queue(&mut self, queue: impl Borrow<QueuePair>) -> Result<(), DriverError> {
        let queue = queue.borrow();
        match queue.is_alive() {
            true => self.delete_queue_at(queue.id()),
            false => Ok(()),
        }
    }

    /// The same for a queue pair that another agent drives.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn give_back(&mut self, ticket: &QueueTicket) -> Result<(), DriverError> {
        match ticket.resets == self.resets {
            true => self.delete_queue_at(ticket.qid),
            false => Ok(()),
        }
    }

    /// Deletes the I/O queue pair with this id. After an error it may be half deleted, and is deleted by another call.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn delete_queue_at(&mut self, qid: u16) -> Result<(), DriverError> {
        for opcode in [AdminOpcode::DeleteSq, AdminOpcode::DeleteCq] {
            match self.command(SubmissionEntry::admin(opcode, 0, u32::from(qid), 0), None) {
                // An earlier call has deleted it, whose completion was lost, or which failed half-way.
                Err(e) if e.is_status(StatusCode::InvalidQueueIdentifier) && self.queues.contains_key(&qid) => {}
                other => drop(other?),
            }
        }
        self.queues.remove(&qid);
        self.rings.retain(|(id, _)| *id != qid);
        Ok(())
    }

    /// Asks the controller for asynchronous events, which [`events`](Self::events) returns.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn watch_events(&mut self) -> Result<(), DriverError> {
        // All SMART warnings; errors are always reported.
        let id = u32::from(feature::ASYNC_EVENT_CONFIGURATION);
        self.command(SubmissionEntry::admin(AdminOpcode::SetFeatures, 0, id, 0xff), None)?;
        while self.events.wants_more(self.identity.async_event_limit) {
            self.events.request(&mut self.admin)?;
        }
        Ok(())
    }

    /// The events since the last call, in order. Reads the log page of each, which lets the controller report the next
    /// event of its type.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn events(&mut self) -> Result<Vec<AsyncEvent>, DriverError> {
        while let Some(done) = self.admin.poll()? {
            self.event_done(done)?;
        }
        Ok(self.events.take())
    }

    fn event_done(&mut self, done: Completed) -> Result<(), DriverError> {
        let Some(event) = self.events.ended(done)? else {
            return Ok(()); // a command that its caller no longer waits for
        };
        if event.log_page() != 0 {
            self.log_page(event.log_page(), &mut [0; 64])?;
        }
        self.events.request(&mut self.admin)
    }

    /// Disables and enables the controller. All I/O queues are gone; their outstanding commands have no completion.
    ///
    /// # Errors
    /// The controller does not follow in time.
    pub fn reset(&mut self) -> Result<(), DriverError> {
        self.stop()?;
        let (admin, rings, session) = enable(&self.registers, &self.pool, self.capabilities, self.options)?;
        (self.admin, self.session) = (admin, session);
        self.rings.push((0, rings));
        let watched = self.events.forget_requests();
        self.introduce()?;
        if watched { self.watch_events() } else { Ok(()) }
    }

    /// Disables the controller and frees what it could have written.
    fn stop(&mut self) -> Result<(), DriverError> {
        self.session.end();
        disable(&*self.registers, self.capabilities)?;
        self.session.take_lost();
        self.resets += 1;
        self.queues.clear();
        self.rings.clear();
        Ok(())
    }

    /// Resets the controller if it has failed (CSTS.CFS), or has been disabled by another agent. True: it had.
    ///
    /// # Errors
    /// As [`reset`](Self::reset).
    pub fn recover(&mut self) -> Result<bool, DriverError> {
        let status = self.status()?;
        let failed = status.is_fatal() || !status.is_ready();
        if failed {
            self.reset()?;
        }
        Ok(failed)
    }

    /// Resets the controller after an admin command without an answer, or if it [has failed](Self::recover).
    ///
    /// # Errors
    /// As [`reset`](Self::reset).
    pub fn recover_from(&mut self, error: &DriverError) -> Result<bool, DriverError> {
        match error {
            DriverError::Timeout { .. } | DriverError::Fatal { .. } => self.reset().map(|()| true),
            _ => self.recover(),
        }
    }

    /// Shuts the controller down in good order: deletes the queues, lets it store what it caches, disables it.
    ///
    /// # Errors
    /// The controller does not follow in time.
    pub fn shutdown(mut self) -> Result<(), DriverError> {
        for qid in self.queues.keys().copied().collect::<Vec<_>>() {
            self.delete_queue_at(qid)?;
        }
        let cc = self.registers.read32(reg::CC) & !reg::CC_SHN_MASK;
        self.registers.write32(reg::CC, cc | reg::CC_SHN_NORMAL);
        let reported = Duration::from_micros(u64::from(self.identity.shutdown_us));
        let limit = reported.max(Duration::from_millis(self.capabilities.timeout_ms()));
        await_status(&*self.registers, "shut down", limit, |status| status.is_shut_down())?;
        self.stop()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Err(e) = self.stop() {
            log::error!("{e}; its memory stays reserved");
            for (_, rings) in self.rings.drain(..) {
                std::mem::forget(rings);
            }
            self.session.take_lost().into_iter().for_each(std::mem::forget);
        }
    }
}
