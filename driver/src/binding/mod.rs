//! NVMe controllers on the PCI bus, and the change of a controller's driver between the kernel's and vfio-pci.
//!
//! 1. [`Inventory::read`] lists the controllers, and for each the [`Obstacle`]s between it and the driver in
//!    [`host`](crate::host).
//! 2. [`check_bind`] refuses a controller in use; [`bind`] gives a controller to vfio-pci.
//! 3. [`unbind`] gives the controller back to the kernel's driver.
//!
//! | file | what |
//! | --- | --- |
//! | `pci_address` | the place of a PCI function |
//! | `kernel` | writes of attributes and exclusive opens |
//! | `obstacle` | one obstacle, and the way around it |
//! | `binding_error` | the errors of this module |
//! | `system` | the folders of sysfs, procfs and device nodes |
//! | `block_device` | disks, partitions, and devices that are made of them |
//! | `use_tables` | mounts and swaps |
//! | `iommu_group` | the devices that the IOMMU keeps apart only together |
//! | `nvme_controller` | one controller with its obstacles |
//! | `inventory` | all controllers of a machine |
//! | `rebinding` | the change of a driver, and its reversal after a failure |
//!
//! **Invariant:** a controller is taken from the kernel's driver only while this process holds its namespaces
//! exclusively. So no mount and no swap can begin between the check and the change.

mod binding_error;
mod block_device;
mod inventory;
mod iommu_group;
mod kernel;
mod nvme_controller;
mod obstacle;
mod pci_address;
mod rebinding;
mod system;
mod use_tables;

pub use binding_error::BindingError;
pub use inventory::Inventory;
pub use iommu_group::{GroupDevice, IommuGroup};
pub use kernel::{ClaimFailure, Kernel, LinuxKernel};
pub use nvme_controller::{Namespace, NvmeController};
pub use obstacle::Obstacle;
pub use pci_address::{ParsePciAddressError, PciAddress};
pub use rebinding::{Change, bind, check_bind, check_unbind, unbind};
pub use system::System;

/// The kernel's driver of NVMe controllers.
pub const KERNEL_DRIVER: &str = "nvme";
/// The driver that gives a PCI function to a process.
pub const VFIO_DRIVER: &str = "vfio-pci";
