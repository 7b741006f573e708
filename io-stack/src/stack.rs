//! `Stack`: storages, their controller, queues, cache and status. The controller is the software's, or an NVMe
//! controller whose queues the kernels drive.
//!
//! 1. A stack is built once and serves query after query.
//! 2. Before a query, `begin` clears status and counters; after its kernels, `finish` returns counters or the error.
//! 3. After a failed query, the stack returns to its start state.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use grampus_cuda::{CudaError, Device, DeviceBuffer, PinnedBuffer};
use grampus_driver::controller::{Controller, ControllerOptions};
use grampus_driver::files::NamespaceRange;
use grampus_driver::storage::Storage;

use crate::abi::{ColumnDesc, IoStack, LINE_BYTES, SourceDesc, Stats, Status};
use crate::bus::{CudaBus, StagingOptions};
use crate::cache::{Cache, CacheOptions, CacheUse};
use crate::column::extents_of;
pub use crate::column::{Column, Run};
use crate::command_server::CommandServer;
use crate::controller_queues::ControllerQueues;
pub use crate::error::StackError;
use crate::error::{DeviceError, Reason};
use crate::queues::{QueueOptions, Queues};
use crate::source::{MaxLines, Source, SourceBytes, describe_sources, sources_of};

/// Options of a stack.
#[derive(Debug, Clone)]
pub struct StackOptions {
    /// The queue pairs; all storages share them.
    pub queues: QueueOptions,
    /// The cache.
    pub cache: CacheOptions,
    /// The controller's threads, and their reads in flight.
    pub controller: ControllerOptions,
    /// The controller's staging memory.
    pub staging: StagingOptions,
    /// Longest wait of device code for anything.
    pub timeout: Duration,
    /// Longest transfer of one command, in lines of 4 KiB; at most a group of the cache.
    pub max_lines: u32,
}

impl Default for StackOptions {
    fn default() -> Self {
        Self {
            queues: QueueOptions::default(),
            cache: CacheOptions::default(),
            controller: ControllerOptions::default(),
            staging: StagingOptions::default(),
            timeout: Duration::from_secs(10),
            max_lines: 1024,
        }
    }
}

impl StackOptions {
    /// Longest transfers of one command: at least a line, and at most a group of the cache.
    fn max_lines_in_a_group(&self) -> MaxLines {
        let long = self.max_lines.clamp(1, 1 << self.cache.group_log2);
        let bounced = self.queues.bounce_bytes / LINE_BYTES as u32;
        MaxLines {
            long,
            short: if bounced == 0 { long } else { bounced.min(long) },
        }
    }
}

/// Lines that a warp may hold pinned at once: one per lane (`device/slow_path.cuh`).
pub const PINS_PER_WARP: u64 = 32;

/// The I/O stack. The server is the first field: it is dropped, and thereby stopped, before the memory that it
/// works on. Stores that no `flush` has made durable are lost with the stack.
#[derive(Debug)]
pub struct Stack {
    server: Option<CommandServer>,
    device: Device,
    sources: Vec<Source>,
    /// Key of the first unassigned line.
    next_line: u64,
    queues: Arc<Queues>,
    cache: Arc<Cache>,
    device_sources: DeviceBuffer,
    status: DeviceBuffer,
    stats: DeviceBuffer,
    abort: Arc<PinnedBuffer>,
    options: StackOptions,
    /// Set when commands may still be in flight: no memory may be reset or freed.
    broken: AtomicBool,
}

/// Sets the abort word of a running query from any thread.
#[derive(Debug, Clone)]
pub struct AbortHandle(Arc<PinnedBuffer>);

impl AbortHandle {
    /// Sets the abort word: kernels end at their next wait. No other data depends on the word.
    pub fn abort(&self) {
        self.0.store_u32(1);
    }
}

impl Stack {
    /// Builds queues, cache and controller for the storages, and starts the controller.
    ///
    /// `more_device_memory`: device memory that commands may write, in addition to the cache.
    ///
    /// # Errors
    /// Out of memory of some kind; a storage that cannot be opened.
    pub fn new(
        device: &Device,
        storages: Vec<Arc<dyn Storage>>,
        options: StackOptions,
        more_device_memory: &[&DeviceBuffer],
    ) -> Result<Self, StackError> {
        Self::over_storages(device, storages, options, more_device_memory, CacheUse::Read)
    }

    /// Like [`new`](Self::new), for kernels that may store to the storages that take writes. Stores are durable after a
    /// `flush` (`device/write_back.cuh`).
    ///
    /// # Errors
    /// [`StackError::NoBounce`], and those of `new`.
    pub fn writable(
        device: &Device,
        storages: Vec<Arc<dyn Storage>>,
        options: StackOptions,
        more_device_memory: &[&DeviceBuffer],
    ) -> Result<Self, StackError> {
        if options.queues.bounce_bytes == 0 {
            return Err(StackError::NoBounce);
        }
        Self::over_storages(device, storages, options, more_device_memory, CacheUse::Write)
    }

