//! [`Obstacle`]: one thing between a controller and the driver in user space, and the way around it.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::kernel::ClaimFailure;
use super::pci_address::PciAddress;
use super::{KERNEL_DRIVER, VFIO_DRIVER};

/// One obstacle. Its `Display` is the fact, [`advice`](Self::advice) the way around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The controller is in no IOMMU group, or in one without an IOMMU.
    NoIommu,
    /// The driver vfio-pci is not registered.
    NoVfioDriver,
    /// `/dev/vfio/vfio` is missing.
    NoVfioNode,
    /// A device with the running system's files.
    System {
        /// The block device.
        device: String,
        /// A mount point of the system.
        mount_point: String,
    },
    /// A mounted device.
    Mounted {
        /// The block device.
        device: String,
        /// The mount points.
        mount_points: Vec<String>,
    },
    /// A device with swap space in use.
    Swap {
        /// The block device.
        device: String,
    },
    /// A device that another block device is made of.
    Held {
        /// The block device.
        device: String,
        /// The device above it.
        holder: String,
    },
    /// A device that is claimed by a user that no table names.
    Busy {
        /// The block device.
        device: String,
    },
    /// A device whose users could not be found out.
    Unchecked {
        /// The block device.
        device: String,
        /// The reason.
        reason: ClaimFailure,
    },
    /// Another device of the IOMMU group has a driver that VFIO does not go together with.
    SharedGroup {
        /// The number of the group.
        group: String,
        /// The other device.
        device: String,
        /// Its driver.
        driver: String,
    },
    /// The node of the IOMMU group cannot be opened.
    GroupNode {
        /// The node's path.
        node: String,
        /// The reason.
        reason: ClaimFailure,
    },
    /// The controller has no driver.
    Unbound {
        /// The controller.
        address: PciAddress,
    },
    /// The controller has another driver than vfio-pci.
    Bound {
        /// The controller.
        address: PciAddress,
        /// The driver.
        driver: String,
    },
}

impl Obstacle {
    /// The name of the kind, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoIommu => "no_iommu",
            Self::NoVfioDriver => "no_vfio_driver",
            Self::NoVfioNode => "no_vfio_node",
            Self::System { .. } => "system",
            Self::Mounted { .. } => "mounted",
            Self::Swap { .. } => "swap",
            Self::Held { .. } => "held",
            Self::Busy { .. } => "busy",
            Self::Unchecked { .. } => "unchecked",
            Self::SharedGroup { .. } => "shared_group",
            Self::GroupNode { .. } => "group_node",
            Self::Unbound { .. } => "unbound",
            Self::Bound { .. } => "bound",
        }
    }

    /// The way around the obstacle, in a few words.
    pub fn advice(&self) -> String {
        match self {
            Self::NoIommu => "turn it on in the firmware, and boot with intel_iommu=on or amd_iommu=on".into(),
            Self::NoVfioDriver => "modprobe vfio-pci".into(),
            Self::NoVfioNode => "modprobe vfio; a container needs the node passed in".into(),
            Self::System { .. } => "use another controller".into(),
            Self::Mounted { .. } => "unmount it first".into(),
            Self::Swap { device } => format!("swapoff /dev/{device} first"),
            Self::Held { holder, .. } => holder_advice(holder),
            Self::Busy { .. } => "end its user first (ZFS, btrfs, a container, a virtual machine)".into(),
            Self::Unchecked { reason, .. } => match reason {
                ClaimFailure::Denied => "run as root".into(),
                _ => "run where its node under /dev is visible".into(),
            },
            Self::SharedGroup { device, driver, .. } => {
                format!("free {device} from {driver} first, or move the controller to another slot")
            }
            Self::GroupNode { node, reason } => match reason {
                ClaimFailure::Busy => "end that process first".into(),
                ClaimFailure::Denied => format!("run as root, or chown {node}"),
                _ => "a container needs the node passed in".into(),
            },
            Self::Bound { address, driver } if driver == KERNEL_DRIVER => format!("grampus nvme bind {address}"),
            Self::Bound { driver, .. } => format!("free it from {driver} first"),
            Self::Unbound { address } => format!("grampus nvme bind {address}"),
        }
    }

    /// The obstacle behind a refused exclusive open of a block device.
    pub(super) fn claim(device: &str, reason: ClaimFailure) -> Self {
        let device = device.to_owned();
        match reason {
            ClaimFailure::Busy => Self::Busy { device },
            reason => Self::Unchecked { device, reason },
        }
    }

    /// Whether [`bind`](super::bind) removes the obstacle.
    pub(super) fn ends_with_bind(&self) -> bool {
        match self {
            Self::Unbound { .. } => true,
            Self::Bound { driver, .. } => driver == KERNEL_DRIVER,
            _ => false,
        }
    }
}

fn holder_advice(holder: &str) -> String {
    let name = holder.split(' ').next().unwrap_or(holder);
    match name {
        _ if name.starts_with("dm-") => "close it first (vgchange -an, cryptsetup close, dmsetup remove)".into(),
        _ if name.starts_with("md") => format!("mdadm --stop /dev/{name} first"),
        _ => format!("stop {name} first"),
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoIommu => write!(f, "no IOMMU"),
            Self::NoVfioDriver => write!(f, "the driver {VFIO_DRIVER} is not loaded"),
            Self::NoVfioNode => write!(f, "/dev/vfio/vfio is missing"),
            Self::System { device, mount_point } => {
                write!(f, "{device} holds the running system (mounted at {mount_point})")
            }
            Self::Mounted { device, mount_points } => match mount_points.as_slice() {
                [first] => write!(f, "{device} is mounted at {first}"),
                [first, ..] => write!(
                    f,
                    "{device} is mounted at {first} (first of {} mount points)",
                    mount_points.len()
                ),
                [] => write!(f, "{device} is mounted"),
            },
            Self::Swap { device } => write!(f, "{device} is swap space in use"),
            Self::Held { device, holder } => write!(f, "{device} is a part of {holder}"),
            Self::Busy { device } => write!(f, "{device} is in use: the kernel refuses exclusive access"),
            Self::Unchecked { device, reason } => write!(f, "the users of {device} are unknown: {reason}"),
            Self::SharedGroup { group, device, driver } => {
                write!(f, "{device} in the same IOMMU group {group} is bound to {driver}")
            }
            Self::GroupNode { node, reason } => match reason {
                ClaimFailure::Busy => write!(f, "another process uses {node}"),
                reason => write!(f, "{node} cannot be opened: {reason}"),
            },
            Self::Unbound { .. } => write!(f, "bound to no driver"),
            Self::Bound { driver, .. } => write!(f, "bound to {driver}"),
        }
    }
}

impl Serialize for Obstacle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Obstacle", 3)?;
        fields.serialize_field("kind", self.kind())?;
        fields.serialize_field("message", &self.to_string())?;
        fields.serialize_field("advice", &self.advice())?;
        fields.end()
    }
}
