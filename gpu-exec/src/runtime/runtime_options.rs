//! `RuntimeOptions`: settings of the runtime with defaults that rarely change.

use std::sync::Arc;
use std::time::Duration;

use grampus_cuda::HostFaults;

use crate::machine_profile::MachineProfile;
use crate::runtime::io_stack::command_backend::{OpenStorage, open_storage};

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
    /// Bytes of the staging buffer, in which encoded bytes wait until they are decoded, at most. Each of its parts
    /// holds a batch. Pages of encoded columns have a quarter of it beside. `None`: by the device's memory, 256 MiB to
    /// 2 GiB.
    pub staging_bytes: Option<u64>,
    /// Bytes in which nvCOMP works for one query, at most. `None`: by the device's memory, 512 MiB to 4 GiB.
    pub nvcomp_bytes: Option<u64>,
    /// Rows of a launch, at most; `None`: as many as the device reads in some milliseconds.
    pub launch_rows: Option<u64>,
    /// Shared memory of a block, in bytes, at most; `None`: as much as the device has.
    pub block_shared_bytes: Option<u64>,
    /// Opens the storage that answers commands for a file.
    pub open_storage: Arc<OpenStorage>,
    /// Operations of host threads that fail on purpose, for tests. A GPU's do not.
    pub host_faults: Arc<HostFaults>,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            machine_profile: MachineProfile::default(),
            timeout: Duration::from_secs(10),
            sector_log2: 9,
            launch_bytes: LAUNCH_BYTES,
            staging_bytes: None,
            nvcomp_bytes: None,
            launch_rows: None,
            block_shared_bytes: None,
            open_storage: Arc::new(open_storage),
            host_faults: Arc::default(),
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
            nvcomp_bytes,
            launch_rows,
            block_shared_bytes,
            open_storage: _,
            host_faults: _,
        } = self;
        f.debug_struct("RuntimeOptions")
            .field("machine_profile", machine_profile)
            .field("timeout", timeout)
            .field("sector_log2", sector_log2)
            .field("launch_bytes", launch_bytes)
            .field("staging_bytes", staging_bytes)
            .field("nvcomp_bytes", nvcomp_bytes)
            .field("launch_rows", launch_rows)
            .field("block_shared_bytes", block_shared_bytes)
            .finish_non_exhaustive()
    }
}
