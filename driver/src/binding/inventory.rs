//! [`Inventory`]: all NVMe controllers of a machine.

use std::path::PathBuf;

use serde::Serialize;

use super::binding_error::BindingError;
use super::nvme_controller::NvmeController;
use super::pci_address::PciAddress;
use super::system::{System, names, text};
use super::use_tables::UseTables;

/// The controllers, and where they were searched.
#[derive(Debug, Clone, Serialize)]
pub struct Inventory {
    /// The controllers, in the order of their addresses.
    pub controllers: Vec<NvmeController>,
    /// Number of PCI functions of any class.
    pub pci_devices: usize,
    /// The folder of all PCI functions.
    pub searched: PathBuf,
}

impl Inventory {
    /// Reads the machine's state. Namespaces and groups are opened for a moment, and nothing is changed.
    ///
    /// # Errors
    /// [`BindingError::Read`]: a file that is there cannot be read.
    pub fn read(system: &System) -> Result<Self, BindingError> {
        let tables = UseTables::read(system)?;
        let searched = system.pci_devices();
        let names = names(&searched)?;
        let addresses = names.iter().filter_map(|name| name.parse::<PciAddress>().ok());
        let mut controllers = Vec::new();
        for address in addresses {
            controllers.extend(NvmeController::read(system, &tables, address)?);
        }
        controllers.sort_by_key(|controller| controller.address);
        Ok(Self {
            controllers,
            pci_devices: names.len(),
            searched,
        })
    }

    /// Reads one controller.
    pub(super) fn controller(system: &System, address: PciAddress) -> Result<NvmeController, BindingError> {
        let class = text(&system.pci_device(address).join("class"))?.ok_or_else(|| BindingError::NoDevice {
            address,
            searched: system.pci_devices(),
        })?;
        let tables = UseTables::read(system)?;
        NvmeController::read(system, &tables, address)?.ok_or(BindingError::NotNvme { address, class })
    }
}