    /// A stack whose kernels drive queues of an NVMe controller. All `ranges` are on this controller; there is at least
    /// one. `writable`: as for [`writable`](Self::writable).
    ///
    /// Queues are fewer and shorter than `options` say where the controller grants no more, or has less memory for
    /// them. The software controller's options do not matter.
    ///
    /// # Errors
    /// As `new`; [`StackError::Nvme`], [`StackError::OtherController`].
    pub fn on_controller(
        device: &Device,
        ranges: Vec<NamespaceRange>,
        options: StackOptions,
        writable: bool,
    ) -> Result<Self, StackError> {
        let Some(controller) = ranges.first().map(|range| range.controller().clone()) else {
            return Err(StackError::OtherController("no range".to_owned()));
        };
        let queues = {
            let controller = controller.lock().unwrap_or_else(PoisonError::into_inner);
            Queues::on_controller(device, options.queues, &controller)?
        };
        let usage = if writable { CacheUse::Write } else { CacheUse::Read };
        let cache = Cache::new(device, options.cache, usage)?;
        let abort = Arc::new(PinnedBuffer::new(device, 4096)?);
        let server = CommandServer::Nvme(ControllerQueues::new(&controller, &queues, &abort)?);
        let mut stack = Self::with_server(device, server, (queues, cache, abort), options)?;
        stack.add_ranges(ranges)?;
        Ok(stack)
    }

    fn over_storages(
        device: &Device,
        storages: Vec<Arc<dyn Storage>>,
        options: StackOptions,
        more_device_memory: &[&DeviceBuffer],
        usage: CacheUse,
    ) -> Result<Self, StackError> {
        let queues = Queues::new(device, options.queues)?;
        let cache = Cache::new(device, options.cache, usage)?;
        let mut ranges = vec![cache.data_range()];
        ranges.extend(
            more_device_memory
                .iter()
                .map(|b| b.address()..b.address() + b.len() as u64),
        );
        let bus = Arc::new(CudaBus::new(device, queues.bounce().cloned(), ranges, options.staging));
        let started = Controller::start(queues.controller_side()?, Vec::new(), bus.clone(), &options.controller);
        let controller = started.map_err(|e| match bus.take_failure() {
            Some(failure) => StackError::Cuda(failure),
            None => e.into(),
        })?;
        controller.resume();
        let server = CommandServer::Software(controller);
        let abort = Arc::new(PinnedBuffer::new(device, 4096)?);
        let mut stack = Self::with_server(device, server, (queues, cache, abort), options)?;
        stack.add(storages)?;
        Ok(stack)
    }

    /// A stack without sources.
    fn with_server(
        device: &Device,
        server: CommandServer,
        (queues, cache, abort): (Queues, Cache, Arc<PinnedBuffer>),
        options: StackOptions,
    ) -> Result<Self, StackError> {
        Ok(Self {
            server: Some(server),
            device_sources: DeviceBuffer::filled(device, size_of::<SourceDesc>(), 0)?,
            status: DeviceBuffer::filled(device, size_of::<Status>(), 0)?,
            stats: DeviceBuffer::filled(device, size_of::<Stats>(), 0)?,
            abort,
            device: device.clone(),
            sources: Vec::new(),
            next_line: 1 << 12, // a group's border
            queues: Arc::new(queues),
            cache: Arc::new(cache),
            options,
            broken: AtomicBool::new(false),
        })
    }

    /// Adds storages behind the present ones, without stopping anything and without losing cached data. Returns the
    /// index of the first one. No kernel may run.
    ///
    /// # Errors
    /// A storage that cannot be opened: then none is added.
    pub fn add(&mut self, storages: Vec<Arc<dyn Storage>>) -> Result<u32, StackError> {
        if let (Some(CommandServer::Nvme(_)), Some(storage)) = (&self.server, storages.first()) {
            return Err(StackError::OtherController(storage.describe()));
        }
        self.add_sources(storages.into_iter().map(SourceBytes::Storage).collect())
    }

    /// The same, for a stack [`on_controller`](Self::on_controller).
    ///
    /// # Errors
    /// [`StackError::OtherController`]; out of device memory.
    pub fn add_ranges(&mut self, ranges: Vec<NamespaceRange>) -> Result<u32, StackError> {
        if let Some(range) = ranges.iter().find(|range| !self.is_on(range)) {
            return Err(StackError::OtherController(range.describe()));
        }
        self.add_sources(ranges.into_iter().map(SourceBytes::Namespace).collect())
    }

