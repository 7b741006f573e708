//! `DeviceState`: everything that is kept on a device from query to query.

use std::path::Path;
use std::sync::Arc;

use grampus_io_stack::cuda::{Device, Stream, host_compiler};
use grampus_io_stack::stack::StackError;

use crate::error::RunError;
use crate::input::FileVersion;
use crate::input::file_registry::{FileId, FileRegistry};
use crate::kernel_cache::KernelCache;
use crate::options::{GpuOptions, Target};
use crate::runtime::file_io::file_source::DIRECT_GRAIN_BYTES;
use crate::runtime::io_stack::command_backend::{CommandBackend, CommandOptions};
use crate::runtime::io_stack::status_block::StatusBlock;
use crate::runtime::memory::buffer_pool::BufferPool;
use crate::runtime::memory::constant_columns::ConstantColumns;
use crate::runtime::memory::mapped_files::MappedFiles;
use crate::runtime::memory::pinned_ring::MAX_COPY_BYTES;
use crate::runtime::memory::pinned_ring::PinnedRing;
use crate::runtime::memory::query_scratch::QueryScratch;
use crate::runtime::memory::staging_buffer::StagingBuffer;
use crate::runtime::paging::fault_buffer::FaultBuffer;
use crate::runtime::paging::fault_handler::SLOT_BYTES;
use crate::runtime::runtime_options::RuntimeOptions;
use crate::runtime::transfer::encoded_columns::CpuDecodeSet;
use crate::runtime::warmup;

/// Device memory of a host-thread device, if no bound says otherwise.
const HOST_MEMORY_BYTES: u64 = 4 << 30;
/// Bytes of the sector cache, at most; it also takes no more than a quarter of the device memory.
const MAX_CACHE_BYTES: u64 = 24 << 30;

/// Pages that kernels may miss in one pass, at most: 32 MiB of pinned memory. On host threads there are fewer, so that
/// tests exceed the bound.
const MAX_FAULTS: usize = 8 << 20;
const MAX_FAULTS_ON_HOST_THREADS: usize = 4 << 10;

/// Everything that lives in one context.
#[derive(Debug)]
pub(crate) struct DeviceState {
    pub(crate) device: Device,
    pub(crate) compute: Stream,
    pub(crate) copy: Stream,
    pub(crate) ring: Arc<PinnedRing>,
    pub(crate) page_slots: Arc<PinnedRing>,
    pub(crate) placing: Stream,
    pub(crate) faults: Arc<FaultBuffer>,
    pub(crate) pool: BufferPool,
    pub(crate) mapped_files: MappedFiles,
    pub(crate) constants: ConstantColumns,
    pub(crate) commands: CommandBackend,
    pub(crate) status: StatusBlock,
    pub(crate) scratch: QueryScratch,
    pub(crate) staging: StagingBuffer,
    pub(crate) cpu_decode: CpuDecodeSet,
    pub(crate) kernels: KernelCache,
    pub(crate) files: FileRegistry,
    pub(crate) runtime_options: RuntimeOptions,
    pub(crate) threads: usize,
}

impl DeviceState {
    pub(crate) fn open(options: &GpuOptions, runtime_options: &RuntimeOptions) -> Result<Self, RunError> {
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
        let cache_bytes = (usable / 4).min(MAX_CACHE_BYTES);
        let small = device.is_host();
        let commands = CommandOptions {
            cache_bytes: if small { cache_bytes.min(64 << 20) } else { cache_bytes },
            sector_log2: runtime_options.sector_log2,
            threads: if small { 1 } else { threads },
            small,
            timeout: runtime_options.timeout,
        };
        // A slot holds values, a byte of validity for each, and what alignment and whole grains add.
        let slot_bytes = MAX_COPY_BYTES as usize + MAX_COPY_BYTES as usize / 8 + 2 * DIRECT_GRAIN_BYTES;
        let slots = if small { 4 } else { (2 * threads).clamp(16, 64) };
        let ring = Arc::new(PinnedRing::new(&device, slot_bytes, slots));
        let page_slots = if small { 2 } else { (2 * threads).clamp(8, 32) };
        let page_slots = Arc::new(PinnedRing::new(&device, SLOT_BYTES, page_slots));
        let faults = if small { MAX_FAULTS_ON_HOST_THREADS } else { MAX_FAULTS };
        let faults = Arc::new(FaultBuffer::new(&device, faults));
        warmup::pin(&device, [&ring, &page_slots], &faults);
        Ok(Self {
            compute: Stream::new(&device)?,
            copy: Stream::new(&device)?,
            ring,
            page_slots,
            placing: Stream::new(&device)?,
            faults,
            pool: BufferPool::new(&device, usable - cache_bytes),
            mapped_files: MappedFiles::new(&device, options.pin_bytes.unwrap_or_else(|| host_memory_bytes() / 2)),
            constants: ConstantColumns::default(),
            commands: CommandBackend::new(&device, commands),
            status: StatusBlock::new(&device)?,
            scratch: QueryScratch::new(&device),
            staging: StagingBuffer::default(),
            cpu_decode: CpuDecodeSet::default(),
            kernels: KernelCache::new(&device, options.kernel_folder.clone())?,
            files: FileRegistry::default(),
            runtime_options: runtime_options.clone(),
            threads,
            device,
        })
    }

    /// The id of a file in one state. Everything cached of an earlier state is dropped.
    pub(crate) fn number(&mut self, version: &FileVersion) -> FileId {
        let (id, stale) = self.files.number(version);
        if let Some(stale) = stale {
            self.drop_file(stale);
        }
        id
    }

    /// Drops everything of a file that has changed since the query was planned.
    pub(crate) fn forget_file(&mut self, path: &Path) {
        if let Some(id) = self.files.forget(path) {
            self.drop_file(id);
        }
    }

    pub(crate) fn drop_file(&mut self, id: FileId) {
        self.pool.forget(id);
        self.cpu_decode.forget(id);
        self.mapped_files.forget(id);
        self.commands.forget(id);
    }

    /// After a failed query: drops what cannot be used again.
    pub(crate) fn after(&mut self, error: &RunError) {
        if matches!(
            error,
            RunError::Stack(StackError::OutOfService | StackError::Controller(_))
        ) {
            self.commands.rebuild();
        }
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
