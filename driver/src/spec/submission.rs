//! `SubmissionEntry`: a submission queue entry, 64 bytes, and the form of an NVM read.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// NVM command set opcodes that a controller here answers (NVM Command Set 1.0c §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// 00h: makes earlier writes durable. A read-only storage has nothing to do.
    Flush = 0x00,
    /// 02h: read logical blocks.
    Read = 0x02,
}

impl Opcode {
    /// The opcode with this number, if it is a known one.
    pub fn from_u8(value: u8) -> Option<Self> {
        match value {
            0x00 => Some(Self::Flush),
            0x02 => Some(Self::Read),
            _ => None,
        }
    }
}

/// A submission queue entry (Base 2.0c, figure 88, and NVM Command Set 1.0c §3.2.4 for read).
///
/// ```text
/// dword 0      opcode | fuse, psdt << 8 | cid << 16
/// dword 1      nsid
/// dword 2–3    reserved (cdw2, cdw3)
/// dword 4–5    metadata pointer
/// dword 6–7    PRP1        dword 8–9    PRP2 (second page, or the PRP list)
/// dword 10–11  starting LBA
/// dword 12     number of logical blocks, zero-based, in bits 15:0
/// dword 13–15  unused by read here
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct SubmissionEntry {
    /// Opcode.
    pub opc: u8,
    /// FUSE in bits 1:0, PSDT in bits 7:6. Both 0: no fused operation, PRPs.
    pub flags: u8,
    /// Command id, unique among the queue's outstanding commands.
    pub cid: u16,
    /// Namespace id.
    pub nsid: u32,
    /// Command dword 2.
    pub cdw2: u32,
    /// Command dword 3.
    pub cdw3: u32,
    /// Metadata pointer.
    pub mptr: u64,
    /// First physical region page entry: a bus address.
    pub prp1: u64,
    /// Second page, or the address of the PRP list.
    pub prp2: u64,
    /// Starting LBA, low half first (dwords 10 and 11).
    pub slba: u64,
    /// Dword 12: NLB, zero-based, in bits 15:0; FUA, LR and others above.
    pub cdw12: u32,
    /// Command dword 13.
    pub cdw13: u32,
    /// Command dword 14.
    pub cdw14: u32,
    /// Command dword 15.
    pub cdw15: u32,
}

impl SubmissionEntry {
    /// A read of `blocks` logical blocks (1–65,536) from `slba` of namespace `nsid`.
    ///
    /// # Panics
    /// If `blocks` is 0 or over 65,536: the field is zero-based and 16 bits wide.
    pub fn read(cid: u16, nsid: u32, slba: u64, blocks: u32, prp1: u64, prp2: u64) -> Self {
        assert!(
            (1..=65_536).contains(&blocks),
            "a read takes 1 to 65,536 logical blocks, not {blocks}"
        );
        Self {
            opc: Opcode::Read as u8,
            cid,
            nsid,
            prp1,
            prp2,
            slba,
            cdw12: blocks - 1,
            ..Self::default()
        }
    }

    /// Number of logical blocks (NLB + 1).
    pub fn blocks(&self) -> u32 {
        (self.cdw12 & 0xffff) + 1
    }

    /// PSDT, bits 7:6 of the flags: 0 means PRPs.
    pub fn psdt(&self) -> u8 {
        self.flags >> 6
    }

    /// FUSE, bits 1:0 of the flags.
    pub fn fuse(&self) -> u8 {
        self.flags & 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_entry_lies_where_the_specification_says() {
        let entry = SubmissionEntry::read(0x1234, 1, 0x0102_0304_0506_0708, 8, 0x1000, 0x2000);
        let bytes = entry.as_bytes();
        assert_eq!(bytes[0], 0x02);
        assert_eq!(bytes[2..4], [0x34, 0x12]);
        assert_eq!(bytes[4..8], [1, 0, 0, 0]);
        assert_eq!(bytes[24..32], 0x1000u64.to_le_bytes());
        assert_eq!(bytes[32..40], 0x2000u64.to_le_bytes());
        assert_eq!(bytes[40..48], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[48..52], [7, 0, 0, 0]);
        assert_eq!(entry.blocks(), 8);
    }
}
