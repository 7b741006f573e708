//! Running programs: what is kept on a GPU from query to query, and the way of one query through it.
//!
//! ```text
//! ahead            what is done before the first query needs it
//! check, prepare   the request, its files, and what serves each column (choose, by cost and calibration)
//! execute          one query: bring, stage, drive; again with a larger group table if need be
//! bring            where every value will be (pool, mapping, constants; extents), and jobs for what is missing: as bytes of files, as stored
//!                  bytes that the device decodes (stored, through staging), or as the CPU decodes it
//! drive            reader threads do the jobs (push, from source through ring), kernels are launched behind them (launches): first those that decode
//!                  (arrivals), then the query's
//! passes           as often as it takes: pages that kernels miss (faults) are gathered by threads (gather) and placed (pages)
//! placed           what launches are told, and what they leave
//! queued           the I/O stack for columns that kernels ask for by command; signals where there is none
//! scratch          device memory of one query
//! ```

mod ahead;
mod arena;
mod arrivals;
mod bring;
pub mod calibration;
mod check;
mod choose;
mod constants;
mod cost;
mod drive;
mod execute;
mod extents;
mod faults;
mod files;
mod gather;
mod job;
mod launches;
mod mapping;
mod page_reads;
mod pages;
mod passes;
mod placed;
mod pool;
mod prepare;
mod push;
mod queued;
mod residency;
mod ring;
mod scratch;
mod signals;
mod source;
mod staging;
mod stored;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use grampus_io_stack::cuda::{Device, DeviceFacts, Stream, host_compiler};
use grampus_io_stack::stack::StackError;

use self::bring::PIECE_BYTES;
use self::calibration::Calibration;
use self::constants::Constants;
use self::faults::Faults;
use self::files::{FileId, Files};
use self::mapping::Mappings;
use self::pool::Pool;
pub use self::queued::OpenStorage;
use self::queued::{Queued, QueuedOptions, open_storage};
use self::ring::Ring;
use self::scratch::Scratch;
use self::signals::Signals;
use self::source::DIRECT_GRAIN_BYTES;
use self::staging::Staging;
use self::stored::ByCpu;
use crate::compile::Modules;
use crate::gpu::{ColumnChoice, GpuOptions, Request, Target};
use crate::input::FileVersion;
use crate::output::{Output, RunError};

/// Device memory of a host-thread device, if no bound says otherwise.
const HOST_MEMORY_BYTES: u64 = 4 << 30;
/// The sector cache's share of the device memory that may be used, at most.
const MOST_CACHE_BYTES: u64 = 24 << 30;

/// Pages that kernels may miss in one pass, at most: 32 MiB of pinned memory; and on host threads, where tests exceed it.
const MOST_FAULTS: usize = 8 << 20;
const SMALL_FAULTS: usize = 4 << 10;

/// What rarely needs to be other than it is.
#[derive(Clone)]
pub struct Tuning {
    /// What the machine gives.
    pub calibration: Calibration,
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

impl Default for Tuning {
    fn default() -> Self {
        Self {
            calibration: Calibration::default(),
            timeout: Duration::from_secs(10),
            sector_log2: 9,
            launch_bytes: launches::LAUNCH_BYTES,
            staging_bytes: staging::STAGING_BYTES,
            open_storage: Arc::new(open_storage),
        }
    }
}

impl std::fmt::Debug for Tuning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            calibration,
            timeout,
            sector_log2,
            launch_bytes,
            staging_bytes,
            open_storage: _,
        } = self;
        f.debug_struct("Tuning")
            .field("calibration", calibration)
            .field("timeout", timeout)
            .field("sector_log2", sector_log2)
            .field("launch_bytes", launch_bytes)
            .field("staging_bytes", staging_bytes)
            .finish_non_exhaustive()
    }
}

/// A GPU with what is kept on it. Queries of several threads run one after the other.
#[derive(Debug)]
pub struct Gpu {
    options: GpuOptions,
    tuning: Tuning,
    facts: DeviceFacts,
    /// `None` after a failure that ended the context: opened anew by the next query.
    live: Mutex<Option<Live>>,
}

/// Everything that lives in one context.
#[derive(Debug)]
pub(crate) struct Live {
    device: Device,
    compute: Stream,
    copy: Stream,
    ring: Arc<Ring>,
    page_slots: Arc<Ring>,
    placing: Stream,
    faults: Arc<Faults>,
    pool: Pool,
    mappings: Mappings,
    constants: Constants,
    queued: Queued,
    signals: Signals,
    scratch: Scratch,
    staging: Staging,
    by_cpu: ByCpu,
    modules: Modules,
    files: Files,
    tuning: Tuning,
    threads: usize,
}

impl Gpu {
    /// Opens the device; takes no memory worth mentioning yet.
    ///
    /// # Errors
    /// [`RunError::Cuda`]: no driver, no such GPU, or no C++ compiler for host threads.
    pub fn open(options: GpuOptions) -> Result<Self, RunError> {
        Self::open_with(options, Tuning::default())
    }

