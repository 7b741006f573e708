//! `DeviceOptions`: how a controller is driven.

use std::time::Duration;

use super::data_pointer::DataPointers;

/// How a device is driven.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceOptions {
    /// How data is described to the controller.
    pub pointers: DataPointers,
    /// Number of I/O queue pairs to ask for; 0: as many as the doorbells of the registers allow.
    pub queues: u16,
    /// Longest wait for a command; `None`: CAP.TO, the controller's own bound on becoming ready.
    pub command_timeout: Option<Duration>,
}
