//! Enabling and disabling of a controller: CC, CSTS and the admin queue (Base 2.0c §3.5.1).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::data_pointer::DataPointers;
use super::device_options::DeviceOptions;
use super::dma::{DmaBuffer, DmaPool};
use super::queue_pair::{Limits, QueuePair, QueueParts};
use super::session::Session;
use crate::error::DriverError;
use crate::registers::Registers;
use crate::spec::registers::{self as reg, Capabilities, ControllerStatus};
use crate::spec::{COMPLETION_ENTRY_BYTES, PAGE_BYTES, SUBMISSION_ENTRY_BYTES};

/// Entries of the admin queues.
const ADMIN_ENTRIES: u32 = 32;
/// Sleep between looks at CSTS.
const STATUS_PAUSE: Duration = Duration::from_micros(200);

/// Longest wait for a command. A controller that reports no bound is given a second.
pub(super) fn command_timeout(capabilities: Capabilities, options: DeviceOptions) -> Duration {
    let reported = Duration::from_millis(capabilities.timeout_ms().max(1000));
    options.command_timeout.unwrap_or(reported)
}

pub(super) fn await_status(
    registers: &dyn Registers,
    wanted: &'static str,
    limit: Duration,
    reached: impl Fn(ControllerStatus) -> bool,
) -> Result<(), DriverError> {
    let began = Instant::now();
    loop {
        let late = began.elapsed() >= limit;
        let status = ControllerStatus(registers.read32(reg::CSTS));
        if status.is_removed() {
            return Err(DriverError::Removed);
        }
        if reached(status) {
            return Ok(());
        }
        let csts = status.0;
        // A failed controller is disabled like any other, but becomes neither ready nor shut down.
        if status.is_fatal() && wanted != "disabled" {
            let during = format!("while it should become {wanted}");
            return Err(DriverError::Fatal { csts, during });
        }
        if late {
            let waited = limit;
            return Err(DriverError::Stuck { wanted, waited, csts });
        }
        std::thread::sleep(STATUS_PAUSE);
    }
}

fn ready_timeout(capabilities: Capabilities) -> Duration {
    Duration::from_millis(capabilities.timeout_ms().max(500))
}

pub(super) fn disable(registers: &dyn Registers, capabilities: Capabilities) -> Result<(), DriverError> {
    let cc = registers.read32(reg::CC);
    let status = ControllerStatus(registers.read32(reg::CSTS));
    // A controller that is still becoming ready must get there before EN is cleared (Base 2.0c §3.1.3.5).
    if cc != reg::REMOVED && cc & reg::CC_ENABLE != 0 && !status.is_ready() && !status.is_fatal() {
        let limit = ready_timeout(capabilities);
        // A controller that never becomes ready is disabled all the same.
        let _ = await_status(registers, "ready", limit, |status| {
            status.is_ready() || status.is_shut_down()
        });
    }
    registers.write32(reg::CC, cc & !(reg::CC_ENABLE | reg::CC_SHN_MASK));
    await_status(registers, "disabled", ready_timeout(capabilities), |status| {
        !status.is_ready()
    })
}

/// The admin queue, its rings, and the session that begins.
type Enabled = (QueuePair, [DmaBuffer; 2], Arc<Session>);

pub(super) fn enable(
    registers: &Arc<dyn Registers>,
    pool: &Arc<DmaPool>,
    capabilities: Capabilities,
    options: DeviceOptions,
) -> Result<Enabled, DriverError> {
    let sq = pool.allocate_contiguous(ADMIN_ENTRIES as usize * SUBMISSION_ENTRY_BYTES)?;
    let cq = pool.allocate_contiguous(ADMIN_ENTRIES as usize * COMPLETION_ENTRY_BYTES)?;
    registers.write32(reg::AQA, (ADMIN_ENTRIES - 1) << 16 | (ADMIN_ENTRIES - 1));
    registers.write64(reg::ASQ, sq.bus_address(0));
    registers.write64(reg::ACQ, cq.bus_address(0));
    registers.write32(reg::CC, reg::CC_SETTINGS | reg::CC_ENABLE);
    let limit = ready_timeout(capabilities);
    let became = await_status(&**registers, "ready", limit, |status| {
        status.is_ready() && !status.is_fatal()
    });
    if let Err(e) = became {
        // It may become ready later and write to the rings: they are given up unless it is disabled again.
        if disable(&**registers, capabilities).is_err() {
            std::mem::forget((sq, cq));
        }
        return Err(e);
    }
    let session = Arc::new(Session::new());
    let admin = QueuePair::new(QueueParts {
        qid: 0,
        depth: ADMIN_ENTRIES,
        sq: sq.clone(),
        cq: cq.clone(),
        sq_doorbell: reg::sq_doorbell(0, capabilities.dstrd()),
        cq_doorbell: reg::cq_doorbell(0, capabilities.dstrd()),
        registers: registers.clone(),
        pool: pool.clone(),
        session: session.clone(),
        limits: Limits {
            max_transfer_bytes: PAGE_BYTES,
            pointers: DataPointers::Prp,
            timeout: command_timeout(capabilities, options),
        },
    });
    Ok((admin, [sq, cq], session))
}
