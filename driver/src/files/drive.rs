//! [`Drive`]: a namespace of an open controller, with queues of its own.

use std::sync::{Arc, Mutex, PoisonError};

use super::block_channel::{BlockChannel, CommandCounts};
use super::file_error::FileError;
use crate::error::DriverError;
use crate::host::Device;
use crate::spec::NamespaceIdentity;

/// A namespace on which files lie. Several drives may share one controller.
#[derive(Debug, Clone)]
pub struct Drive {
    device: Arc<Mutex<Device>>,
    namespace: NamespaceIdentity,
    name: String,
    counts: Arc<CommandCounts>,
}

impl Drive {
    /// Namespace `nsid` of the controller that errors call `controller`.
    ///
    /// # Errors
    /// [`FileError::Namespace`] with the namespaces that there are, or the controller's failure.
    pub fn open(controller: &str, device: Arc<Mutex<Device>>, nsid: u32) -> Result<Self, FileError> {
        let name = format!("{controller}, namespace {nsid}");
        let listed = device.lock().unwrap_or_else(PoisonError::into_inner).namespaces();
        let namespaces = listed.map_err(|source| FileError::Device {
            drive: controller.to_owned(),
            during: "listing its namespaces".to_owned(),
            source,
        })?;
        let refused = |reason: String| FileError::Namespace {
            drive: name.clone(),
            reason,
        };
        let Some(namespace) = namespaces.iter().find(|namespace| namespace.nsid == nsid).cloned() else {
            let numbers: Vec<String> = namespaces.iter().map(|n| n.nsid.to_string()).collect();
            return Err(refused(match numbers.as_slice() {
                [] => "the controller has no namespace that can be used".to_owned(),
                numbers => format!("there is none; the controller has {}", numbers.join(", ")),
            }));
        };
        if namespace.format.metadata_bytes != 0 {
            return Err(refused("its blocks have metadata: format it without".to_owned()));
        }
        Ok(Self {
            device,
            namespace,
            name,
            counts: Arc::default(),
        })
    }

    /// The name in errors: `0000:01:00.0, namespace 1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace.
    pub fn namespace(&self) -> &NamespaceIdentity {
        &self.namespace
    }

    /// The commands that this drive and its clones have submitted.
    pub fn counts(&self) -> &Arc<CommandCounts> {
        &self.counts
    }

    /// The controller, for its logs and its shutdown.
    pub fn device(&self) -> &Arc<Mutex<Device>> {
        &self.device
    }

    /// An error of this drive.
    pub(super) fn failed(&self, during: impl Into<String>, source: DriverError) -> FileError {
        FileError::Device {
            drive: self.name.clone(),
            during: during.into(),
            source,
        }
    }

    /// A new queue with its staging memory.
    pub(super) fn channel(&self) -> Result<BlockChannel, FileError> {
        let channel = BlockChannel::new(&self.device, self.namespace.clone(), self.counts.clone());
        channel.map_err(|source| self.failed("making a queue", source))
    }
}
