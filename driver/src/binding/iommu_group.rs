//! [`IommuGroup`]: devices that the IOMMU cannot keep apart. VFIO gives a process a whole group.

use serde::Serialize;

use super::VFIO_DRIVER;
use super::binding_error::BindingError;
use super::pci_address::PciAddress;
use super::system::{System, link_name, names, text};

/// Drivers that a group may have beside vfio-pci: they leave DMA to the group's user (`driver_managed_dma` in Linux).
const COMPATIBLE_DRIVERS: [&str; 3] = [VFIO_DRIVER, "pci-stub", "pcieport"];
/// The name of groups that VFIO makes for devices without an IOMMU.
const NO_IOMMU_NAME: &str = "vfio-noiommu";

/// The IOMMU group of a controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IommuGroup {
    /// The number.
    pub number: String,
    /// The other devices.
    pub others: Vec<GroupDevice>,
    /// Whether the group has no IOMMU: VFIO's unsafe mode.
    pub without_iommu: bool,
}

/// Another device of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupDevice {
    /// The address on its bus.
    pub address: String,
    /// The driver.
    pub driver: Option<String>,
}

impl IommuGroup {
    /// The group of a PCI function.
    pub(super) fn read(system: &System, address: PciAddress) -> Result<Option<Self>, BindingError> {
        let folder = system.pci_device(address).join("iommu_group");
        let Some(number) = link_name(&folder)? else {
            return Ok(None);
        };
        let devices = folder.join("devices");
        let mut others = Vec::new();
        for name in names(&devices)? {
            if name != address.to_string() {
                let driver = link_name(&devices.join(&name).join("driver"))?;
                others.push(GroupDevice { address: name, driver });
            }
        }
        let without_iommu = text(&folder.join("name"))?.as_deref() == Some(NO_IOMMU_NAME);
        Ok(Some(Self {
            number,
            others,
            without_iommu,
        }))
    }

    /// The group's node below `/dev`.
    pub(super) fn node(&self) -> String {
        let prefix = if self.without_iommu { "noiommu-" } else { "" };
        format!("vfio/{prefix}{}", self.number)
    }

    /// The other devices whose driver excludes vfio-pci from the group, each with the driver.
    pub(super) fn foreign(&self) -> impl Iterator<Item = (&str, &str)> {
        let drivers = self
            .others
            .iter()
            .filter_map(|device| Some((device.address.as_str(), device.driver.as_deref()?)));
        drivers.filter(|(_, driver)| !COMPATIBLE_DRIVERS.contains(driver))
    }
}
