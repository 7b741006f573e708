//! The running of one attempt at a query: reader threads bring bytes, kernels are launched as these come, and in the end what the
//! kernels left is read back. Whatever happens, nothing is under way any more when it returns.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use grampus_io_stack::cuda::{Args, Device, Event, Kernel, Stream};
use grampus_io_stack::layout::{ColumnDesc, Extent, IoStack, Stats, bytes_of};
use grampus_io_stack::stack::{Column, Stack, StackError};
use grampus_io_stack::status::Reason;

use super::arrivals::{self, Arrivals};
use super::bring::{Bringing, bases};
use super::calibration::LINK_SECTOR_BYTES;
use super::launches::{Launch, divide};
use super::prepare::Prepared;
use super::push::{Pusher, What};
use super::ring::Ring;
use super::scratch::{Given, Scratch, Wanted};
use super::signals::Signals;
use crate::codegen::{BLOCK_THREADS, ENTRY, GPU_LANES, HOST_LANES, Left, Merged, QueryKernel};
use crate::compile::{Modules, Origin};
use crate::gpu::{Backing, Request};
use crate::output::{Cost, Output, RunError};
use crate::params::{
    LAUNCH_FIRST, LAUNCH_FLUSH, LAUNCH_LAST, PATIENCE_ENDLESS, QueryHead, Refusal, RowRun, Sizes, argument_bits,
    parameter, row_runs,
};

/// Warps of a block.
const BLOCK_WARPS: u32 = BLOCK_THREADS / GPU_LANES;
/// Blocks on a multiprocessor at most: what kernels' registers are bounded for.
const MOST_BLOCKS: u32 = 4;
/// The same where columns are read over PCIe.
const MOST_BLOCKS_MAPPED: u32 = 1;

/// Tiles for which rows wait that need values over PCIe, besides the one they are in.
const PATIENT_TILES: u32 = 0;

/// What one attempt came to.
pub(super) enum Attempt {
    Done(Box<Output>),
    /// The group table was too small.
    MoreGroups,
    /// A column of a stripe is not what the device decodes: what was computed is nothing.
    Undecoded {
        stripe: usize,
        column: usize,
    },
}

/// The I/O stack, or what stands for it.
pub(super) struct Stage<'a> {
    pub(super) io: IoStack,
    pub(super) stack: Option<&'a Stack>,
    /// Columns that are read through the stack; their extents live as long as kernels run.
    pub(super) columns: Vec<Option<Column>>,
}

/// A query, ready to be run.
pub(super) struct Query<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) prepared: &'a Prepared,
    pub(super) bringing: &'a Bringing,
    pub(super) kernel: &'a QueryKernel,
    pub(super) stage: Stage<'a>,
    /// log2 of the group table's slots, if there is one.
    pub(super) slots_log2: Option<u32>,
}

/// What it runs on.
pub(super) struct Machine<'a> {
    pub(super) device: &'a Device,
    pub(super) compute: &'a Stream,
    pub(super) copy: &'a Stream,
    pub(super) ring: &'a Ring,
    pub(super) modules: &'a Modules,
    pub(super) scratch: &'a mut Scratch,
    pub(super) signals: &'a Signals,
    pub(super) threads: usize,
    pub(super) launch_bytes: u64,
}

