//! [`System`]: the folders of sysfs, procfs and device nodes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::binding_error::BindingError;
use super::kernel::{ClaimFailure, Kernel, LinuxKernel};
use super::pci_address::PciAddress;

/// The machine as its kernel's files show it.
#[derive(Debug)]
pub struct System {
    sys: PathBuf,
    proc: PathBuf,
    dev: PathBuf,
    kernel: Box<dyn Kernel>,
}

impl Default for System {
    fn default() -> Self {
        Self::under(Path::new("/"))
    }
}

impl System {
    /// The machine whose `sys`, `proc` and `dev` lie in a folder.
    pub fn under(root: &Path) -> Self {
        Self {
            sys: root.join("sys"),
            proc: root.join("proc"),
            dev: root.join("dev"),
            kernel: Box::new(LinuxKernel),
        }
    }

    /// The same machine with another kernel.
    #[must_use]
    pub fn with_kernel(self, kernel: impl Kernel + 'static) -> Self {
        Self {
            kernel: Box::new(kernel),
            ..self
        }
    }

    pub(super) fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }

    /// A path of sysfs.
    pub(super) fn sys(&self, path: &str) -> PathBuf {
        self.sys.join(path)
    }

    /// A path of procfs.
    pub(super) fn proc(&self, path: &str) -> PathBuf {
        self.proc.join(path)
    }

    /// A path of a device node.
    pub(super) fn dev(&self, path: &str) -> PathBuf {
        self.dev.join(path)
    }

    /// The folder of all PCI functions.
    pub(super) fn pci_devices(&self) -> PathBuf {
        self.sys("bus/pci/devices")
    }

    /// The folder of a PCI function.
    pub(super) fn pci_device(&self, address: PciAddress) -> PathBuf {
        self.pci_devices().join(address.to_string())
    }

    /// Claims a device node for the life of the returned file.
    pub(super) fn claim(&self, path: &Path) -> Result<fs::File, ClaimFailure> {
        self.kernel.open_exclusively(path).map_err(ClaimFailure::from)
    }

    /// The name of the block device that a path such as `/dev/mapper/vg-data` leads to.
    pub(super) fn block_name(&self, source: &str) -> Option<String> {
        let node = self.dev(source.strip_prefix("/dev/")?);
        let node = fs::canonicalize(&node).unwrap_or(node);
        Some(node.file_name()?.to_string_lossy().into_owned())
    }
}

/// A file's text without the white space around it; `None` if the file is missing or has no text.
pub(super) fn text(path: &Path) -> Result<Option<String>, BindingError> {
    let text = present(path, fs::read(path))?;
    let text = text.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
    Ok(text.filter(|text| !text.is_empty()))
}

/// The last name of the path that a link leads to; `None` without a link.
pub(super) fn link_name(path: &Path) -> Result<Option<String>, BindingError> {
    let target = present(path, fs::read_link(path))?;
    Ok(target.and_then(|target| Some(target.file_name()?.to_string_lossy().into_owned())))
}

/// The names in a folder, in order; none if the folder is missing.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, BindingError> {
    let mut names = Vec::new();
    for entry in present(folder, fs::read_dir(folder))?.into_iter().flatten() {
        let entry = entry.map_err(|source| unreadable(folder, source))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// `None` for a file that is missing, or that vanished with its device.
fn present<T>(path: &Path, result: io::Result<T>) -> Result<Option<T>, BindingError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(None),
        Err(source) => Err(unreadable(path, source)),
    }
}

pub(super) fn unreadable(path: &Path, source: io::Error) -> BindingError {
    BindingError::Read {
        path: path.to_owned(),
        source,
    }
}
