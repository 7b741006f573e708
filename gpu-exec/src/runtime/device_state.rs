//! `DeviceState`: everything that is kept on a device from query to query, and that running queries share.
//!
//! **Invariant:** no lock of it is held while a query is waited for. Planning takes the lock of `residency` alone.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grampus_cuda::{Device, DeviceFacts, host_compiler};

use crate::error::RunError;
use crate::generated_kernels::GeneratedKernels;
use crate::input::FileVersion;
use crate::input::file_registry::FileId;
use crate::kernel_cache::KernelCache;
use crate::options::{GpuOptions, Target};
use crate::runtime::io_stack::command_backend::{CommandBackend, CommandOptions};
use crate::runtime::io_stack::shared_stack::SharedStack;
use crate::runtime::memory::buffer_pool::BufferPool;
use crate::runtime::memory::constant_columns::ConstantColumns;
use crate::runtime::memory::mapped_files::MappedFiles;
use crate::runtime::memory::residency::{Limits, Residency};
use crate::runtime::query_resources::{ResourcePool, make_pages};
use crate::runtime::runtime_options::RuntimeOptions;
use crate::runtime::warmup;

/// Device memory of a host-thread device, if no bound says otherwise.
const HOST_MEMORY_BYTES: u64 = 4 << 30;
/// Bytes of the sector cache, at most; it also takes no more than a quarter of the device memory. The first query that
/// reads by command takes them from the pool.
const MAX_CACHE_BYTES: u64 = 24 << 30;

/// Shared memory of a block on a GPU that is not open: as much as an H200 has.
const EXPECTED_SHARED_BYTES: u64 = 232_448;

/// Everything that lives in one context.
#[derive(Debug)]
pub(crate) struct DeviceState {
    pub(crate) device: Device,
    pub(crate) facts: DeviceFacts,
    pub(crate) residency: Arc<Residency>,
    pub(crate) resources: ResourcePool,
    pub(crate) pool: Mutex<BufferPool>,
    pub(crate) mapped_files: MappedFiles,
    pub(crate) constants: Mutex<ConstantColumns>,
    pub(crate) commands: SharedStack,
    pub(crate) kernels: KernelCache,
    pub(crate) generated: GeneratedKernels,
    pub(crate) runtime_options: RuntimeOptions,
    pub(crate) threads: usize,
}

/// The bounds of a device that is not open: those that the options give.
pub(crate) fn limits_before_opening(options: &GpuOptions, runtime_options: &RuntimeOptions) -> Limits {
    let memory = match options.target {
        Target::Cuda(_) | Target::CudaUuid(_) => u64::MAX,
        Target::Host { .. } => HOST_MEMORY_BYTES / 4 * 3,
    };
    let shared = runtime_options.block_shared_bytes;
    Limits {
        capacity: options.cache_bytes.unwrap_or(memory),
        pin_bytes: pin_bytes(options),
        block_shared_bytes: shared.unwrap_or(EXPECTED_SHARED_BYTES),
    }
}

fn pin_bytes(options: &GpuOptions) -> u64 {
    options.pin_bytes.unwrap_or_else(|| host_memory_bytes() / 2)
}

impl DeviceState {
    pub(crate) fn open(options: &GpuOptions, runtime_options: &RuntimeOptions) -> Result<Self, RunError> {
        let threads = options.threads.max(1);
        warmup::make_room_for_files();
        let pages = options.target.is_cuda().then(|| make_pages(threads));
        let device = match options.target {
            Target::Cuda(ordinal) => Device::open(ordinal)?,
            Target::CudaUuid(uuid) => Device::open_uuid(uuid)?,
            Target::Host { threads, lanes } => {
                host_compiler()?;
                let memory = options.cache_bytes.map_or(HOST_MEMORY_BYTES, |b| 2 * b + (256 << 20));
                Device::host_of_lanes(threads, lanes, memory, runtime_options.host_faults.clone())
            }
        };
        let facts = device.facts()?;
        let usable = options.cache_bytes.unwrap_or(facts.free_bytes / 4 * 3);
        let cache_bytes = (usable / 4).min(MAX_CACHE_BYTES);
        let small = device.is_host();
        let commands = CommandOptions {
            cache_bytes: if small { cache_bytes.min(64 << 20) } else { cache_bytes },
            sector_log2: runtime_options.sector_log2,
            threads: if small { 1 } else { threads },
            small,
            timeout: runtime_options.timeout,
        };
        let residency = Arc::new(Residency::new(Limits {
            capacity: usable,
            pin_bytes: pin_bytes(options),
            block_shared_bytes: (runtime_options.block_shared_bytes).map_or(device.block_shared_bytes(), |most| {
                most.min(device.block_shared_bytes())
            }),
        }));
        Ok(Self {
            resources: ResourcePool::new(&device, threads, runtime_options, pages)?,
            pool: Mutex::new(BufferPool::new(&device, &residency, usable)),
            mapped_files: MappedFiles::new(&device, &residency, pin_bytes(options)),
            constants: Mutex::default(),
            commands: SharedStack::new(CommandBackend::new(&device, commands)),
            kernels: KernelCache::new(&device, options.kernel_folder.clone())?,
            generated: GeneratedKernels::default(),
            runtime_options: runtime_options.clone(),
            threads,
            residency,
            facts,
            device,
        })
    }

    pub(crate) fn pool(&self) -> MutexGuard<'_, BufferPool> {
        // A panic ends the state (`Gpu::run`).
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of a file in one state. Everything cached of an earlier state is dropped.
    pub(crate) fn number(&self, version: &FileVersion) -> FileId {
        let (id, stale) = self.residency.number(version);
        if let Some(stale) = stale {
            self.drop_file(stale);
        }
        id
    }

    /// Drops everything of a file that has changed since the query was planned.
    pub(crate) fn forget_file(&self, path: &Path) {
        if let Some(id) = self.residency.forget_path(path) {
            self.drop_file(id);
        }
    }

    /// Drops everything cached of a file. What running queries read of it stays until they have ended.
    pub(crate) fn drop_file(&self, id: FileId) {
        self.pool().forget(id);
        self.residency.forget_decoding(id);
        self.mapped_files.forget(id);
        self.commands.forget(id);
    }
}

/// Bytes of memory of this machine.
fn host_memory_bytes() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let info = rustix::system::sysinfo();
        info.totalram as u64 * u64::from(info.mem_unit)
    }
    #[cfg(not(target_os = "linux"))]
    {
        16 << 30
    }
}