    /// Whether the software controller answers the stack's queues.
    pub fn takes_storages(&self) -> bool {
        matches!(self.server, Some(CommandServer::Software(_)))
    }

    /// Whether the stack's queues are those of a range's controller.
    pub fn is_on(&self, range: &NamespaceRange) -> bool {
        match &self.server {
            Some(CommandServer::Nvme(queues)) => queues.is_of(range.controller()),
            _ => false,
        }
    }

    fn add_sources(&mut self, sources: Vec<SourceBytes>) -> Result<u32, StackError> {
        let first = self.sources.len();
        self.sources.extend(sources_of(sources, &mut self.next_line));
        let told = self.tell_sources();
        if told.is_err() {
            self.retire(first as u32..self.sources.len() as u32);
        }
        told.map(|()| first as u32)
    }

    /// Closes storages. Their indices become invalid, and their lines are evicted unread. Stores to them that were not
    /// flushed are lost. No kernel may run.
    pub fn retire(&mut self, sources: impl IntoIterator<Item = u32>) {
        let mut keys = Vec::new();
        for source in sources {
            if let Some(source) = self.sources.get_mut(source as usize) {
                source.bytes = None;
                keys.push(source.keys());
            }
        }
        if let Err(e) = self.drop_stores(&keys).and_then(|()| self.tell_sources()) {
            log::warn!("closing storages: {e}");
        }
    }

    /// Drops the lines of these keys if kernels may have stored to them.
    fn drop_stores(&self, keys: &[Range<u64>]) -> Result<(), StackError> {
        if self.cache.desc().writes == 0 {
            return Ok(());
        }
        self.reset_without(keys)
    }

    fn tell_sources(&mut self) -> Result<(), StackError> {
        if let Some(server) = &self.server {
            server.set_sources(&self.sources)?;
        }
        let descs = describe_sources(&self.sources, self.queues.count(), self.options.max_lines_in_a_group());
        self.device_sources = DeviceBuffer::from_values(&self.device, &descs)?;
        Ok(())
    }

    /// The parameter that kernels take.
    pub fn io(&self) -> IoStack {
        IoStack {
            status: self.status.address(),
            stats: self.stats.address(),
            host_abort: self.abort.address(),
            queues: self.queues.address(),
            sources: self.device_sources.address(),
            timeout_ns: u64::try_from(self.options.timeout.as_nanos()).unwrap_or(u64::MAX),
            queue_count: self.queues.count(),
            servers: 0,
            source_count: self.sources.len() as u32,
            pad0: 0,
            cache: self.cache.desc(),
        }
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Like [`begin`](Self::begin), for a query whose launches have up to `warps` warps. Refuses if the warps could pin
    /// more lines than the cache has, each warp [`PINS_PER_WARP`] at once.
    ///
    /// # Errors
    /// [`StackError::CacheTooSmall`], and those of `begin`.
    pub fn begin_for(&self, warps: u64) -> Result<(), StackError> {
        if !self.has_room_for_pins(warps, PINS_PER_WARP) {
            return Err(StackError::CacheTooSmall {
                lines: self.cache.lines(),
                warps,
                pins: PINS_PER_WARP,
            });
        }
        self.begin()
    }

    /// Whether the cache has more lines than `warps` warps can pin, at `pins` lines each.
    pub fn has_room_for_pins(&self, warps: u64, pins: u64) -> bool {
        warps.saturating_mul(pins) <= self.cache.lines()
    }

    /// Describes a column of values of `value_bytes` each.
    ///
    /// # Errors
    /// A run outside its storage; out of device memory.
    pub fn column(&self, value_bytes: u32, runs: &[Run]) -> Result<Column, StackError> {
        let extents = extents_of(&self.sources, value_bytes, runs)?;
        let buffer = DeviceBuffer::from_values(&self.device, &extents)?;
        Ok(Column {
            desc: ColumnDesc {
                extents: buffer.address(),
                extent_count: extents.len() as u32,
                value_bytes,
            },
            _extents: buffer,
        })
    }

    /// Prepares a query: clears status, counters and abort word. A controller that has failed is reset.
    ///
    /// # Errors
    /// [`StackError::OutOfService`], or a failed call.
    pub fn begin(&self) -> Result<(), StackError> {
        if self.broken.load(Ordering::Acquire) {
            return Err(StackError::OutOfService);
        }
        if let Some(server) = &self.server {
            if server.has_failed() {
                self.reset()?;
            }
            server.wake();
        }
        self.abort.store_u32(0);
        self.status.fill(0)?;
        self.stats.fill(0)?;
        Ok(())
    }

    /// A handle that cancels the query running on this stack.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle(self.abort.clone())
    }

