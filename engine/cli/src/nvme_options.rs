//! [`NvmeCommand`]: the options of `grampus nvme`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use grampus_driver::binding::PciAddress;

/// What to do with NVMe controllers.
#[derive(Debug, Subcommand)]
pub(crate) enum NvmeCommand {
    /// List the NVMe controllers, and for each what stands in the way of using it
    List(NvmeListArgs),
    /// Move a controller from the kernel to vfio-pci, for programs; refused if anything on it is in use
    Bind(NvmeBindArgs),
    /// Give a controller back to the kernel; its disks appear again
    Unbind(NvmeBindArgs),
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

/// Where the machine's files are. Tests put imitations there.
#[derive(Debug, Args)]
pub(crate) struct MachineFolder {
    /// Folder that holds sys, proc and dev
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub(crate) root: PathBuf,
}
