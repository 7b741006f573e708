//! [`UseTables`]: which block devices are mounted, and which are swap space (proc(5): `mountinfo`, `swaps`).

use std::fs;

use super::binding_error::BindingError;
use super::block_device::BlockDevice;
use super::system::{System, text, unreadable};

/// Mounts and swaps.
#[derive(Debug)]
pub(super) struct UseTables {
    mounts: Vec<Mount>,
    /// Names of block devices.
    swaps: Vec<String>,
}

#[derive(Debug)]
struct Mount {
    /// Major and minor number. btrfs has numbers of its own, and then the source counts.
    number: String,
    /// The block device of the mount's source.
    source: Option<String>,
    point: String,
}

impl UseTables {
    /// Reads the tables of this process.
    pub(super) fn read(system: &System) -> Result<Self, BindingError> {
        let path = system.proc("self/mountinfo");
        let mounts = fs::read(&path).map_err(|source| unreadable(&path, source))?;
        let mounts = String::from_utf8_lossy(&mounts);
        // A kernel without swapping has no such file.
        let swaps = text(&system.proc("swaps"))?.unwrap_or_default();
        Ok(Self {
            mounts: mounts.lines().filter_map(|line| mount(system, line)).collect(),
            swaps: swaps.lines().skip(1).filter_map(|line| swap(system, line)).collect(),
        })
    }

    /// Where a device is mounted.
    pub(super) fn mount_points(&self, device: &BlockDevice) -> Vec<String> {
        let of_device = |mount: &&Mount| {
            device.number.as_deref() == Some(&mount.number) || mount.source.as_deref() == Some(&device.name)
        };
        let mounts = self.mounts.iter().filter(of_device);
        mounts.map(|mount| mount.point.clone()).collect()
    }

    /// Whether a device is swap space in use.
    pub(super) fn is_swap(&self, device: &BlockDevice) -> bool {
        self.swaps.contains(&device.name)
    }
}

/// `36 35 259:1 / /mnt rw,noatime master:1 - ext3 /dev/nvme0n1p1 rw`: any number of optional fields precede the dash.
fn mount(system: &System, line: &str) -> Option<Mount> {
    let (head, tail) = line.split_once(" - ")?;
    let mut fields = head.split(' ').skip(2);
    let (number, point) = (fields.next()?, fields.nth(1)?);
    let source = tail.split(' ').nth(1)?;
    Some(Mount {
        number: number.to_owned(),
        source: system.block_name(&unescaped(source)),
        point: unescaped(point),
    })
}

/// `/dev/nvme0n1p3 partition 8388604 0 -2`. A file of swap space lies in a mounted file system.
fn swap(system: &System, line: &str) -> Option<String> {
    let path = line.split_whitespace().next()?;
    system.block_name(&unescaped(path))
}

/// The text with its octal escapes (`\040` is a space) replaced.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escape = (first == b'\\').then(|| octal(after)).flatten();
        bytes.push(escape.unwrap_or(first));
        rest = if escape.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The byte of three octal digits.
fn octal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_mount_points_are_replaced() {
        assert_eq!(unescaped(r"/mnt/my\040disk\134x"), r"/mnt/my disk\x");
        assert_eq!(unescaped(r"/a\9b\04"), r"/a\9b\04");
        assert_eq!(unescaped("/größe"), "/größe");
    }
}
