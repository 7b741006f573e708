//! `RuntimeOptions`: settings of the runtime with defaults that rarely change.

use std::sync::Arc;
use std::time::Duration;

use crate::machine_profile::MachineProfile;
use crate::runtime::io_stack::command_backend::{OpenStorage, open_storage};
use crate::runtime::memory::staging_buffer::STAGING_BYTES;

/// Bytes that are copied between two launches: many enough that launches do not count, few enough that the last launch
/// does not.
const LAUNCH_BYTES: u64 = 64 << 20;

/// Settings of the runtime.
#[derive(Clone)]
pub struct RuntimeOptions {
    /// Rates of the machine.
    pub machine_profile: MachineProfile,
    /// Longest wait of kernels for anything.
    pub timeout: Duration,
    /// log2 of the bytes that a miss of the sector cache fetches, 7 to 12.
    pub sector_log2: u32,
    /// Bytes that are copied between two launches.
    pub launch_bytes: u64,
    /// Bytes of the staging buffer, in which encoded bytes wait until they are decoded, at most. It always holds two
    /// batches.
    pub staging_bytes: u64,
    /// Rows of a launch, at most; `None`: as many as the device reads in some milliseconds.
    pub launch_rows: Option<u64>,
    /// Opens the storage that answers commands for a file.
    pub open_storage: Arc<OpenStorage>,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            machine_profile: MachineProfile::default(),
            timeout: Duration::from_secs(10),
            sector_log2: 9,
            launch_bytes: LAUNCH_BYTES,
            staging_bytes: STAGING_BYTES,
            launch_rows: None,
            open_storage: Arc::new(open_storage),
        }
    }
}

impl std::fmt::Debug for RuntimeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            machine_profile,
            timeout,
            sector_log2,
            launch_bytes,
            staging_bytes,
            launch_rows,
            open_storage: _,
        } = self;
        f.debug_struct("RuntimeOptions")
            .field("machine_profile", machine_profile)
            .field("timeout", timeout)
            .field("sector_log2", sector_log2)
            .field("launch_bytes", launch_bytes)
            .field("staging_bytes", staging_bytes)
            .field("launch_rows", launch_rows)
            .finish_non_exhaustive()
    }
}
