//! `RuntimeOptions`: settings of the runtime with defaults that rarely change.

use std::sync::Arc;
use std::time::Duration;

use crate::machine_profile::MachineProfile;
use crate::runtime::io_stack::command_backend::{OpenStorage, open_storage};
use crate::runtime::memory::staging_buffer::STAGING_BYTES;

/// Bytes that are brought between two launches: long enough that launches do not count, short enough that the last one does not.
const LAUNCH_BYTES: u64 = 64 << 20;

/// What rarely needs to be other than it is.
#[derive(Clone)]
pub struct RuntimeOptions {
    /// What the machine gives.
    pub machine_profile: MachineProfile,
    /// Longest wait of kernels for anything.
    pub timeout: Duration,
    /// log2 of the bytes that a miss of the sector cache fetches, 7 to 12.
    pub sector_log2: u32,
    /// Bytes that are brought between two launches.
    pub launch_bytes: u64,
    /// Device memory that stored bytes wait in until they are decoded, at most; not less than two pieces.
    pub staging_bytes: u64,
    /// What answers commands for a file.
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
            open_storage: _,
        } = self;
        f.debug_struct("RuntimeOptions")
            .field("machine_profile", machine_profile)
            .field("timeout", timeout)
            .field("sector_log2", sector_log2)
            .field("launch_bytes", launch_bytes)
            .field("staging_bytes", staging_bytes)
            .finish_non_exhaustive()
    }
}
