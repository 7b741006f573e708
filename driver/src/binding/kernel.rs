//! [`Kernel`]: the accesses that change the machine or claim a device. Tests put an imitation in its place.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Access, OFlags, access};

/// Accesses to the kernel that are more than reads of text.
pub trait Kernel: fmt::Debug {
    /// Writes an attribute of sysfs, in one call.
    ///
    /// # Errors
    /// The kernel's.
    fn write_attribute(&self, path: &Path, text: &str) -> io::Result<()>;

    /// Whether this process may write an attribute.
    ///
    /// # Errors
    /// The reason why not.
    fn check_writable(&self, path: &Path) -> io::Result<()>;

    /// Opens a device node that one holder at a time may have: a block device, or the group of VFIO.
    ///
    /// # Errors
    /// `ResourceBusy` if it has a holder.
    fn open_exclusively(&self, path: &Path) -> io::Result<File>;
}

/// The running kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinuxKernel;

impl Kernel for LinuxKernel {
    fn write_attribute(&self, path: &Path, text: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
    }

    fn check_writable(&self, path: &Path) -> io::Result<()> {
        Ok(access(path, Access::WRITE_OK)?)
    }

    /// O_EXCL makes the kernel refuse a block device that a file system, swap space, a volume manager or another
    /// exclusive opener holds, also through one of its partitions, and also for another container.
    fn open_exclusively(&self, path: &Path) -> io::Result<File> {
        let flags = i32::try_from(OFlags::EXCL.bits()).map_err(io::Error::other)?;
        OpenOptions::new().read(true).custom_flags(flags).open(path)
    }
}

/// Why a device node could not be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimFailure {
    /// The device has a holder.
    Busy,
    /// This process may not open the node.
    Denied,
    /// There is no node.
    Missing,
    /// Another error.
    Other(String),
}

impl From<io::Error> for ClaimFailure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ResourceBusy => Self::Busy,
            io::ErrorKind::PermissionDenied => Self::Denied,
            io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl fmt::Display for ClaimFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "it is in use",
            Self::Denied => "permission denied",
            Self::Missing => "no such file",
            Self::Other(text) => text,
        })
    }
}
