//! [`open_vfio`]: a controller of this machine, opened through VFIO for this process.

use std::io;

use crate::binding::{BindingError, Inventory, NvmeController, PciAddress, System};
use crate::error::DriverError;
use crate::host::Device;

/// Why a controller cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The machine's files cannot be read.
    #[error(transparent)]
    Binding(#[from] BindingError),
    /// There is no NVMe controller at the address.
    #[error("there is no NVMe controller {address}: {there}")]
    Absent {
        /// The address.
        address: PciAddress,
        /// The controllers that there are.
        there: String,
    },
    /// Something stands between the controller and this process.
    #[error("{controller} cannot be opened: {}", obstacles.join("; "))]
    Obstacles {
        /// The controller, as [`NvmeController::describe`] names it.
        controller: String,
        /// Each obstacle, and the way around it.
        obstacles: Vec<String>,
    },
    /// VFIO refuses the controller or memory for it.
    #[error("{address} cannot be opened through VFIO: {source}{advice}")]
    Vfio {
        /// The address.
        address: PciAddress,
        /// The system's error.
        source: io::Error,
        /// What to do, after a colon; empty if unknown.
        advice: &'static str,
    },
    /// The controller does not start.
    #[error("{address}: {source}")]
    Device {
        /// The address.
        address: PciAddress,
        /// The driver's error.
        source: DriverError,
    },
}

/// Opens the controller at an address, which must be bound to vfio-pci. The process has it until the device is dropped.
///
/// # Errors
/// [`OpenError`]. Nothing was changed then.
pub fn open_vfio(system: &System, address: PciAddress) -> Result<Device, OpenError> {
    let inventory = Inventory::read(system)?;
    let found = inventory.controllers.iter().find(|found| found.address == address);
    let controller = found.ok_or_else(|| OpenError::Absent {
        address,
        there: present(&inventory),
    })?;
    if !controller.usable {
        let obstacles = controller.obstacles.iter();
        return Err(OpenError::Obstacles {
            controller: controller.describe(),
            obstacles: obstacles.map(|o| format!("{o}: {}", o.advice())).collect(),
        });
    }
    open_usable(controller)
}

/// Opens a controller without obstacles.
#[cfg(target_os = "linux")]
fn open_usable(controller: &NvmeController) -> Result<Device, OpenError> {
    use std::sync::Arc;

    use crate::host::{DeviceOptions, DmaPool, VfioMemory};
    use crate::raw::{MappedRegisters, VfioDevice};

    /// Memory for queues and data. Below 8 MiB, the usual limit on the locked memory of users (RLIMIT_MEMLOCK).
    const MEMORY_BYTES: usize = 7 << 20;
    /// Bus address of that memory. Addresses below may be reserved for interrupts of the platform.
    const IOVA: u64 = 0x10_0000_0000;

    let address = controller.address;
    let vfio = |source: io::Error| OpenError::Vfio {
        address,
        advice: advice(&source),
        source,
    };
    let number = controller
        .iommu_group
        .as_ref()
        .and_then(|group| group.number.parse().ok());
    let group = number.ok_or_else(|| vfio(io::Error::other("its IOMMU group has no number")))?;
    let device = Arc::new(VfioDevice::open(group, &address.to_string()).map_err(vfio)?);
    let registers = Arc::new(MappedRegisters::new(device.map_bar(0).map_err(vfio)?));
    let failed = |source: DriverError| match source {
        DriverError::System { source, .. } => vfio(source),
        source => OpenError::Device { address, source },
    };
    let memory = VfioMemory::new(&device, MEMORY_BYTES, IOVA).map_err(failed)?;
    let pool = DmaPool::new(Arc::new(memory));
    Device::open(registers, pool, DeviceOptions::default()).map_err(failed)
}

/// VFIO is Linux's.
#[cfg(not(target_os = "linux"))]
fn open_usable(controller: &NvmeController) -> Result<Device, OpenError> {
    Err(OpenError::Vfio {
        address: controller.address,
        source: io::ErrorKind::Unsupported.into(),
        advice: ": VFIO is a part of Linux",
    })
}

fn present(inventory: &Inventory) -> String {
    let addresses: Vec<String> = inventory.controllers.iter().map(|c| c.address.to_string()).collect();
    match addresses.as_slice() {
        [] => "this machine shows none".to_owned(),
        addresses => format!("this machine has {}", addresses.join(", ")),
    }
}

#[cfg(target_os = "linux")]
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => ": run it with sudo, or give the node /dev/vfio/GROUP to the user",
        io::ErrorKind::ResourceBusy => ": another process has it",
        io::ErrorKind::OutOfMemory => ": raise the limit on locked memory (ulimit -l) to 8 MiB",
        _ => "",
    }
}
