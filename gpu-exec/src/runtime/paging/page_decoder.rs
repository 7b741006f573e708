//! `PageDecoder`: pages that the device decompresses and decodes, many in one launch.
//!
//! 1. Threads add gathers, each in a slot of the pinned ring. The copy engine brings them to one half of the staging
//!    memory.
//! 2. If enough pages wait, if the half is full, or if the pass has ended, everything that waits is launched: chunks
//!    are decompressed, and row groups decoded to where query kernels will read them.
//! 3. Gathers go to the other half meanwhile. Copies into a half wait for the kernels that read it.
//! 4. When the pass has ended, the host reads which launches failed (`finish`). Their pages are the CPU's to decode.
//!
//! **Invariant:** query kernels read no page before `finish` has said that its launch did not fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grampus_cuda::{CudaError, DeviceBuffer, Event, Part, Slot, Stream};

use crate::decode::decode_batch::MAX_EXPANSION;
use crate::decode::group_gather::{GatherLimits, GroupGather};
use crate::decompress::chunk_table::ChunkTable;
use crate::error::RunError;
use crate::runtime::decoding::chunk_decompressor::{ChunkDecompressor, InUse};
use crate::runtime::decoding::decode_context::DecodeContext;
use crate::runtime::decoding::decode_kernel::{DecodeKernel, DecodeTasks};
use crate::runtime::memory::page_staging::PageStaging;
use crate::runtime::memory::pinned_ring::{MAX_COPY_BYTES, PinnedRing};

/// Pages that are launched while further ones are gathered: a GPU has some thousand warps, and each takes one page.
const LAUNCH_PAGES: usize = 4 << 10;
/// Launches between two looks at what failed.
const MAX_LAUNCHES: usize = 4 << 10;
/// The same on host threads, so that tests exceed the bound.
const MAX_LAUNCHES_ON_HOST_THREADS: usize = 4;
/// Gathers begin at multiples of this.
const GATHER_GRAIN_BYTES: usize = 256;

/// A gather that is not launched yet.
struct Waiting {
    pages: Vec<u32>,
    tasks: DecodeTasks,
    chunks: Option<ChunkTable>,
}

/// A launch whose outcome is not known yet.
struct Launched {
    pages: Vec<u32>,
    _in_use: InUse,
}

/// Pages of a launch that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedPages {
    /// Label of a column that the device could not decode.
    pub(crate) label: u32,
    pub(crate) pages: Vec<u32>,
}

/// Staging memory: a word for each launch, in which it notes that it failed, and two halves.
struct Memory {
    buffer: Arc<DeviceBuffer>,
    half_bytes: usize,
    /// The half that gathers go to, and its bytes that are taken.
    half: usize,
    used: usize,
    /// For each half: reached when the kernels that read it have ended.
    decoded: [Event; 2],
}

impl Memory {
    fn half_at(&self, half: usize) -> usize {
        self.buffer.len() - (2 - half) * self.half_bytes
    }
}

#[derive(Default)]
struct DecoderState {
    memory: Option<Memory>,
    is_short: bool,
    kernel: Option<DecodeKernel>,
    waiting: Vec<Waiting>,
    launched: Vec<Launched>,
    failed: Vec<FailedPages>,
    /// Recorded around each launch.
    times: Vec<(Event, Event)>,
    compile: Duration,
}

/// The pages of one query.
pub(crate) struct PageDecoder<'a> {
    /// Its stream is the one in which pages are put in their places.
    decoding: DecodeContext<'a>,
    staging: &'a PageStaging,
    /// Stream and slots of the copies to the device.
    copies: (&'a Stream, &'a PinnedRing),
    max_launches: usize,
    state: Mutex<DecoderState>,
}