/// Brings, launches, reads back.
pub(super) fn drive(query: &Query<'_>, machine: Machine<'_>, mut cost: Cost) -> Result<Attempt, RunError> {
    let (compute, copy, signals) = (machine.compute, machine.copy, machine.signals);
    let pusher = Pusher::new(
        machine.ring,
        copy,
        &query.bringing.jobs,
        &query.prepared.sources,
        &*query.request.input.decoder,
        query.request.cancel,
    );
    let readers = machine.threads.max(1).min(query.bringing.jobs.len());
    let began = Instant::now();
    let launched = std::thread::scope(|scope| {
        for _ in 0..readers {
            let thread = std::thread::Builder::new().name("grampus-reader".to_owned());
            if let Err(e) = thread.spawn_scoped(scope, || pusher.work()) {
                pusher.stop();
                return Err(RunError::Refused(format!("no thread for reading: {e}")));
            }
        }
        let launched = query.launch(machine, &pusher, &mut cost);
        pusher.stop();
        launched
    });
    if launched.is_err()
        && let Some(stack) = query.stage.stack
    {
        stack.abort_handle().abort();
    }
    let quiet = copy.synchronize().and_then(|()| compute.synchronize());
    let ended = match query.stage.stack {
        Some(stack) => stack.finish(),
        None => signals.finish().map(|()| Stats::default()),
    };
    let left = launched?;
    quiet?;
    let stats = ended.map_err(|e| match e {
        StackError::Device(d) if d.reason == Reason::Aborted && query.cancelled() => RunError::Cancelled,
        other => other.into(),
    })?;
    cost.scan = began.elapsed().saturating_sub(cost.compile);
    if let Some(What::Stored(job)) = left.undecoded.map(|job| &query.bringing.jobs[job].what) {
        return Ok(Attempt::Undecoded {
            stripe: job.stripe,
            column: job.column,
        });
    }
    match Refusal::of(left.refused) {
        Some(Refusal::Groups) => return Ok(Attempt::MoreGroups),
        Some(Refusal::Value) => {
            let what = "a value out of a type's range, or a division by zero";
            return Err(RunError::Refused(what.to_owned()));
        }
        None => {}
    }
    let merged = query.kernel.finish(&Left {
        partials: &left.partials,
        counters: &left.counters,
        group_locks: &left.group_locks,
        group_words: &left.group_words,
    })?;
    cost.pushed_bytes = pusher.done.bytes.load(Ordering::Relaxed);
    cost.decode = Duration::from_nanos(pusher.done.decode_ns.load(Ordering::Relaxed));
    cost.commands = stats.commands;
    cost.command_bytes = stats.command_bytes;
    query.account(&merged, &mut cost);
    Ok(Attempt::Done(Box::new(Output {
        groups: merged.groups,
        keys: merged.keys,
        aggregates: merged.aggregates,
        cost,
    })))
}

/// What kernels left in device memory.
struct LeftOver {
    refused: u32,
    /// A job whose stored bytes made no sense.
    undecoded: Option<usize>,
    partials: Vec<u64>,
    counters: Vec<u64>,
    group_locks: Vec<u32>,
    group_words: Vec<u64>,
}

/// Where everything is that launches are told of.
struct Placed {
    counters: usize,
    refused: usize,
    locks: usize,
    words: usize,
    state: usize,
    partials: usize,
    columns: Vec<ColumnDesc>,
    valid: Vec<Option<ColumnDesc>>,
    runs: usize,
    arguments: usize,
}

