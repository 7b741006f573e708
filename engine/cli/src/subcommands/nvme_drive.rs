//! [`open`]: a namespace of a controller, through VFIO, or an image of one, through the software controller.

use std::path::Path;
use std::sync::{Arc, Mutex};

use grampus_driver::binding::System;
use grampus_driver::controller::{Namespace, VirtualController, VirtualOptions};
use grampus_driver::files::{Drive, FileError};
use grampus_driver::host::{Device, DeviceOptions, DmaPool, MappedMemory};
use grampus_driver::raw::SharedMemory;
use grampus_driver::storage::{NAMESPACE_GRAIN_BYTES, WritableFile};
use grampus_driver::vfio_controller::{OpenError, open_vfio};

use crate::exit_error::{ErrorReport, ExitError};
use crate::nvme_options::{NamespaceArgs, NvmeDevice};

/// Memory of the software controller's host side, for queues and data.
const IMAGE_MEMORY_BYTES: usize = 4 << 20;
/// Bus address of that memory.
const IMAGE_BUS_ADDRESS: u64 = 0x10_0000_0000;

/// Opens the namespace that the options name.
pub(super) fn open(arguments: &NamespaceArgs) -> Result<Drive, ExitError> {
    let (name, device) = match &arguments.device {
        NvmeDevice::Controller(address) => {
            let system = System::under(&arguments.machine.root);
            (address.to_string(), open_vfio(&system, *address).map_err(explain_open)?)
        }
        NvmeDevice::Image(path) => (path.display().to_string(), open_image(path)?),
    };
    Drive::open(&name, Arc::new(Mutex::new(device)), arguments.namespace).map_err(explain)
}

/// A controller of this process over a file. Its namespace 1 has the file's bytes, in blocks of 512.
fn open_image(path: &Path) -> Result<Device, ExitError> {
    let shown = path.display().to_string();
    let metadata = std::fs::metadata(path).map_err(|error| ErrorReport::file("open", &shown, &error))?;
    // Another file, named by mistake, keeps its length.
    if !metadata.is_file() || metadata.len() == 0 || metadata.len() % NAMESPACE_GRAIN_BYTES != 0 {
        let report = ErrorReport::new(format!("{shown} is no image of a namespace: a file of whole 4 KiB"));
        return Err(report.hint("truncate -s 1G disk.img makes an empty one").into());
    }
    let storage = WritableFile::open(path).map_err(|error| ErrorReport::file("open", &shown, &error))?;
    let memory = SharedMemory::anonymous(IMAGE_MEMORY_BYTES);
    let memory = memory.map_err(|error| ErrorReport::file("map", "memory", &error))?;
    let memory = Arc::new(MappedMemory::linear(memory, IMAGE_BUS_ADDRESS));
    let options = VirtualOptions {
        serial: "image".to_owned(),
        queues: 1,
        mdts: 0,
    };
    let namespaces = vec![Namespace::new(1, Arc::new(storage))];
    let controller = VirtualController::new(options, namespaces, memory.clone());
    let device = Device::open(Arc::new(controller), DmaPool::new(memory), DeviceOptions::default());
    device.map_err(|error| ErrorReport::new(format!("{shown}: {error}")).into())
}

fn explain_open(error: OpenError) -> ExitError {
    let report = match error {
        OpenError::Obstacles { controller, obstacles } => {
            ErrorReport::new(format!("{controller} cannot be opened:\n  {}", obstacles.join("\n  ")))
        }
        OpenError::Absent { .. } => {
            ErrorReport::new(error.to_string()).hint("grampus nvme list prints the controllers")
        }
        error => ErrorReport::new(error.to_string()),
    };
    report.into()
}

/// An error of the files on a namespace, with a hint.
pub(super) fn explain(error: FileError) -> ExitError {
    let report = ErrorReport::new(error.to_string());
    let report = match &error {
        FileError::Ended { .. } => return ExitError::Interrupted,
        FileError::NoDirectory { .. } => report.hint("grampus nvme load makes one"),
        FileError::NotEmpty { .. } => report.hint("--erase erases it"),
        FileError::Damaged { .. } => report.hint("grampus nvme load --erase makes a new one, without these files"),
        FileError::Exists { .. } => report.hint("grampus nvme remove it first, or load it --as another name"),
        FileError::NotFound { .. } => report.hint("grampus nvme files prints the names"),
        FileError::Full { .. } => report.hint("grampus nvme remove makes room"),
        FileError::Content { .. } => report.hint("the drive returns other bytes than it was given: do not trust it"),
        FileError::Name { .. } => report.hint("--as gives it another name"),
        _ => report,
    };
    report.into()
}
