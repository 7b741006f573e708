//! [`NvmeCommand`]: the options of `grampus nvme`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, Subcommand};
use grampus_driver::binding::{ParsePciAddressError, PciAddress};

/// What to do with NVMe controllers.
#[derive(Debug, Subcommand)]
pub(crate) enum NvmeCommand {
    /// List the NVMe controllers, and for each what stands in the way of using it
    List(NvmeListArgs),
    /// Move a controller from the kernel to vfio-pci, for programs; refused if anything on it is in use
    Bind(NvmeBindArgs),
    /// Give a controller back to the kernel; its disks appear again
    Unbind(NvmeBindArgs),
    /// Store files on a namespace, for tables named nvme://ADDRESS/NAME
    Load(NvmeLoadArgs),
    /// List the files on a namespace
    Files(NvmeFilesArgs),
    /// Take files out of the directory of a namespace
    Remove(NvmeRemoveArgs),
    /// Read files on a namespace, and compare them with their checksums
    Verify(NvmeVerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NvmeListArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) machine: MachineFolder,
}

#[derive(Debug, Args)]
pub(crate) struct NvmeBindArgs {
    /// PCI address of the controller, such as 0000:01:00.0, as `grampus nvme list` prints it
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: PciAddress,

    /// Do not ask; without a terminal this is required
    #[arg(short, long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) machine: MachineFolder,
}

/// The namespace of a command.
#[derive(Debug, Args)]
pub(crate) struct NamespaceArgs {
    /// PCI address of a controller that is bound to vfio-pci, or the path of an image of a namespace
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) device: NvmeDevice,

    /// Number of the namespace
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) namespace: u32,

    #[command(flatten)]
    pub(crate) machine: MachineFolder,
}

/// A controller, or a file in the place of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NvmeDevice {
    /// A controller of this machine.
    Controller(PciAddress),
    /// A file with the bytes of a namespace.
    Image(PathBuf),
}

impl FromStr for NvmeDevice {
    type Err = ParsePciAddressError;

    /// A text with a slash, or the name of a file that is there, is a path.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(address) => Ok(Self::Controller(address)),
            Err(_) if text.contains('/') || Path::new(text).exists() => Ok(Self::Image(text.into())),
            Err(error) => Err(error),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct NvmeLoadArgs {
    /// Files to store
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,

    /// Name on the namespace of a single file, such as year=2019/trips.orc; without it, the file's own name
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Erase what the namespace holds, and begin with an empty directory
    #[arg(long)]
    pub(crate) erase: bool,

    /// Do not ask before a namespace is made ready for files; without a terminal this is required
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Draw no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NvmeFilesArgs {
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NvmeRemoveArgs {
    /// Names of the files, as `grampus nvme files` prints them
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,

    /// Do not ask; without a terminal this is required
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NvmeVerifyArgs {
    /// Names of the files; without any, all files
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,

    /// Draw no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Where the machine's files are. Tests put imitations there.
#[derive(Debug, Args)]
pub(crate) struct MachineFolder {
    /// Folder that holds sys, proc and dev
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub(crate) root: PathBuf,
}
