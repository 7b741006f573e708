//! `VirtualController`: the software controller behind registers, as hosts drive any (Base 2.0c §3.5).
//!
//! 1. A write of CC enables or disables the controller.
//! 2. A write of the admin tail doorbell runs the admin commands, on the thread that writes (`admin_commands`).
//! 3. Each I/O queue pair gets a [`Controller`] of one thread, which watches the pair's doorbells.
//!
//! Limits of this controller, each answered by the status that the specification names: a queue pair has one submission
//! and one completion queue of equal size; queues are contiguous; there are no interrupts.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::admin_commands;
use super::namespace::Namespace;
use super::virtual_state::{MAX_ENTRIES, VirtualOptions, VirtualState};
use crate::bus::BusMemory;
use crate::registers::Registers;
use crate::spec::registers::{self as reg, ControllerStatus};

/// CAP: 2,048 entries, contiguous queues, 10 s, stride of 4 bytes, NVM command set, pages of 4 KiB.
const CAPABILITIES: u64 = (MAX_ENTRIES as u64 - 1) | 1 << 16 | 20 << 24 | 1 << 37;
/// VS: 1.4.
const VERSION: u32 = 0x0001_0400;
/// Bytes of the registers: the doorbells take one page.
const REGISTER_BYTES: usize = reg::DOORBELLS + 4096;
/// The software controller with registers.
pub struct VirtualController {
    state: Mutex<VirtualState>,
}

impl fmt::Debug for VirtualController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        write!(
            f,
            "VirtualController({}, CC {:#x}, CSTS {:#x})",
            state.options.serial, state.cc, state.csts
        )
    }
}

impl VirtualController {
    /// A disabled controller of these namespaces over the memory that its host names.
    pub fn new(options: VirtualOptions, namespaces: Vec<Namespace>, bus: Arc<dyn BusMemory>) -> Self {
        Self {
            state: Mutex::new(VirtualState::new(options, namespaces, bus)),
        }
    }

    fn state(&self) -> MutexGuard<'_, VirtualState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises critical warning bits, and the event for them (Base 2.0c figure 148).
    pub fn raise_warning(&self, critical_warning: u8) {
        let mut state = self.state();
        state.critical_warning |= critical_warning;
        // Type 1, SMART; information 0: reliability, 1: temperature.
        let temperature = critical_warning & 2 != 0;
        if let Some(admin) = &mut state.admin {
            admin.raise(1 | u32::from(temperature) << 8 | 2 << 16);
        }
    }
}

/// Follows a write of CC.
fn configure(state: &mut VirtualState, cc: u32) {
    let before = std::mem::replace(&mut state.cc, cc);
    let (was_on, on) = (before & reg::CC_ENABLE != 0, cc & reg::CC_ENABLE != 0);
    if was_on && !on {
        let queues: Vec<u16> = state.pairs.keys().copied().collect();
        queues.into_iter().for_each(|qid| state.end_queue(qid));
        state.pairs.clear();
        (state.admin, state.csts) = (None, 0);
    }
    if !was_on && on {
        state.admin = state.admin_queue();
        state.csts = match state.admin {
            Some(_) => ControllerStatus::READY,
            None => ControllerStatus::FATAL,
        };
    }
    if cc & reg::CC_SHN_MASK != 0 && before & reg::CC_SHN_MASK == 0 {
        for writer in state.namespaces.iter().filter_map(|n| n.storage.writer()) {
            if let Err(e) = writer.flush() {
                log::error!("{e}"); // a shutdown has no status
            }
        }
        state.csts |= ControllerStatus::SHUTDOWN_COMPLETE;
    }
}

/// Follows a write of the doorbell with this number.
fn ring(state: &mut VirtualState, index: usize, value: u32) {
    let (qid, is_head) = ((index / 2) as u16, index % 2 == 1);
    let Some(admin) = &mut state.admin else { return };
    let (entries, doorbells) = match (qid, state.pairs.get(&qid)) {
        (0, _) => (admin.entries(), admin.doorbells().clone()),
        (_, Some(pair)) if is_head || pair.controller.is_some() => (pair.entries, pair.doorbells.clone()),
        _ => return admin.raise(1 << 16), // error, invalid doorbell register
    };
    if value >= entries {
        return admin.raise(1 << 16 | 1 << 8); // error, invalid doorbell value
    }
    // The release pairs with the controller's acquire of the doorbell (`QueueRings`).
    doorbells.words[usize::from(is_head)].store(value, Ordering::Release);
    if qid == 0 {
        admin_commands::run(state);
    } else if let Some(controller) = state.pairs.get(&qid).and_then(|pair| pair.controller.as_ref()) {
        controller.wake();
    }
}

impl Registers for VirtualController {
    fn length_bytes(&self) -> usize {
        REGISTER_BYTES
    }

    fn read32(&self, offset: usize) -> u32 {
        let state = self.state();
        match offset {
            reg::CAP => CAPABILITIES as u32,
            0x04 => (CAPABILITIES >> 32) as u32,
            reg::VS => VERSION,
            reg::CC => state.cc,
            reg::CSTS => state.csts,
            reg::AQA => state.aqa,
            reg::ASQ => state.asq as u32,
            0x2c => (state.asq >> 32) as u32,
            reg::ACQ => state.acq as u32,
            0x34 => (state.acq >> 32) as u32,
            _ => 0,
        }
    }

    fn write32(&self, offset: usize, value: u32) {
        let low = |old: u64| old & !0xffff_ffff | u64::from(value);
        let high = |old: u64| old & 0xffff_ffff | u64::from(value) << 32;
        let mut state = self.state();
        match offset {
            reg::CC => configure(&mut state, value),
            reg::AQA => state.aqa = value,
            reg::ASQ => state.asq = low(state.asq),
            0x2c => state.asq = high(state.asq),
            reg::ACQ => state.acq = low(state.acq),
            0x34 => state.acq = high(state.acq),
            reg::DOORBELLS..REGISTER_BYTES if offset.is_multiple_of(4) => {
                ring(&mut state, (offset - reg::DOORBELLS) / 4, value);
            }
            _ => {}
        }
    }
}