    /// As [`open`](Self::open), with everything said.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(options: GpuOptions, tuning: Tuning) -> Result<Self, RunError> {
        let live = Live::open(&options, &tuning)?;
        Ok(Self {
            facts: live.device.facts()?,
            options,
            tuning,
            live: Mutex::new(Some(live)),
        })
    }

    /// The device, as it was when it was opened.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Runs a program.
    ///
    /// # Errors
    /// Why it was not run to its end. The next request works, or says why not.
    pub fn run(&self, request: Request<'_>) -> Result<Output, RunError> {
        let mut guard = self.lock(Some(&request))?;
        let live = self.live(&mut guard)?;
        let result = execute::run(live, &request);
        if let Err(e) = &result {
            live.after(e);
            if is_sticky(e) {
                *guard = None;
            }
        }
        result
    }

    /// How each column of a request would be read now. Runs nothing and moves nothing.
    ///
    /// # Errors
    /// What [`run`](Self::run) would say before it moves anything.
    pub fn plan(&self, request: Request<'_>) -> Result<Vec<ColumnChoice>, RunError> {
        let mut guard = self.lock(Some(&request))?;
        Ok(prepare::prepare(self.live(&mut guard)?, &request)?.choices)
    }

    /// The text of the kernel that would be run now, without the headers.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn text(&self, request: Request<'_>) -> Result<String, RunError> {
        let mut guard = self.lock(Some(&request))?;
        let prepared = prepare::prepare(self.live(&mut guard)?, &request)?;
        execute::text(&request, &prepared)
    }

    /// Bytes of columns that are on the device.
    pub fn resident_bytes(&self) -> u64 {
        match self.lock(None) {
            Ok(guard) => guard.as_ref().map_or(0, |live| live.pool.resident_bytes()),
            Err(_) => 0,
        }
    }

    /// Gives up what is kept: resident columns, mappings, the sector cache; compiled kernels stay. For measuring.
    ///
    /// # Errors
    /// A device that is lost.
    pub fn forget(&self) -> Result<(), RunError> {
        let mut guard = self.lock(None)?;
        let live = self.live(&mut guard)?;
        live.files.all().into_iter().for_each(|file| live.drop_file(file));
        Ok(())
    }

    /// Waits for the query of another thread to end, looking at this one's flag meanwhile.
    fn lock(&self, request: Option<&Request<'_>>) -> Result<MutexGuard<'_, Option<Live>>, RunError> {
        loop {
            if request.is_some_and(|r| r.cancel.load(Ordering::Relaxed)) {
                return Err(RunError::Cancelled);
            }
            match self.live.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(200)),
                Err(TryLockError::Poisoned(poisoned)) => {
                    // A query panicked half-way: what it left is not to be trusted.
                    let mut guard = poisoned.into_inner();
                    *guard = None;
                    self.live.clear_poison();
                    return Ok(guard);
                }
            }
        }
    }

    fn live<'a>(&self, guard: &'a mut MutexGuard<'_, Option<Live>>) -> Result<&'a mut Live, RunError> {
        if guard.is_none() {
            **guard = Some(Live::open(&self.options, &self.tuning)?);
        }
        guard.as_mut().ok_or_else(|| RunError::Invalid("no device".to_owned()))
    }
}

/// Whether the context is dead after it.
fn is_sticky(error: &RunError) -> bool {
    match error {
        RunError::Cuda(e) | RunError::Stack(StackError::Cuda(e)) => e.is_sticky(),
        _ => false,
    }
}

impl Live {
    fn open(options: &GpuOptions, tuning: &Tuning) -> Result<Self, RunError> {
        let threads = options.threads.max(1);
        ahead::make_room_for_files();
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
        let page_slots = Arc::new(Ring::new(&device, gather::SLOT_BYTES, page_slots));
        let faults = if small { SMALL_FAULTS } else { MOST_FAULTS };
        let faults = Arc::new(Faults::new(&device, faults));
        ahead::pin(&device, [&ring, &page_slots], &faults);
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
    fn number(&mut self, version: &FileVersion) -> FileId {
        let (id, stale) = self.files.number(version);
        if let Some(stale) = stale {
            self.drop_file(stale);
        }
        id
    }

    /// Gives up everything of a file that is not what was planned for.
    fn forget_file(&mut self, path: &Path) {
        if let Some(id) = self.files.forget(path) {
            self.drop_file(id);
        }
    }

    fn drop_file(&mut self, id: FileId) {
        self.pool.forget(id);
        self.by_cpu.forget(id);
        self.mappings.forget(id);
        self.queued.forget(id);
    }

    /// After a failed query: gives up what cannot be used again.
    fn after(&mut self, error: &RunError) {
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

const _: fn() = || {
    fn thread_safe<T: Send + Sync>() {}
    thread_safe::<Gpu>();
};
