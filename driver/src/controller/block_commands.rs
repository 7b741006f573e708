//! Writes, zeroing and flushes of a namespace, carried out on the controller's thread.

use crate::bus::BusMemory;
use crate::error::StorageError;
use crate::spec::{Status, StatusCode};
use crate::storage::BlockWriter;

use super::transfer::{Transfer, Work};

/// Bytes that one write of zeros stores.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A failure: the status, and the reason in words if there is one.
pub(super) type Failure = (Status, Option<String>);

fn reported(error: StorageError) -> Failure {
    (Status::new(error.code, false), Some(error.to_string()))
}

/// Stores the bytes that a write command names.
fn write(writer: &dyn BlockWriter, bus: &dyn BusMemory, transfer: &Transfer) -> Result<(), Failure> {
    let mut offset = transfer.offset_bytes;
    for segment in &transfer.segments {
        // Data that the CPU cannot read, as in device memory, is not written from.
        let unreachable = || (Status::new(StatusCode::DataTransferError, true), None);
        let memory = bus.host_memory(segment.bus_address, segment.length_bytes);
        let mut memory = memory.ok_or_else(unreachable)?;
        writer.write(offset, memory.bytes_mut()).map_err(reported)?;
        offset += segment.length_bytes;
    }
    Ok(())
}

/// Stores zeros.
fn write_zeroes(writer: &dyn BlockWriter, offset_bytes: u64, length_bytes: u64) -> Result<(), Failure> {
    let mut done = 0;
    while done < length_bytes {
        let run = (ZEROS.len() as u64).min(length_bytes - done);
        writer
            .write(offset_bytes + done, &ZEROS[..run as usize])
            .map_err(reported)?;
        done += run;
    }
    Ok(())
}

/// Carries out a command that does not read. `writer` is that of its namespace; `None`: the namespace is read-only.
pub(super) fn store(writer: Option<&dyn BlockWriter>, bus: &dyn BusMemory, work: &Work) -> Result<(), Failure> {
    match (work, writer) {
        (Work::Write(transfer), Some(writer)) => write(writer, bus, transfer),
        (Work::WriteZeroes(transfer), Some(writer)) => {
            write_zeroes(writer, transfer.offset_bytes, transfer.length_bytes)
        }
        (Work::Flush, Some(writer)) => writer.flush().map_err(reported),
        (Work::Flush, None) => Ok(()),
        (Work::Read(_) | Work::Write(_) | Work::WriteZeroes(_), _) => {
            Err((Status::new(StatusCode::ReadOnlyRange, true), None))
        }
    }
}
