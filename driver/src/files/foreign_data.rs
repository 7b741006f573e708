//! [`Finding`]: what lies where partition tables, file systems and our directory have their signatures.

use super::block_channel::BlockChannel;
use super::layout::HEADER_MAGIC;
use crate::error::DriverError;

/// Bytes at each end of a namespace that are searched: those with all signatures below.
pub(super) const SEARCHED_BYTES: u64 = 1 << 20;

/// Bytes that name what a namespace holds, at a position from the start.
const SIGNATURES: [(u64, &[u8], &str); 16] = [
    (512, b"EFI PART", "a partition table (GPT)"),
    (4096, b"EFI PART", "a partition table (GPT)"),
    (0, b"XFSB", "a file system (XFS)"),
    (1080, &[0x53, 0xef], "a file system (ext2, ext3 or ext4)"),
    (65_600, b"_BHRfS_M", "a file system (btrfs)"),
    (1024, &[0x10, 0x20, 0xf5, 0xf2], "a file system (F2FS)"),
    (3, b"NTFS    ", "a file system (NTFS)"),
    (3, b"EXFAT   ", "a file system (exFAT)"),
    (82, b"FAT32   ", "a file system (FAT)"),
    (4086, b"SWAPSPACE2", "swap space"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (512, b"LABELONE", "a physical volume of LVM"),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a software RAID (md)"),
    (0, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a software RAID (md)"),
    (4096, b"BlueFS", "a device of Ceph"),
    (510, &[0x55, 0xaa], "a partition table or a boot sector"),
];

/// Data that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// What it is, if its signature is known.
    pub(super) signature: Option<&'static str>,
    /// The first block with a byte that is not zero.
    pub(super) lba: u64,
}

impl Finding {
    /// Searches both ends of the namespace; `None`: all bytes there are zero.
    pub(super) fn search(channel: &mut BlockChannel) -> Result<Option<Self>, DriverError> {
        let block_bytes = channel.namespace().block_bytes();
        let length = channel.namespace().blocks * block_bytes;
        let searched = SEARCHED_BYTES.min(length);
        let mut bytes = vec![0; searched as usize];
        let mut first = None;
        for start in [0, length - searched] {
            channel.read_at(start, &mut bytes)?;
            let known = match start {
                0 if bytes.starts_with(HEADER_MAGIC) => Some((0, "a directory of files of Grampus")),
                0 => foreign_signature(&bytes),
                _ => None,
            };
            if let Some((at, what)) = known {
                let (signature, lba) = (Some(what), at / block_bytes);
                return Ok(Some(Self { signature, lba }));
            }
            let used = bytes.iter().position(|byte| *byte != 0);
            first = first.or_else(|| used.map(|at| (start + at as u64) / block_bytes));
        }
        Ok(first.map(|lba| Self { signature: None, lba }))
    }

    /// `LBA 1 has a partition table (GPT)`.
    pub(super) fn describe(&self) -> String {
        match self.signature {
            Some(what) => format!("LBA {} has {what}", self.lba),
            None => format!("LBA {} has data of an unknown kind", self.lba),
        }
    }
}

/// The first signature of another program in the bytes of the start, and its position.
pub(super) fn foreign_signature(bytes: &[u8]) -> Option<(u64, &'static str)> {
    let is_there = |(at, signature, _): &&(u64, &[u8], &'static str)| {
        let rest = bytes.get(*at as usize..);
        rest.is_some_and(|rest| rest.starts_with(signature))
    };
    SIGNATURES.iter().find(is_there).map(|(at, _, what)| (*at, *what))
}
