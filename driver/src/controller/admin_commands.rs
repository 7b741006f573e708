//! Admin commands of the virtual controller (Base 2.0c §5).

use std::sync::Arc;

use super::admin_queue::MAX_EVENT_REQUESTS;
use super::virtual_state::{MAX_ENTRIES, Pair, VirtualState};
use crate::raw::Doorbells;
use crate::spec::{
    AdminOpcode, Cns, IDENTIFY_BYTES, LogPage, SMART_LOG_BYTES, Status, StatusCode, SubmissionEntry, feature,
    prp_segments,
};

/// Formats that a namespace reports: blocks of 512 and of 4,096 bytes.
const LBA_LOG2: [u8; 2] = [9, 12];

/// Runs the commands that the admin doorbell announces.
pub(super) fn run(state: &mut VirtualState) {
    loop {
        let Some(admin) = &mut state.admin else { return };
        admin.post_again();
        let Some(entry) = admin.take() else { return };
        let outcome = match AdminOpcode::from_u8(entry.opc) {
            Some(AdminOpcode::AsyncEventRequest) if admin.request(entry.cid) => continue,
            Some(AdminOpcode::AsyncEventRequest) => Err(StatusCode::AsyncEventLimitExceeded),
            Some(opcode) => answer(state, opcode, &entry),
            None => Err(StatusCode::InvalidOpcode),
        };
        let Some(admin) = &mut state.admin else { return };
        match outcome {
            Ok(dw0) => admin.post(entry.cid, Status::SUCCESS, dw0),
            Err(code) => admin.post(entry.cid, Status::new(code, true), 0),
        }
    }
}

/// Runs a command; returns dword 0 of its completion.
fn answer(state: &mut VirtualState, opcode: AdminOpcode, entry: &SubmissionEntry) -> Result<u32, StatusCode> {
    let qid = entry.cdw10() as u16;
    match opcode {
        AdminOpcode::Identify => identify(state, entry).map(|()| 0),
        AdminOpcode::GetLogPage => log_page(state, entry).map(|()| 0),
        AdminOpcode::SetFeatures | AdminOpcode::GetFeatures => features(state, opcode, entry),
        AdminOpcode::CreateCq => create_cq(state, entry).map(|()| 0),
        AdminOpcode::CreateSq => create_sq(state, entry).map(|()| 0),
        AdminOpcode::DeleteSq => match state.pairs.get(&qid) {
            Some(pair) if pair.controller.is_some() => {
                state.end_queue(qid);
                Ok(0)
            }
            _ => Err(StatusCode::InvalidQueueIdentifier),
        },
        AdminOpcode::DeleteCq => match state.pairs.get(&qid) {
            None => Err(StatusCode::InvalidQueueIdentifier),
            Some(pair) if pair.controller.is_some() => Err(StatusCode::InvalidQueueDeletion),
            Some(_) => {
                state.pairs.remove(&qid);
                Ok(0)
            }
        },
        // Dword 0, bit 0: the command was not aborted.
        AdminOpcode::Abort => Ok(1),
        AdminOpcode::AsyncEventRequest => Err(StatusCode::InternalError),
    }
}

/// Copies the answer of a command to the memory that its PRPs name.
fn send(state: &VirtualState, entry: &SubmissionEntry, data: &[u8]) -> Result<(), StatusCode> {
    if entry.psdt() != 0 {
        return Err(StatusCode::InvalidField);
    }
    let list = |at, entries| state.bus.prp_list(at, entries);
    let segments = prp_segments(entry.prp1, entry.prp2, data.len() as u64, list);
    let mut done = 0;
    for segment in segments.map_err(|_| StatusCode::InvalidPrpOffset)? {
        let length = segment.length_bytes as usize;
        let memory = state.bus.host_memory(segment.bus_address, segment.length_bytes);
        let mut memory = memory.ok_or(StatusCode::DataTransferError)?;
        memory.bytes_mut().copy_from_slice(&data[done..done + length]);
        done += length;
    }
    Ok(())
}

fn put(data: &mut [u8], at: usize, bytes: &[u8]) {
    data[at..at + bytes.len()].copy_from_slice(bytes);
}

