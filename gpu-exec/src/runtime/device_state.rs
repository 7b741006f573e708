//! `DeviceState`: everything that is kept on a device from query to query.

use std::path::Path;
use std::sync::Arc;

use grampus_io_stack::cuda::{Device, Stream, host_compiler};
use grampus_io_stack::stack::StackError;

use crate::error::RunError;
use crate::input::FileVersion;
use crate::input::file_registry::{FileId, Files};
use crate::kernel_cache::Modules;
use crate::options::{GpuOptions, Target};
use crate::runtime::file_io::file_source::DIRECT_GRAIN_BYTES;
use crate::runtime::io_stack::command_backend::{Queued, QueuedOptions};
use crate::runtime::io_stack::status_block::Signals;
use crate::runtime::memory::buffer_pool::Pool;
use crate::runtime::memory::constant_columns::Constants;
use crate::runtime::memory::mapped_files::Mappings;
use crate::runtime::memory::pinned_ring::Ring;
use crate::runtime::memory::query_scratch::Scratch;
use crate::runtime::memory::staging_buffer::Staging;
use crate::runtime::paging::fault_buffer::Faults;
use crate::runtime::paging::fault_handler::SLOT_BYTES;
use crate::runtime::runtime_options::Tuning;
use crate::runtime::transfer::encoded_columns::ByCpu;
use crate::runtime::transfer::transfer_plan::PIECE_BYTES;
use crate::runtime::warmup;

/// Device memory of a host-thread device, if no bound says otherwise.
const HOST_MEMORY_BYTES: u64 = 4 << 30;
/// The sector cache's share of the device memory that may be used, at most.
const MOST_CACHE_BYTES: u64 = 24 << 30;

/// Pages that kernels may miss in one pass, at most: 32 MiB of pinned memory; and on host threads, where tests exceed it.
const MOST_FAULTS: usize = 8 << 20;
const SMALL_FAULTS: usize = 4 << 10;

/// Everything that lives in one context.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) device: Device,
    pub(crate) compute: Stream,
    pub(crate) copy: Stream,
    pub(crate) ring: Arc<Ring>,
    pub(crate) page_slots: Arc<Ring>,
    pub(crate) placing: Stream,
    pub(crate) faults: Arc<Faults>,
    pub(crate) pool: Pool,
    pub(crate) mappings: Mappings,
    pub(crate) constants: Constants,
    pub(crate) queued: Queued,
    pub(crate) signals: Signals,
    pub(crate) scratch: Scratch,
    pub(crate) staging: Staging,
    pub(crate) by_cpu: ByCpu,
    pub(crate) modules: Modules,
    pub(crate) files: Files,
    pub(crate) tuning: Tuning,
    pub(crate) threads: usize,
}

impl Live {
    pub(crate) fn open(options: &GpuOptions, tuning: &Tuning) -> Result<Self, RunError> {
        let threads = options.threads.max(1);
        warmup::make_room_for_files();
        let device = match options.target {
            Target::Cuda(ordinal) => Device::open(ordinal)?,
            Target::Host { threads } => {
                host_compiler()?;
                Device::host(
                    threads,
                    options.cache_bytes.map_or(HOST_MEMORY_BYTES, |b| 2 * b + (256 << 20)),
                )
            }
        };
        let free = device.facts()?.free_bytes;
        let usable = options.cache_bytes.unwrap_or(free / 4 * 3);
        let cache_bytes = (usable / 4).min(MOST_CACHE_BYTES);
        let small = device.is_host();
        let queued = QueuedOptions {
            cache_bytes: if small { cache_bytes.min(64 << 20) } else { cache_bytes },
            sector_log2: tuning.sector_log2,
            threads: if small { 1 } else { threads },
            small,
            timeout: tuning.timeout,
        };
        // A slot holds values, a byte of validity for each, and what alignment and whole grains add.
        let slot_bytes = PIECE_BYTES as usize + PIECE_BYTES as usize / 8 + 2 * DIRECT_GRAIN_BYTES;
        let slots = if small { 4 } else { (2 * threads).clamp(16, 64) };
        let ring = Arc::new(Ring::new(&device, slot_bytes, slots));
        let page_slots = if small { 2 } else { (2 * threads).clamp(8, 32) };
        let page_slots = Arc::new(Ring::new(&device, SLOT_BYTES, page_slots));
        let faults = if small { SMALL_FAULTS } else { MOST_FAULTS };
        let faults = Arc::new(Faults::new(&device, faults));
        warmup::pin(&device, [&ring, &page_slots], &faults);
        Ok(Self {
            compute: Stream::new(&device)?,
            copy: Stream::new(&device)?,
            ring,
            page_slots,
            placing: Stream::new(&device)?,
            faults,
            pool: Pool::new(&device, usable - cache_bytes),
            mappings: Mappings::new(&device, options.pin_bytes.unwrap_or_else(|| host_memory_bytes() / 2)),
            constants: Constants::default(),
            queued: Queued::new(&device, queued),
            signals: Signals::new(&device)?,
            scratch: Scratch::new(&device),
            staging: Staging::default(),
            by_cpu: ByCpu::default(),
            modules: Modules::new(&device, options.kernel_folder.clone())?,
            files: Files::default(),
            tuning: tuning.clone(),
            threads,
            device,
        })
    }

    /// The number of a file's state; of an earlier state everything is given up.
    pub(crate) fn number(&mut self, version: &FileVersion) -> FileId {
        let (id, stale) = self.files.number(version);
        if let Some(stale) = stale {
            self.drop_file(stale);
        }
        id
    }

    /// Gives up everything of a file that is not what was planned for.
    pub(crate) fn forget_file(&mut self, path: &Path) {
        if let Some(id) = self.files.forget(path) {
            self.drop_file(id);
        }
    }

    pub(crate) fn drop_file(&mut self, id: FileId) {
        self.pool.forget(id);
        self.by_cpu.forget(id);
        self.mappings.forget(id);
        self.queued.forget(id);
    }

    /// After a failed query: gives up what cannot be used again.
    pub(crate) fn after(&mut self, error: &RunError) {
        if matches!(
            error,
            RunError::Stack(StackError::OutOfService | StackError::Controller(_))
        ) {
            self.queued.rebuild();
        }
    }
}

/// Memory of this machine.
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
