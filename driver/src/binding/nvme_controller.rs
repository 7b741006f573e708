//! [`NvmeController`]: one controller on the PCI bus, its namespaces, and what stands between it and the driver in user
//! space.

use serde::Serialize;

use super::VFIO_DRIVER;
use super::binding_error::BindingError;
use super::block_device::{BlockDevice, disk_and_above, label, size_bytes};
use super::iommu_group::IommuGroup;
use super::obstacle::Obstacle;
use super::pci_address::PciAddress;
use super::system::{System, link_name, names, text};
use super::use_tables::UseTables;

/// Class, subclass and interface of NVMe controllers (PCI Code and ID Assignment: 01h, 08h, 02h).
const NVME_CLASS: &str = "0x010802";
/// Mount points without which a system does not run.
const SYSTEM_MOUNT_POINTS: [&str; 6] = ["/", "/boot", "/boot/efi", "/efi", "/usr", "/var"];

/// A controller.
#[derive(Debug, Clone, Serialize)]
pub struct NvmeController {
    /// The PCI address.
    pub address: PciAddress,
    /// The PCI vendor, as in `0x144d`.
    pub vendor: Option<String>,
    /// The PCI device number of the vendor.
    pub device: Option<String>,
    /// The kernel's name; `None` while the kernel's driver does not have it.
    pub name: Option<String>,
    /// The model, if the kernel's driver has read it.
    pub model: Option<String>,
    /// The serial number, likewise.
    pub serial: Option<String>,
    /// The firmware's revision, likewise.
    pub firmware: Option<String>,
    /// The bound driver.
    pub driver: Option<String>,
    /// The IOMMU group.
    pub iommu_group: Option<IommuGroup>,
    /// The namespaces, if the kernel's driver has the controller.
    pub namespaces: Vec<Namespace>,
    /// Whether the driver in user space can take the controller as it is.
    pub usable: bool,
    /// What has to change until then, in the order of doing it.
    pub obstacles: Vec<Obstacle>,
}

/// A namespace, as the kernel's block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Namespace {
    /// The block device.
    pub name: String,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// Its partitions.
    pub partitions: Vec<String>,
}

impl NvmeController {
    /// Reads a PCI function; `None` if it is no NVMe controller.
    pub(super) fn read(system: &System, tables: &UseTables, address: PciAddress) -> Result<Option<Self>, BindingError> {
        let folder = system.pci_device(address);
        if text(&folder.join("class"))?.as_deref() != Some(NVME_CLASS) {
            return Ok(None);
        }
        let name = names(&folder.join("nvme"))?.into_iter().next();
        let class = folder.join("nvme").join(name.as_deref().unwrap_or_default());
        let identity = |attribute: &str| match name {
            Some(_) => text(&class.join(attribute)),
            None => Ok(None),
        };
        let mut controller = Self {
            address,
            vendor: text(&folder.join("vendor"))?,
            device: text(&folder.join("device"))?,
            model: identity("model")?,
            serial: identity("serial")?,
            firmware: identity("firmware_rev")?,
            driver: link_name(&folder.join("driver"))?,
            iommu_group: IommuGroup::read(system, address)?,
            namespaces: Vec::new(),
            usable: false,
            obstacles: environment_obstacles(system),
            name,
        };
        controller.obstacles.extend(controller.iommu_obstacles());
        if controller.name.is_some() {
            for disk in disks(&names(&class)?) {
                controller.add_namespace(system, tables, &disk)?;
            }
        }
        controller.obstacles.extend(controller.driver_obstacle(system));
        controller.usable = controller.obstacles.is_empty();
        Ok(Some(controller))
    }

    fn add_namespace(&mut self, system: &System, tables: &UseTables, disk: &str) -> Result<(), BindingError> {
        let devices = disk_and_above(system, disk)?;
        let partitions = devices.iter().filter(|device| device.of_disk && device.name != disk);
        self.namespaces.push(Namespace {
            name: disk.to_owned(),
            size_bytes: size_bytes(system, disk)?,
            partitions: partitions.map(|device| device.name.clone()).collect(),
        });
        let mut uses = Vec::new();
        for device in &devices {
            uses.extend(device_uses(system, tables, device)?);
        }
        // A table names most users. The kernel knows all of them.
        if uses.is_empty() {
            let claimed = system.claim(&system.dev(disk)).err();
            uses.extend(claimed.map(|reason| Obstacle::claim(disk, reason)));
        }
        self.obstacles.extend(uses);
        Ok(())
    }

