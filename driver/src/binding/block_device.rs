//! [`BlockDevice`]: a disk, a partition, or a device that is made of them (device-mapper, md, bcache).

use std::collections::VecDeque;
use std::path::PathBuf;

use super::binding_error::BindingError;
use super::system::{System, names, text};

/// Bytes of a sector, in which sysfs counts the sizes of all block devices.
const SECTOR_BYTES: u64 = 512;

/// One block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockDevice {
    /// The name in `/dev`.
    pub(super) name: String,
    /// The name for messages, with device-mapper's own name.
    pub(super) label: String,
    /// Major and minor number, as in `259:1`.
    pub(super) number: Option<String>,
    /// Names of the devices that are made of this one.
    pub(super) holders: Vec<String>,
    /// Whether this is the disk itself, or one of its partitions.
    pub(super) of_disk: bool,
}

/// Size of a disk in bytes; `None` if sysfs does not say.
pub(super) fn size_bytes(system: &System, disk: &str) -> Result<Option<u64>, BindingError> {
    let sectors = text(&disk_folder(system, disk).join("size"))?;
    Ok(sectors
        .and_then(|sectors| sectors.parse::<u64>().ok())
        .and_then(|sectors| sectors.checked_mul(SECTOR_BYTES)))
}

/// A disk, its partitions, and all devices that are made of them, directly or through others.
pub(super) fn disk_and_above(system: &System, disk: &str) -> Result<Vec<BlockDevice>, BindingError> {
    let mut devices: Vec<BlockDevice> = Vec::new();
    let mut disks = VecDeque::from([disk.to_owned()]);
    while let Some(next) = disks.pop_front() {
        if devices.iter().any(|device| device.name == next) {
            continue;
        }
        for device in disk_and_partitions(system, &next, next == disk)? {
            disks.extend(device.holders.iter().cloned());
            devices.push(device);
        }
    }
    Ok(devices)
}

/// A device for messages: with device-mapper's own name if the device has one.
pub(super) fn label(system: &System, name: &str) -> Result<String, BindingError> {
    let mapped = text(&disk_folder(system, name).join("dm/name"))?;
    Ok(mapped.map_or_else(|| name.to_owned(), |mapped| format!("{name} ({mapped})")))
}

fn disk_and_partitions(system: &System, disk: &str, of_disk: bool) -> Result<Vec<BlockDevice>, BindingError> {
    let folder = disk_folder(system, disk);
    let mut devices = vec![device(system, disk, folder.clone(), of_disk)?];
    for name in names(&folder)? {
        let partition = folder.join(&name);
        if partition.join("partition").exists() {
            devices.push(device(system, &name, partition, of_disk)?);
        }
    }
    Ok(devices)
}

fn device(system: &System, name: &str, folder: PathBuf, of_disk: bool) -> Result<BlockDevice, BindingError> {
    Ok(BlockDevice {
        name: name.to_owned(),
        label: label(system, name)?,
        number: text(&folder.join("dev"))?,
        holders: names(&folder.join("holders"))?,
        of_disk,
    })
}

fn disk_folder(system: &System, disk: &str) -> PathBuf {
    system.sys("block").join(disk)
}
