//! `Transfer`: a submission entry as the reads that answer it, or the status that rejects it.

use crate::bus::BusMemory;
use crate::error::PrpError;
use crate::spec::{Opcode, PAGE_BYTES, PrpSegment, Status, StatusCode, SubmissionEntry, prp_segments};
use crate::storage::BLOCK_BYTES;

/// PSDT 01b: SGL data block in the place of the PRPs (Base 2.0c §4.1.2).
const PSDT_SGL: u8 = 1;

/// A read for a storage.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// Position in the namespace.
    pub(crate) offset_bytes: u64,
    /// Where the data goes, in order.
    pub(crate) segments: Vec<PrpSegment>,
}

/// Decodes a command; `Ok(None)`: no data to move. `size_bytes` is the size of its namespace; `None`: no such
/// namespace.
pub(crate) fn decode(
    entry: &SubmissionEntry,
    size_bytes: Option<u64>,
    bus: &dyn BusMemory,
) -> Result<Option<Transfer>, Status> {
    let refuse = |code| Status::new(code, true);
    match Opcode::from_u8(entry.opc) {
        Some(Opcode::Read) => {}
        Some(Opcode::Flush) => return Ok(None),
        Some(Opcode::Write | Opcode::WriteZeroes) | None => return Err(refuse(StatusCode::InvalidOpcode)),
    }
    if entry.fuse() != 0 {
        return Err(refuse(StatusCode::InvalidField));
    }
    let size_bytes = size_bytes.ok_or(refuse(StatusCode::InvalidNamespace))?;
    let length = u64::from(entry.blocks()) * BLOCK_BYTES;
    let end = entry
        .slba
        .checked_mul(BLOCK_BYTES)
        .and_then(|start| start.checked_add(length));
    if end.is_none_or(|end| end > size_bytes) {
        return Err(refuse(StatusCode::LbaOutOfRange));
    }
    let segments = match entry.psdt() {
        0 => prp_segments(entry.prp1, entry.prp2, length, |list, n| bus.prp_list(list, n)).map_err(|e| match e {
            PrpError::Unaligned(_) | PrpError::Offset(_) => refuse(StatusCode::InvalidPrpOffset),
            PrpError::List(_) => refuse(StatusCode::DataTransferError),
        })?,
        // The descriptor type, in the top byte of the second word, is 0: data block. Its length has 32 bits.
        PSDT_SGL if entry.prp2 >> 56 == 0 && (entry.prp2 & 0xffff_ffff) >= length => {
            vec![PrpSegment {
                bus_address: entry.prp1,
                length_bytes: length,
            }]
        }
        _ => return Err(refuse(StatusCode::InvalidField)),
    };
    Ok(Some(Transfer {
        offset_bytes: entry.slba * BLOCK_BYTES,
        segments,
    }))
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

    fn code(entry: &SubmissionEntry, size: Option<u64>) -> u16 {
        decode(entry, size, &NoMemory).unwrap_err().0 & 0x7ff
    }

    #[test]
    fn bad_commands_are_rejected_with_the_status_the_specification_names() {
        let good = SubmissionEntry::read(1, 1, 8, 8, 0x1000, 0);
        assert!(decode(&good, Some(8192), &NoMemory).is_ok());
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
        let transfer = decode(&entry, Some(1 << 20), &NoMemory).unwrap().unwrap();
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