impl Query<'_> {
    fn cancelled(&self) -> bool {
        self.request.cancel.load(Ordering::Relaxed)
    }

    /// Launches everything and waits for it.
    fn launch(&self, machine: Machine<'_>, pusher: &Pusher<'_>, cost: &mut Cost) -> Result<LeftOver, RunError> {
        let lanes = if machine.device.is_host() {
            HOST_LANES
        } else {
            GPU_LANES
        };
        let sizes = self.kernel.sizes(lanes);
        let (runs, tiles) = row_runs(self.at_lines(self.selected()), sizes.tile_rows);
        let loaded = machine.modules.get(self.kernel)?;
        if loaded.origin != Origin::Memory {
            cost.compile = loaded.took;
        }
        let entry = loaded.module.kernel(ENTRY)?;
        let blocks = self.blocks(machine.device, &entry, tiles, lanes)?;
        let warps = (blocks * BLOCK_WARPS) as usize;
        let mut wanted = Wanted::default();
        let mut placed = self.place(&mut wanted, &runs, &sizes, warps);
        let given = machine.scratch.give(&wanted, machine.compute)?;
        placed.settle(given.written.address());
        for (desc, column) in placed.columns.iter_mut().zip(&self.stage.columns) {
            if let Some(column) = column {
                *desc = column.desc();
            }
        }
        let jobs = &self.bringing.jobs;
        let launches = divide(
            jobs,
            &self.bringing.window_ends,
            &runs,
            (tiles, u64::from(sizes.tile_rows)),
            machine.launch_bytes,
        );
        let (started, ended) = (Event::new(machine.device, true)?, Event::new(machine.device, true)?);
        let undecoded = given.zeroed.address() + placed.undecoded() as u64;
        let means = arrivals::Means {
            device: machine.device,
            compute: machine.compute,
            copy: machine.copy,
            modules: machine.modules,
        };
        let mut arrivals = Arrivals::new(means, jobs, undecoded, &started)?;
        cost.compile += arrivals.compile;
        for (at, launch) in launches.iter().enumerate() {
            arrivals.bring(launch.jobs, pusher)?;
            let head = self.head(&placed, &given, launch, flags(at, launches.len(), launch), runs.len());
            let mut args = Args::new().with_bytes(&parameter(&head, &placed.columns, &placed.valid));
            entry.launch(machine.compute, blocks, BLOCK_THREADS, &mut args)?;
            if let Some(window) = launch.ends_window {
                // The window after the next one takes this one's memory.
                ended.record(machine.compute)?;
                self.wait(&ended)?;
                pusher.allow(window + 3);
            }
        }
        ended.record(machine.compute)?;
        self.wait(&ended)?;
        cost.device_decode = arrivals.decoding_time();
        cost.kernel = ended
            .ms_since(&started)
            .map_or(Duration::ZERO, |ms| Duration::from_secs_f64(ms.max(0.0) / 1e3));
        self.read_back(&placed, &given, &sizes, warps)
    }

    /// The rows to look at, counted over all stripes.
    fn selected(&self) -> Vec<(u64, u64)> {
        let stripes = &self.request.input.stripes;
        let of_stripe = |(stripe, base): (&crate::input::Stripe, u64)| {
            let rows = stripe.selected.iter().map(move |r| (base + r.start, r.end - r.start));
            rows.collect::<Vec<_>>()
        };
        let runs = stripes.iter().zip(bases(stripes)).flat_map(of_stripe);
        if self.bringing.transient.is_some() {
            return runs.collect(); // windows end where tiles do that begin with the stripes' runs
        }
        // Fewer runs are looked up faster; the few tiles in which one stripe follows another are read row by row.
        runs.fold(Vec::new(), |mut joined: Vec<(u64, u64)>, (row, rows)| {
            match joined.last_mut() {
                Some((first, count)) if *first + *count == row => *count += rows,
                _ => joined.push((row, rows)),
            }
            joined
        })
    }

    /// The runs divided so that tiles of the predicate column begin where host memory's lines do: a warp's load of 256 bytes over PCIe
    /// is two requests then, and three elsewhere (files' streams begin at any byte).
    fn at_lines(&self, runs: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        let mut columns = (0..self.prepared.choices.len())
            .zip(&self.prepared.choices)
            .zip(&self.prepared.dense);
        let mapped = columns.find(|((_, c), dense)| **dense && c.backing == Backing::Mapped);
        // Windows end where tiles do that begin with the runs.
        let Some(((column, _), _)) = mapped.filter(|_| self.bringing.transient.is_none()) else {
            return runs;
        };
        let width = u64::from(self.request.program.columns[column].ty.width());
        let extents = &self.bringing.columns[column].extents;
        let mut out = Vec::with_capacity(2 * runs.len());
        for (mut row, mut rows) in runs {
            while rows > 0 {
                let at = extents.partition_point(|e| e.first_row + e.rows <= row);
                let Some(extent) = extents.get(at).filter(|e| e.first_row <= row) else {
                    out.push((row, rows));
                    break;
                };
                let here = rows.min(extent.first_row + extent.rows - row);
                let lead = rows_to_line(extent.mapped + (row - extent.first_row) * width, width).min(here);
                out.extend([(row, lead), (row + lead, here - lead)]);
                (row, rows) = (row + here, rows - here);
            }
        }
        out
    }

    /// As many blocks as the device holds at once and there are tiles for; fewer if their warps could fill the cache with pins.
    fn blocks(&self, device: &Device, entry: &Kernel<'_>, tiles: u64, lanes: u32) -> Result<u32, RunError> {
        // Few warps saturate PCIe; more of them only spread what they fetch by row over more pages than the GPU's address
        // translation keeps at hand.
        let mapped = self.prepared.choices.iter().any(|c| c.backing == Backing::Mapped);
        let most = if mapped { MOST_BLOCKS_MAPPED } else { MOST_BLOCKS };
        let each = entry.blocks_that_fit(BLOCK_THREADS)?.min(most);
        let most = u64::from(device.multiprocessors().max(1) * each);
        let mut blocks = tiles.div_ceil(u64::from(BLOCK_WARPS)).clamp(1, most);
        if let Some(stack) = self.stage.stack {
            // A warp holds a line for each lane while it fetches, or a tile's two.
            let pins = u64::from(lanes) + 2;
            while blocks > 1 && !stack.has_room_for_pins(blocks * u64::from(BLOCK_WARPS), pins) {
                blocks /= 2;
            }
        }
        Ok(blocks as u32)
    }

    fn place(&self, wanted: &mut Wanted, runs: &[RowRun], sizes: &Sizes, warps: usize) -> Placed {
        let slots = self.slots_log2.map_or(0, |log2| 1usize << log2);
        let describe = |extents: &[Extent], width: u32, wanted: &mut Wanted| ColumnDesc {
            extents: wanted.bytes(&all_bytes(extents)) as u64,
            extent_count: extents.len() as u32,
            value_bytes: width,
        };
        let mut placed = Placed {
            counters: wanted.zeros(warps * sizes.counters * 8),
            refused: wanted.zeros(8),
            // Behind the counters, so that both are read back at once.
            partials: wanted.zeros(warps * sizes.partial_bytes),
            locks: wanted.zeros(slots * 4),
            words: wanted.zeros(slots * sizes.group_words * 8),
            state: wanted.any(warps * sizes.state_bytes),
            columns: Vec::new(),
            valid: Vec::new(),
            runs: wanted.bytes(&all_bytes(runs)),
            arguments: 0,
        };
        let arguments = self
            .request
            .arguments
            .iter()
            .flat_map(|v| argument_bits(*v).to_le_bytes());
        placed.arguments = wanted.bytes(&arguments.collect::<Vec<u8>>());
        for (layout, column) in self.bringing.columns.iter().zip(&self.request.program.columns) {
            placed
                .columns
                .push(describe(&layout.extents, column.ty.width(), wanted));
            placed
                .valid
                .push(layout.nullable.then(|| describe(&layout.valid, 1, wanted)));
        }
        placed
    }

    fn head(&self, placed: &Placed, given: &Given<'_>, launch: &Launch, flags: u32, runs: usize) -> QueryHead {
        let (written, zeroed, other) = (given.written.address(), given.zeroed.address(), given.other.address());
        let table = |at: usize| self.slots_log2.map_or(0, |_| zeroed + at as u64);
        QueryHead {
            io: self.stage.io,
            runs: written + placed.runs as u64,
            first_tile: launch.first_tile,
            end_tile: launch.end_tile,
            arguments: written + placed.arguments as u64,
            state: other + placed.state as u64,
            partials: zeroed + placed.partials as u64,
            counters: zeroed + placed.counters as u64,
            refused: zeroed + placed.refused as u64,
            group_locks: table(placed.locks),
            group_words: table(placed.words),
            group_slots_log2: self.slots_log2.unwrap_or(0),
            run_count: runs as u32,
            flags,
            patience: self.patience(),
        }
    }

    /// Rows that need values over PCIe do not wait for a full warp: where one row in thousands passes, every warp would fetch
    /// its rows at the very end, one trip after the other with nothing else under way, and from all over the files.
    fn patience(&self) -> u32 {
        let columns = self.prepared.choices.iter().zip(&self.prepared.dense);
        match columns
            .into_iter()
            .any(|(c, dense)| !dense && c.backing == Backing::Mapped)
        {
            true => PATIENT_TILES,
            false => PATIENCE_ENDLESS,
        }
    }

    /// Waits for an event, looking at the caller's flag meanwhile. Kernels end: whatever they wait for has a bound.
    fn wait(&self, event: &Event) -> Result<(), RunError> {
        let began = Instant::now();
        let mut aborted = false;
        while !event.reached()? {
            if self.cancelled() && !aborted {
                aborted = true;
                if let Some(stack) = self.stage.stack {
                    stack.abort_handle().abort();
                }
            }
            if began.elapsed() < Duration::from_millis(5) {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        if self.cancelled() {
            Err(RunError::Cancelled)
        } else {
            Ok(())
        }
    }

    fn read_back(&self, placed: &Placed, given: &Given<'_>, sizes: &Sizes, warps: usize) -> Result<LeftOver, RunError> {
        let slots = self.slots_log2.map_or(0, |log2| 1usize << log2);
        let (counters, partials) = (warps * sizes.counters, warps * sizes.partial_bytes / 8);
        // Every copy is a trip: refused, counters and partials, which lie one after the other, are one.
        let mut words = given
            .zeroed
            .read::<u64>(placed.counters, (placed.partials - placed.counters) / 8 + partials)?;
        let status = words[(placed.refused - placed.counters) / 8];
        let refused = status as u32;
        let mut left = LeftOver {
            refused,
            undecoded: ((status >> 32) as usize).checked_sub(1),
            partials: words.split_off((placed.partials - placed.counters) / 8),
            counters: words,
            group_locks: Vec::new(),
            group_words: Vec::new(),
        };
        left.counters.truncate(counters);
        if refused == 0 && slots > 0 {
            left.group_locks = given.zeroed.read(placed.locks, slots)?;
            left.group_words = given.zeroed.read(placed.words, slots * sizes.group_words)?;
        }
        Ok(left)
    }

    /// What rows and bytes it came to, by what the kernels counted.
    fn account(&self, merged: &Merged, cost: &mut Cost) {
        cost.rows = merged.rows;
        cost.passed = merged.passed;
        cost.resident_bytes = self.bringing.resident_bytes;
        for (at, column) in self.request.program.columns.iter().enumerate() {
            let width = u64::from(column.ty.width());
            let read = merged.values_read[at];
            let dense = self.prepared.dense[at];
            cost.needed_bytes += if dense { merged.rows } else { read } * width;
            if self.prepared.choices[at].backing == Backing::Mapped {
                // A value fetched alone moves the sector that it lies in; never more than the whole column.
                cost.mapped_bytes += match dense {
                    true => read * width,
                    false => (read * LINK_SECTOR_BYTES).min(merged.rows * width),
                };
            }
        }
    }
}

/// Rows before the first whose value's 8-byte word begins at a multiple of what a warp loads at once.
fn rows_to_line(address: u64, width: u64) -> u64 {
    let at_line = |rows: &u64| ((address + rows * width) / 8 * 8).is_multiple_of(8 * u64::from(GPU_LANES));
    (0..8 * u64::from(GPU_LANES) / width.max(1)).find(at_line).unwrap_or(0)
}

impl Placed {
    /// The word behind `refused`: in which job something was wrong.
    fn undecoded(&self) -> usize {
        self.refused + 4
    }

    /// Offsets of extents to addresses.
    fn settle(&mut self, base: u64) {
        let all = self.columns.iter_mut().chain(self.valid.iter_mut().flatten());
        all.for_each(|desc| desc.extents += base);
    }
}

fn flags(at: usize, launches: usize, launch: &Launch) -> u32 {
    let mut flags = 0;
    if at == 0 {
        flags |= LAUNCH_FIRST;
    }
    if launch.ends_window.is_some() {
        flags |= LAUNCH_FLUSH;
    }
    if at + 1 == launches {
        flags |= LAUNCH_LAST;
    }
    flags
}

fn all_bytes<T: grampus_io_stack::layout::Bytes>(values: &[T]) -> Vec<u8> {
    values.iter().flat_map(bytes_of).collect()
}