    fn iommu_obstacles(&self) -> Vec<Obstacle> {
        let group = self.iommu_group.as_ref().filter(|group| !group.without_iommu);
        let Some(group) = group else {
            return vec![Obstacle::NoIommu];
        };
        let shared = |(device, driver): (&str, &str)| Obstacle::SharedGroup {
            group: group.number.clone(),
            device: device.to_owned(),
            driver: driver.to_owned(),
        };
        group.foreign().map(shared).collect()
    }

    /// The last obstacle: the driver, or another process if the driver is vfio-pci.
    fn driver_obstacle(&self, system: &System) -> Option<Obstacle> {
        let address = self.address;
        match self.driver.as_deref() {
            None => Some(Obstacle::Unbound { address }),
            Some(VFIO_DRIVER) => self.group_obstacle(system),
            Some(driver) => Some(Obstacle::Bound {
                address,
                driver: driver.to_owned(),
            }),
        }
    }

    /// The obstacle to opening the group, which one process at a time can.
    pub(super) fn group_obstacle(&self, system: &System) -> Option<Obstacle> {
        let node = self.iommu_group.as_ref()?.node();
        let reason = system.claim(&system.dev(&node)).err()?;
        Some(Obstacle::GroupNode {
            node: format!("/dev/{node}"),
            reason,
        })
    }

    /// `0000:01:00.0 (nvme0, model, serial)`.
    pub fn describe(&self) -> String {
        let known = [&self.name, &self.model, &self.serial];
        let known: Vec<&str> = known.into_iter().flatten().map(String::as_str).collect();
        match known.as_slice() {
            [] => self.address.to_string(),
            known => format!("{} ({})", self.address, known.join(", ")),
        }
    }
}

/// What every controller of a machine needs.
fn environment_obstacles(system: &System) -> Vec<Obstacle> {
    let driver = system.sys("bus/pci/drivers").join(VFIO_DRIVER);
    let mut obstacles = Vec::new();
    if !driver.exists() {
        obstacles.push(Obstacle::NoVfioDriver);
    }
    if !system.dev("vfio/vfio").exists() {
        obstacles.push(Obstacle::NoVfioNode);
    }
    obstacles
}

/// The users of one block device that tables name.
fn device_uses(system: &System, tables: &UseTables, device: &BlockDevice) -> Result<Vec<Obstacle>, BindingError> {
    let name = || device.label.clone();
    let mut uses = Vec::new();
    let mount_points = tables.mount_points(device);
    let of_system = mount_points
        .iter()
        .find(|point| SYSTEM_MOUNT_POINTS.contains(&point.as_str()));
    if let Some(mount_point) = of_system {
        uses.push(Obstacle::System {
            device: name(),
            mount_point: mount_point.clone(),
        });
    } else if !mount_points.is_empty() {
        uses.push(Obstacle::Mounted {
            device: name(),
            mount_points,
        });
    }
    if tables.is_swap(device) {
        uses.push(Obstacle::Swap {
            device: device.name.clone(),
        });
    }
    for holder in device.holders.iter().filter(|_| device.of_disk) {
        uses.push(Obstacle::Held {
            device: name(),
            holder: label(system, holder)?,
        });
    }
    Ok(uses)
}

/// The block devices of a controller's namespaces, from the names in its folder. With several paths to a namespace, the
/// folder has `nvme0c1n1`, and the block device is `nvme0n1`.
fn disks(names: &[String]) -> Vec<String> {
    let mut disks: Vec<String> = names.iter().filter_map(|name| disk(name)).collect();
    disks.dedup();
    disks
}

fn disk(name: &str) -> Option<String> {
    let (place, namespace) = name.strip_prefix("nvme")?.split_once('n')?;
    let (subsystem, path) = place.split_once('c').unwrap_or((place, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    [subsystem, path, namespace]
        .into_iter()
        .all(is_number)
        .then(|| format!("nvme{subsystem}n{namespace}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_told_from_other_files_of_a_controller() {
        let names = [
            "hwmon1",
            "model",
            "ng0n1",
            "nvme0n1",
            "nvme1c1n2",
            "nvme1n",
            "nvmen1",
            "power",
        ];
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        assert_eq!(disks(&names), ["nvme0n1", "nvme1n2"]);
    }
}
