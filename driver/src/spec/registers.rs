//! Controller properties: the memory-mapped registers of a controller (Base 2.0c §3.1.3).

/// Offset of CAP, controller capabilities, 64 bits.
pub const CAP: usize = 0x00;
/// Offset of VS, version.
pub const VS: usize = 0x08;
/// Offset of INTMS, interrupt mask set.
pub const INTMS: usize = 0x0c;
/// Offset of INTMC, interrupt mask clear.
pub const INTMC: usize = 0x10;
/// Offset of CC, controller configuration.
pub const CC: usize = 0x14;
/// Offset of CSTS, controller status.
pub const CSTS: usize = 0x1c;
/// Offset of AQA, admin queue attributes.
pub const AQA: usize = 0x24;
/// Offset of ASQ, admin submission queue base address, 64 bits.
pub const ASQ: usize = 0x28;
/// Offset of ACQ, admin completion queue base address, 64 bits.
pub const ACQ: usize = 0x30;
/// Offset of the first doorbell.
pub const DOORBELLS: usize = 0x1000;

/// What a register of a removed device reads as.
pub const REMOVED: u32 = u32::MAX;

/// Offset of the tail doorbell of submission queue `qid`, for a stride of `4 << dstrd` bytes (Base 2.0c §3.1.3.14).
pub fn sq_doorbell(qid: u16, dstrd: u8) -> usize {
    DOORBELLS + ((2 * usize::from(qid)) << (2 + dstrd))
}

/// Offset of the head doorbell of completion queue `qid` (Base 2.0c §3.1.3.15).
pub fn cq_doorbell(qid: u16, dstrd: u8) -> usize {
    DOORBELLS + ((2 * usize::from(qid) + 1) << (2 + dstrd))
}

/// CAP, controller capabilities (Base 2.0c figure 36).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Largest number of entries of an I/O queue (MQES is zero-based, so 2 to 65,536).
    pub fn max_queue_entries(self) -> u32 {
        (self.0 & 0xffff) as u32 + 1
    }

    /// CQR: I/O queues must be physically contiguous.
    pub fn contiguous_queues_required(self) -> bool {
        self.0 >> 16 & 1 == 1
    }

    /// TO: longest time for CSTS.RDY to follow CC.EN, in units of 500 ms.
    pub fn timeout_ms(self) -> u64 {
        (self.0 >> 24 & 0xff) * 500
    }

    /// DSTRD: doorbells are `4 << dstrd` bytes apart.
    pub fn dstrd(self) -> u8 {
        (self.0 >> 32 & 0xf) as u8
    }

    /// CSS bit 0: the NVM command set is supported.
    pub fn has_nvm_command_set(self) -> bool {
        self.0 >> 37 & 1 == 1
    }

    /// MPSMIN: the smallest memory page, in bytes.
    pub fn min_page_bytes(self) -> u64 {
        4096 << (self.0 >> 48 & 0xf)
    }
}

/// CC as a driver here sets it: NVM command set, 4 KiB pages, round robin, 64-byte and 16-byte entries.
pub const CC_SETTINGS: u32 = 6 << 16 | 4 << 20;
/// CC.EN.
pub const CC_ENABLE: u32 = 1;
/// CC.SHN: shutdown notification bits.
pub const CC_SHN_MASK: u32 = 3 << 14;
/// CC.SHN = 01b: normal shutdown.
pub const CC_SHN_NORMAL: u32 = 1 << 14;

/// CSTS, controller status (Base 2.0c figure 42).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerStatus(pub u32);

impl ControllerStatus {
    /// CSTS.RDY.
    pub const READY: u32 = 1;
    /// CSTS.CFS.
    pub const FATAL: u32 = 1 << 1;
    /// CSTS.SHST = 10b.
    pub const SHUTDOWN_COMPLETE: u32 = 2 << 2;

    /// RDY: the controller takes commands.
    pub fn is_ready(self) -> bool {
        self.0 & Self::READY != 0
    }

    /// CFS: a fatal error, which only a reset ends.
    pub fn is_fatal(self) -> bool {
        self.0 & Self::FATAL != 0
    }

    /// SHST = 10b: the shutdown is complete.
    pub fn is_shut_down(self) -> bool {
        self.0 & 3 << 2 == Self::SHUTDOWN_COMPLETE
    }

    /// All ones: the device is gone.
    pub fn is_removed(self) -> bool {
        self.0 == REMOVED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_of_a_known_controller() {
        // QEMU 7.2's default: 2,048 entries, contiguous, 7.5 s, stride 4, NVM command set, 4 KiB pages.
        let cap = Capabilities(0x0040_1820_0f01_07ff);
        assert_eq!(cap.max_queue_entries(), 2048);
        assert!(cap.contiguous_queues_required());
        assert_eq!(cap.timeout_ms(), 7500);
        assert_eq!((cap.dstrd(), cap.min_page_bytes()), (0, 4096));
        assert!(cap.has_nvm_command_set());
    }

    #[test]
    fn doorbells_follow_the_stride() {
        assert_eq!((sq_doorbell(0, 0), cq_doorbell(0, 0)), (0x1000, 0x1004));
        assert_eq!((sq_doorbell(3, 0), cq_doorbell(3, 0)), (0x1018, 0x101c));
        assert_eq!((sq_doorbell(1, 2), cq_doorbell(1, 2)), (0x1020, 0x1030));
    }
}