fn identify(state: &VirtualState, entry: &SubmissionEntry) -> Result<(), StatusCode> {
    let mut data = [0; IDENTIFY_BYTES];
    let cns = entry.cdw10() as u8;
    if cns == Cns::Controller as u8 {
        data[4..72].fill(b' ');
        let serial = state.options.serial.as_bytes();
        put(&mut data, 4, &serial[..serial.len().min(20)]);
        put(&mut data, 24, b"Grampus software controller");
        put(&mut data, 64, env!("CARGO_PKG_VERSION").as_bytes());
        data[77] = state.options.mdts;
        data[78] = 1; // CNTLID
        put(&mut data, 80, &0x0001_0400u32.to_le_bytes());
        data[259] = (MAX_EVENT_REQUESTS - 1) as u8;
        put(&mut data, 512, &[0x66, 0x44]); // SQES, CQES
        let highest = state.namespaces.iter().map(|n| n.nsid).max().unwrap_or(0);
        put(&mut data, 516, &highest.to_le_bytes());
        put(&mut data, 520, &(1u16 << 3).to_le_bytes()); // ONCS: write zeroes
        data[525] = 1; // VWC: writes need a flush
        put(&mut data, 536, &1u32.to_le_bytes()); // SGLS: without alignment
    } else if cns == Cns::Namespace as u8 {
        let namespace = state.namespaces.iter().find(|n| n.nsid == entry.nsid);
        let namespace = namespace.ok_or(StatusCode::InvalidNamespace)?;
        let blocks = (namespace.storage.size_bytes() >> namespace.lba_log2).to_le_bytes();
        [0, 8, 16].into_iter().for_each(|at| put(&mut data, at, &blocks));
        data[25] = LBA_LOG2.len() as u8 - 1;
        data[26] = LBA_LOG2
            .iter()
            .position(|log2| *log2 == namespace.lba_log2)
            .unwrap_or(0) as u8;
        for (i, log2) in LBA_LOG2.iter().enumerate() {
            data[128 + 4 * i + 2] = *log2;
        }
    } else if cns == Cns::ActiveNamespaces as u8 {
        let mut active: Vec<u32> = state.namespaces.iter().map(|n| n.nsid).collect();
        active.sort_unstable();
        active.retain(|nsid| *nsid > entry.nsid);
        for (word, nsid) in data.chunks_exact_mut(4).zip(active) {
            word.copy_from_slice(&nsid.to_le_bytes());
        }
    } else {
        return Err(StatusCode::InvalidField);
    }
    send(state, entry, &data)
}

fn log_page(state: &mut VirtualState, entry: &SubmissionEntry) -> Result<(), StatusCode> {
    let page = entry.cdw10() as u8;
    let dwords = (entry.cdw10() >> 16) as usize + 1;
    let (mut data, kind) = match page {
        page if page == LogPage::Error as u8 => (vec![0; 64], 0),
        page if page == LogPage::Smart as u8 => (smart_log(state), 1),
        _ => return Err(StatusCode::InvalidLogPage),
    };
    data.resize(dwords * 4, 0);
    send(state, entry, &data)?;
    let keeps_event = entry.cdw10() >> 15 & 1 == 1; // RAE
    if let Some(admin) = state.admin.as_mut().filter(|_| !keeps_event) {
        admin.unmask(kind);
    }
    Ok(())
}

fn smart_log(state: &VirtualState) -> Vec<u8> {
    let counters = state.counters();
    let mut data = vec![0; SMART_LOG_BYTES];
    data[0] = state.critical_warning;
    put(&mut data, 1, &300u16.to_le_bytes()); // kelvins
    data[3] = 100; // available spare
    // Thousands of 512 bytes, rounded up.
    let units = |bytes: u64| bytes.div_ceil(512_000).to_le_bytes();
    put(&mut data, 32, &units(counters.bytes_read));
    put(&mut data, 48, &units(counters.bytes_written));
    put(&mut data, 64, &counters.reads.to_le_bytes());
    put(&mut data, 80, &counters.writes.to_le_bytes());
    data
}

fn features(state: &VirtualState, opcode: AdminOpcode, entry: &SubmissionEntry) -> Result<u32, StatusCode> {
    match entry.cdw10() as u8 {
        feature::NUMBER_OF_QUEUES => {
            if opcode == AdminOpcode::SetFeatures && !state.pairs.is_empty() {
                return Err(StatusCode::CommandSequenceError);
            }
            let granted = u32::from(state.options.queues.clamp(1, 500)) - 1;
            Ok(granted << 16 | granted)
        }
        feature::ASYNC_EVENT_CONFIGURATION => Ok(0xff),
        _ => Err(StatusCode::InvalidField),
    }
}

fn create_cq(state: &mut VirtualState, entry: &SubmissionEntry) -> Result<(), StatusCode> {
    let (qid, entries) = (entry.cdw10() as u16, (entry.cdw10() >> 16) + 1);
    if !(1..=state.options.queues.clamp(1, 500)).contains(&qid) || state.pairs.contains_key(&qid) {
        return Err(StatusCode::InvalidQueueIdentifier);
    }
    if !(2..=MAX_ENTRIES).contains(&entries) {
        return Err(StatusCode::InvalidQueueSize);
    }
    // Contiguous, and without interrupts.
    if entry.cdw11() & 3 != 1 {
        return Err(StatusCode::InvalidField);
    }
    let pair = Pair {
        cq_bus: entry.prp1,
        entries,
        doorbells: Arc::new(Doorbells::default()),
        controller: None,
    };
    state.pairs.insert(qid, pair);
    Ok(())
}

fn create_sq(state: &mut VirtualState, entry: &SubmissionEntry) -> Result<(), StatusCode> {
    let (qid, entries) = (entry.cdw10() as u16, (entry.cdw10() >> 16) + 1);
    let cqid = (entry.cdw11() >> 16) as u16;
    let pair = state.pairs.get(&cqid).ok_or(StatusCode::CompletionQueueInvalid)?;
    if qid != cqid || pair.controller.is_some() {
        return Err(StatusCode::InvalidQueueIdentifier);
    }
    if entries != pair.entries {
        return Err(StatusCode::InvalidQueueSize);
    }
    if entry.cdw11() & 1 != 1 {
        return Err(StatusCode::InvalidField);
    }
    state.start_queue(qid, entry.prp1)
}
