//! [`BindingError`]: why a controller is not listed or keeps its driver.

use std::io;
use std::path::PathBuf;

use super::obstacle::Obstacle;
use super::pci_address::PciAddress;

/// An error of listing controllers, or of changing a driver.
#[derive(Debug, thiserror::Error)]
pub enum BindingError {
    /// A file of sysfs or procfs cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// No PCI function at the address.
    #[error("there is no PCI device {address} in {}", searched.display())]
    NoDevice {
        /// The address.
        address: PciAddress,
        /// The folder of all devices.
        searched: PathBuf,
    },
    /// A PCI function of another class.
    #[error("{address} is no NVMe controller: its class is {class}, not 0x010802")]
    NotNvme {
        /// The address.
        address: PciAddress,
        /// The class as the kernel writes it.
        class: String,
    },
    /// The controller is in use, or could not be used afterwards.
    #[error("{address} keeps its driver:{}", listed(obstacles))]
    Refused {
        /// The controller.
        address: PciAddress,
        /// The obstacles, one or more.
        obstacles: Vec<Obstacle>,
    },
    /// The attributes of the controller cannot be written.
    #[error("cannot change the driver of {address}: {}: {source}", path.display())]
    NotWritable {
        /// The controller.
        address: PciAddress,
        /// The attribute.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A step failed, and the old state is back.
    #[error("{address} has its old driver again: {reason}")]
    Restored {
        /// The controller.
        address: PciAddress,
        /// The failed step.
        reason: String,
    },
    /// A step failed, and so did the return to the old state.
    #[error("{address} is bound to {driver} now: {reason}; the old state could not be put back: {restoring}")]
    NotRestored {
        /// The controller.
        address: PciAddress,
        /// The driver afterwards.
        driver: String,
        /// The failed step.
        reason: String,
        /// The failed step of the return.
        restoring: String,
    },
}

/// One obstacle behind the colon, several on lines of their own.
fn listed(obstacles: &[Obstacle]) -> String {
    let lead = if obstacles.len() == 1 { " " } else { "\n  " };
    let line = |obstacle: &Obstacle| format!("{lead}{obstacle}: {}", obstacle.advice());
    obstacles.iter().map(line).collect()
}