impl<'a> PageDecoder<'a> {
    pub(crate) fn new(
        decoding: DecodeContext<'a>,
        staging: &'a PageStaging,
        copies: (&'a Stream, &'a PinnedRing),
    ) -> Self {
        Self {
            decoding,
            staging,
            copies,
            max_launches: match decoding.device.is_host() {
                true => MAX_LAUNCHES_ON_HOST_THREADS,
                false => MAX_LAUNCHES,
            },
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, DecoderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of a gather, at most; `None`: the device has no memory, and the CPU decodes.
    pub(crate) fn limits(&self) -> Result<Option<GatherLimits>, CudaError> {
        let mut state = self.state();
        self.take_memory(&mut state)?;
        Ok(state.memory.as_ref().map(|memory| GatherLimits {
            bytes: MAX_COPY_BYTES as usize,
            space: memory.half_bytes.min((1 + MAX_EXPANSION) * MAX_COPY_BYTES as usize),
        }))
    }

    fn take_memory(&self, state: &mut DecoderState) -> Result<(), CudaError> {
        if state.memory.is_some() || state.is_short {
            return Ok(());
        }
        let device = self.decoding.device;
        let Some(buffer) = self.staging.buffer(device)? else {
            state.is_short = true;
            return Ok(());
        };
        let halves = buffer.len().saturating_sub(8 * self.max_launches);
        state.memory = Some(Memory {
            half_bytes: halves / 2 / GATHER_GRAIN_BYTES * GATHER_GRAIN_BYTES,
            buffer,
            half: 0,
            used: 0,
            decoded: [Event::new(device, false)?, Event::new(device, false)?],
        });
        let kernel = DecodeKernel::new(&self.decoding)?;
        state.compile += kernel.compile;
        state.kernel = Some(kernel);
        Ok(())
    }

    /// Copies a gather to the device. The slot holds its stored bytes, and space for its tables before them.
    pub(crate) fn add(&self, mut slot: Slot, gather: &GroupGather, pages: Vec<u32>) -> Result<(), RunError> {
        let (bytes, space) = (gather.bytes(), gather.space().next_multiple_of(GATHER_GRAIN_BYTES));
        let mut state = self.state();
        let is_full = |memory: &Memory| memory.used + space > memory.half_bytes;
        if state.memory.as_ref().is_some_and(is_full) {
            self.launch(&mut state)?;
            if let Some(memory) = &mut state.memory {
                (memory.half, memory.used) = (1 - memory.half, 0);
                self.copies.0.wait(&memory.decoded[memory.half])?;
            }
        }
        let Some(memory) = &mut state.memory else {
            return Err(RunError::Invalid(
                "pages are gathered without memory for them".to_owned(),
            ));
        };
        let offset = memory.half_at(memory.half) + memory.used;
        memory.used += space;
        let address = memory.buffer.address() + offset as u64;
        gather.describe(address, slot.bytes_mut());
        let part = Part {
            from: 0,
            len: bytes,
            to: &memory.buffer,
            to_offset: offset,
        };
        let pushed = slot.upload(self.copies.0, &[part])?;
        self.copies.1.pushed(pushed);
        state.waiting.push(Waiting {
            pages,
            tasks: DecodeTasks {
                address,
                count: gather.tasks() as u32,
            },
            chunks: gather.chunk_table(address),
        });
        if state.waiting.iter().map(|w| w.pages.len()).sum::<usize>() >= LAUNCH_PAGES {
            self.launch(&mut state)?;
        }
        Ok(())
    }

    /// Launches everything that waits.
    fn launch(&self, state: &mut DecoderState) -> Result<(), CudaError> {
        let context = &self.decoding;
        if state.launched.len() == self.max_launches {
            context.stream.synchronize()?;
            check(state)?;
        }
        let waiting = std::mem::take(&mut state.waiting);
        let (Some(memory), Some(kernel), false) = (&state.memory, &state.kernel, waiting.is_empty()) else {
            return Ok(());
        };
        let word = 8 * state.launched.len();
        let failed = memory.buffer.address() + word as u64;
        let event = |timed| Event::new(context.device, timed);
        let (arrived, before, after) = (event(false)?, event(true)?, event(true)?);
        arrived.record(self.copies.0)?;
        context.stream.wait(&arrived)?;
        context.stream.fill(&memory.buffer, word, 8, 0)?;
        before.record(context.stream)?;
        let tables: Vec<ChunkTable> = waiting.iter().filter_map(|waiting| waiting.chunks).collect();
        let decompressor = ChunkDecompressor::new(*context, &tables, failed)?;
        decompressor.decompress(&tables)?;
        kernel.launch(context, waiting.iter().map(|waiting| waiting.tasks), failed)?;
        after.record(context.stream)?;
        memory.decoded[memory.half].record(context.stream)?;
        state.compile += decompressor.compile;
        state.times.push((before, after));
        state.launched.push(Launched {
            pages: waiting.into_iter().flat_map(|waiting| waiting.pages).collect(),
            _in_use: decompressor.in_use(),
        });
        Ok(())
    }

    /// Launches the rest, and waits for all kernels. Returns the pages of launches that failed.
    ///
    /// # Errors
    /// [`RunError::Cancelled`]: `stop` says so. A failure of the device.
    pub(crate) fn finish(&self, stop: impl Fn() -> bool) -> Result<Vec<FailedPages>, RunError> {
        let mut state = self.state();
        self.launch(&mut state)?;
        if let Some((_, last)) = state.times.last().filter(|_| !state.launched.is_empty()) {
            while !last.reached_soon(false)? {
                if stop() {
                    return Err(RunError::Cancelled);
                }
            }
        }
        check(&mut state)?;
        Ok(std::mem::take(&mut state.failed))
    }

    /// Time that decoding took on the device, once everything has ended, and time to load kernels.
    pub(crate) fn times(&self) -> (Duration, Duration) {
        let state = self.state();
        let ms = |(before, after): &(Event, Event)| after.ms_since(before).map_or(0.0, |ms| ms.max(0.0));
        let decoding = state.times.iter().map(ms).sum::<f64>();
        (Duration::from_secs_f64(decoding / 1e3), state.compile)
    }
}

/// Notes which launches failed. All have ended.
fn check(state: &mut DecoderState) -> Result<(), CudaError> {
    let Some(memory) = state.memory.as_ref().filter(|_| !state.launched.is_empty()) else {
        return Ok(());
    };
    let words = memory.buffer.read::<u64>(0, state.launched.len())?;
    for (word, launched) in words.into_iter().zip(state.launched.drain(..)) {
        if let Some(label) = (word as u32).checked_sub(1) {
            let pages = launched.pages;
            state.failed.push(FailedPages { label, pages });
        }
    }
    Ok(())
}
