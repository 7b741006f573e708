//! `Registers`: access to a controller's registers, whatever carries it.

use std::fmt;

/// The registers of one controller. Offsets are those of [`registers`](crate::spec::registers).
///
/// A register of a device that has gone reads as all ones, as on PCI Express. So an implementation whose connection
/// fails returns [`REMOVED`](crate::spec::registers::REMOVED) and drops writes.
pub trait Registers: Send + Sync + fmt::Debug {
    /// Number of bytes of the registers, doorbells included.
    fn length_bytes(&self) -> usize;

    /// Reads the 32-bit register at an offset.
    fn read32(&self, offset: usize) -> u32;

    /// Writes the 32-bit register at an offset. Everything that this thread wrote to memory before is visible to the
    /// device when it sees the value.
    fn write32(&self, offset: usize, value: u32);

    /// Reads a 64-bit register by two 32-bit reads, low half first (Base 2.0c §3.1.2).
    fn read64(&self, offset: usize) -> u64 {
        u64::from(self.read32(offset)) | u64::from(self.read32(offset + 4)) << 32
    }

    /// Writes a 64-bit register by two 32-bit writes, low half first.
    fn write64(&self, offset: usize, value: u64) {
        self.write32(offset, value as u32);
        self.write32(offset + 4, (value >> 32) as u32);
    }
}
