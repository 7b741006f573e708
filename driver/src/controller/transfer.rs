//! `Work`: a submission entry as the reads or writes that answer it, or the status that rejects it.

use crate::bus::BusMemory;
use crate::error::PrpError;
use crate::spec::{Opcode, PAGE_BYTES, PrpSegment, Status, StatusCode, SubmissionEntry, prp_segments, sgl_segments};

/// PSDT 01b: an SGL descriptor in the place of the PRPs (Base 2.0c §4.1.2).
const PSDT_SGL: u8 = 1;

/// Data between a storage and memory.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// Position in the namespace.
    pub(crate) offset_bytes: u64,
    /// Length in bytes.
    pub(crate) length_bytes: u64,
    /// The memory, in order.
    pub(crate) segments: Vec<PrpSegment>,
}

/// A command's work.
#[derive(Debug)]
pub(crate) enum Work {
    /// From the storage to memory.
    Read(Transfer),
    /// From memory to the storage.
    Write(Transfer),
    /// Zeros to the storage; the transfer has no memory.
    WriteZeroes(Transfer),
    /// Make writes durable.
    Flush,
}

/// A namespace, as commands are checked against it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) size_bytes: u64,
    pub(crate) lba_log2: u8,
    /// Longest transfer of a command.
    pub(crate) max_bytes: u64,
}

/// Decodes a command. `extent` is that of its namespace; `None`: no such namespace.
pub(crate) fn decode(entry: &SubmissionEntry, extent: Option<Extent>, bus: &dyn BusMemory) -> Result<Work, Status> {
    let refuse = |code| Status::new(code, true);
    let opcode = Opcode::from_u8(entry.opc).ok_or(refuse(StatusCode::InvalidOpcode))?;
    if entry.fuse() != 0 {
        return Err(refuse(StatusCode::InvalidField));
    }
    let extent = extent.ok_or(refuse(StatusCode::InvalidNamespace))?;
    if opcode == Opcode::Flush {
        return Ok(Work::Flush);
    }
    let length = u64::from(entry.blocks()) << extent.lba_log2;
    // MDTS does not limit commands without data.
    if opcode != Opcode::WriteZeroes && length > extent.max_bytes {
        return Err(refuse(StatusCode::InvalidField));
    }
    let start = entry.slba.checked_mul(1 << extent.lba_log2);
    let end = start.and_then(|start| start.checked_add(length));
    if end.is_none_or(|end| end > extent.size_bytes) {
        return Err(refuse(StatusCode::LbaOutOfRange));
    }
    let list = |at, words| bus.prp_list(at, words);
    let segments = match (opcode, entry.psdt()) {
        (Opcode::WriteZeroes, _) => Vec::new(),
        (_, 0) => prp_segments(entry.prp1, entry.prp2, length, list).map_err(|e| match e {
            PrpError::Unaligned(_) | PrpError::Offset(_) => refuse(StatusCode::InvalidPrpOffset),
            PrpError::List(_) => refuse(StatusCode::DataTransferError),
        })?,
        (_, PSDT_SGL) => sgl_segments((entry.prp1, entry.prp2), length, list).map_err(refuse)?,
        _ => return Err(refuse(StatusCode::InvalidField)),
    };
    let transfer = Transfer {
        offset_bytes: entry.slba << extent.lba_log2,
        length_bytes: length,
        segments,
    };
    Ok(match opcode {
        Opcode::Write => Work::Write(transfer),
        Opcode::WriteZeroes => Work::WriteZeroes(transfer),
        _ => Work::Read(transfer),
    })
}

/// Cuts a segment at page borders into pieces of at most `limit` bytes, so that each fits a staging buffer.
pub(crate) fn pieces(segment: PrpSegment, limit: u64) -> impl Iterator<Item = PrpSegment> {
    let limit = (limit / PAGE_BYTES * PAGE_BYTES).max(PAGE_BYTES);
    (0..segment.length_bytes.div_ceil(limit)).map(move |i| PrpSegment {
        bus_address: segment.bus_address + i * limit,
        length_bytes: limit.min(segment.length_bytes - i * limit),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::Uploader;
    use crate::raw::HostMemory;

    struct NoMemory;

    impl BusMemory for NoMemory {
        fn host_memory(&self, _: u64, _: u64) -> Option<HostMemory> {
            None
        }
        fn prp_list(&self, _: u64, _: usize) -> Option<Vec<u64>> {
            None
        }
        fn uploader(&self) -> Result<Option<Box<dyn Uploader>>, String> {
            Ok(None)
        }
    }

    fn extent(size_bytes: u64) -> Option<Extent> {
        Some(Extent {
            size_bytes,
            lba_log2: 9,
            max_bytes: 1 << 20,
        })
    }

    fn code(entry: &SubmissionEntry, size: Option<u64>) -> u16 {
        decode(entry, size.and_then(extent), &NoMemory).unwrap_err().0 & 0x7ff
    }

    #[test]
    fn bad_commands_are_rejected_with_the_status_the_specification_names() {
        let good = SubmissionEntry::read(1, 1, 8, 8, 0x1000, 0);
        assert!(matches!(decode(&good, extent(8192), &NoMemory), Ok(Work::Read(_))));
        let long = SubmissionEntry { cdw12: 2048, ..good };
        assert_eq!(
            code(&long, Some(4 << 20)),
            StatusCode::InvalidField as u16,
            "over the limit"
        );
        assert_eq!(code(&good, None), StatusCode::InvalidNamespace as u16);
        assert_eq!(code(&good, Some(4096)), StatusCode::LbaOutOfRange as u16);
        let far = SubmissionEntry {
            slba: u64::MAX / 256,
            ..good
        };
        assert_eq!(code(&far, Some(8192)), StatusCode::LbaOutOfRange as u16);
        assert_eq!(
            code(&SubmissionEntry { opc: 0x7f, ..good }, Some(8192)),
            StatusCode::InvalidOpcode as u16
        );
        assert_eq!(
            code(&SubmissionEntry { prp1: 0x1001, ..good }, Some(8192)),
            StatusCode::InvalidPrpOffset as u16
        );
        let long = SubmissionEntry::read(1, 1, 0, 32, 0x1000, 0x3000);
        assert_eq!(
            code(&long, Some(1 << 20)),
            StatusCode::DataTransferError as u16,
            "its list cannot be read"
        );
        assert_eq!(
            code(&SubmissionEntry { flags: 0x80, ..good }, Some(8192)),
            StatusCode::InvalidField as u16
        );
    }

    #[test]
    fn sgl_data_block_is_one_segment() {
        let entry = SubmissionEntry {
            flags: 0x40,
            prp2: 1 << 20,
            ..SubmissionEntry::read(1, 1, 0, 2048, 0x7000, 0)
        };
        let Ok(Work::Read(transfer)) = decode(&entry, extent(1 << 20), &NoMemory) else {
            panic!("a read");
        };
        assert_eq!(
            transfer.segments,
            [PrpSegment {
                bus_address: 0x7000,
                length_bytes: 1 << 20
            }]
        );
        let cut: Vec<_> = pieces(transfer.segments[0], 300_000).map(|p| p.length_bytes).collect();
        assert_eq!(cut, [299_008, 299_008, 299_008, 151_552]);
    }
}
