//! `SubmissionEntry`: a submission queue entry, 64 bytes, and the form of an NVM read.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! opcodes {
    ($(#[$outer:meta])* $type:ident; $($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $type { $($(#[$doc])* $name = $value,)* }

        impl $type {
            /// The opcode with this number, if it is a known one.
            pub fn from_u8(value: u8) -> Option<Self> {
                match value {
                    $($value => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The command's name in errors.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

opcodes! {
    /// NVM command set opcodes that a controller here answers (NVM Command Set 1.0c §3.2).
    Opcode;
    /// 00h: makes earlier writes durable.
    Flush = 0x00, "flush";
    /// 01h: write logical blocks.
    Write = 0x01, "write";
    /// 02h: read logical blocks.
    Read = 0x02, "read";
    /// 08h: set logical blocks to zero.
    WriteZeroes = 0x08, "write zeroes";
}

opcodes! {
    /// Admin command opcodes (Base 2.0c §5).
    AdminOpcode;
    /// 00h: deletes an I/O submission queue.
    DeleteSq = 0x00, "delete I/O submission queue";
    /// 01h: creates an I/O submission queue.
    CreateSq = 0x01, "create I/O submission queue";
    /// 02h: reads a log page.
    GetLogPage = 0x02, "get log page";
    /// 04h: deletes an I/O completion queue.
    DeleteCq = 0x04, "delete I/O completion queue";
    /// 05h: creates an I/O completion queue.
    CreateCq = 0x05, "create I/O completion queue";
    /// 06h: describes the controller or a namespace.
    Identify = 0x06, "identify";
    /// 08h: aborts a command.
    Abort = 0x08, "abort";
    /// 09h: changes a feature.
    SetFeatures = 0x09, "set features";
    /// 0Ah: reads a feature.
    GetFeatures = 0x0a, "get features";
    /// 0Ch: waits for an event.
    AsyncEventRequest = 0x0c, "asynchronous event request";
}

/// Feature identifiers (Base 2.0c figure 317).
pub mod feature {
    /// 07h: number of I/O queues.
    pub const NUMBER_OF_QUEUES: u8 = 7;
    /// 0Bh: asynchronous event configuration.
    pub const ASYNC_EVENT_CONFIGURATION: u8 = 0x0b;
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

    /// A command of the NVM command set over `blocks` logical blocks (1–65,536) from `slba` of namespace `nsid`; its
    /// data pointer and command id are left at 0. A flush takes no blocks.
    ///
    /// # Panics
    /// If `blocks` is over 65,536.
    pub fn io(opcode: Opcode, nsid: u32, slba: u64, blocks: u32) -> Self {
        assert!(
            blocks <= 65_536,
            "a command takes at most 65,536 logical blocks, not {blocks}"
        );
        Self {
            opc: opcode as u8,
            nsid,
            slba,
            cdw12: blocks.saturating_sub(1),
            ..Self::default()
        }
    }

    /// An admin command; dwords 10 and 11 are `cdw10` and `cdw11`.
    pub fn admin(opcode: AdminOpcode, nsid: u32, cdw10: u32, cdw11: u32) -> Self {
        Self {
            opc: opcode as u8,
            nsid,
            slba: u64::from(cdw10) | u64::from(cdw11) << 32,
            ..Self::default()
        }
    }

    /// Command dword 10.
    pub fn cdw10(&self) -> u32 {
        self.slba as u32
    }

    /// Command dword 11.
    pub fn cdw11(&self) -> u32 {
        (self.slba >> 32) as u32
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