    /// Ends a query after its kernels: returns the counters, or the reason why the kernels ended early. The stream must
    /// be synchronised. No command of the query is in flight afterwards, and no completion of it reaches the next one:
    /// after a failure, and after prefetches that no kernel waited for, the queues return to their start state. The
    /// cache keeps the sectors that have arrived.
    ///
    /// # Errors
    /// [`StackError::Device`] with the contents of the status. [`StackError::Controller`] if a storage holds commands
    /// for more than another second: the stack is then out of service, because the commands may still write.
    pub fn finish(&self) -> Result<Stats, StackError> {
        let status: Status = one(&self.status)?;
        let stats: Stats = one(&self.stats)?;
        if let Some(server) = &self.server {
            server.query_ended();
        }
        let has_failed = self.server.as_ref().is_some_and(CommandServer::has_failed);
        let reason = Reason::of(&status).map(|reason| if has_failed { Reason::Controller } else { reason });
        match reason {
            None if has_failed || stats.completions < stats.commands => self.reset().map(|()| stats),
            None => Ok(stats),
            Some(reason) => {
                let error = self.describe(reason, &status);
                self.reset()?;
                Err(error.into())
            }
        }
    }

    /// Lets the controller come to rest, sets the queues to their start state, frees what commands and kernels held of
    /// the cache, and resumes the controller.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn reset(&self) -> Result<(), StackError> {
        self.reset_without(&[])
    }

    /// [`reset`](Self::reset), which drops the lines with these keys.
    fn reset_without(&self, dropped: &[Range<u64>]) -> Result<(), StackError> {
        if let Some(server) = &self.server {
            let out_of_service = |_: &StackError| self.broken.store(true, Ordering::Release);
            server.rest(Duration::from_secs(1)).inspect_err(out_of_service)?;
            self.queues.reset()?;
            self.cache.repair_without(dropped)?;
            server.resume().inspect_err(out_of_service)?;
        }
        Ok(())
    }

    /// Empties the cache, and nothing else. No kernel may run, and no command may be in flight.
    ///
    /// # Errors
    /// [`StackError::Unflushed`]: nothing was changed. A failed call.
    pub fn empty_cache(&self) -> Result<(), StackError> {
        match self.cache.dirty_lines()? {
            0 => Ok(self.cache.reset()?),
            lines => Err(StackError::Unflushed { lines }),
        }
    }

    fn describe(&self, reason: Reason, status: &Status) -> DeviceError {
        let by_line = self
            .sources
            .iter()
            .find(|s| status.line.wrapping_sub(s.first_line) < s.lines.max(1));
        // The software controller has a namespace for each source, an NVMe controller one for several.
        let of_block = |source: &&Source| {
            let range = source.position()..source.position() + source.size_bytes();
            source.nsid() == Some(status.nsid) && range.contains(&(status.lba << source.lba_log2()))
        };
        let by_nsid = match self.takes_storages() {
            true => (status.nsid as usize).checked_sub(1).and_then(|i| self.sources.get(i)),
            false => self.sources.iter().find(of_block),
        };
        let (source, offset) = match (by_nsid, by_line) {
            (Some(source), _) => (
                Some(source),
                Some((status.lba << source.lba_log2()).saturating_sub(source.position())),
            ),
            (None, Some(source)) => (Some(source), Some((status.line - source.first_line) * LINE_BYTES)),
            (None, None) => (None, None),
        };
        let words = self.server.as_ref().and_then(CommandServer::take_error);
        let known = |word: u32| (word != u32::MAX).then_some(word);
        let uses_queue = matches!(reason, Reason::NoCompletion | Reason::NoSubmission | Reason::Nvme(_));
        DeviceError {
            reason,
            storage: source.and_then(|s| Some(s.bytes.as_ref()?.describe())),
            offset,
            queue: known(status.queue)
                .filter(|_| uses_queue)
                .and_then(|q| self.queues.descs().get(q as usize))
                .map(|q| q.qid),
            cid: known(status.cid).filter(|_| matches!(reason, Reason::Nvme(_))),
            bytes: status.bytes,
            waited_ns: status.waited_ns,
            controller: words,
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let Some(server) = self.server.take() else {
            return;
        };
        if server.rest(Duration::from_secs(2)).is_err() {
            // Commands in flight will write into these buffers: their memory is left to the end of the process.
            log::error!("a storage stalls: the I/O stack's memory is not given back");
            std::mem::forget((self.queues.clone(), self.cache.clone()));
        }
        drop(server);
    }
}

fn one<T: grampus_cuda::Plain + Default>(buffer: &DeviceBuffer) -> Result<T, CudaError> {
    Ok(buffer.read::<T>(0, 1)?.pop().unwrap_or_default())
}
