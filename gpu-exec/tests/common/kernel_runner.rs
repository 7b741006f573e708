//! `Target` and `run`: kernels on host threads, and on a GPU if there is one, without the crate's runtime.
//!
//! A table lies in memory and behind queues. The test chooses the division into launches.

use std::sync::Arc;
use std::time::Duration;

use grampus_cuda::{self as cuda, Args, Device, DeviceBuffer, Grid, Module, Stream};
use grampus_driver::controller::ControllerOptions;
use grampus_driver::storage::MemoryStorage;
use grampus_gpu_exec::abi::query::{self, GroupCodes, LAUNCH_FIRST, LAUNCH_FLUSH, LAUNCH_LAST, QueryHead, Refusal};
use grampus_gpu_exec::codegen::{
    Access, BLOCK_THREADS, ENTRY, GPU_LANES, GroupLayout, HOST_LANES, KeyRange, MERGE_ENTRY, Merged, QueryKernel,
    Shape, WarpPartials,
};
use grampus_gpu_exec::kernel_cache::KernelCache;
use grampus_gpu_exec::program::{Stored, Type};
use grampus_io_stack::StagingOptions;
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::queues::QueueOptions;
use grampus_io_stack::stack::{Column, Run, Stack, StackOptions};

use super::interpreter::{Cell, Scalar};
use super::lockstep;
use super::partial_pages::PartialPages;
use super::random::{Random, bytes};
use super::validity_image::ValidityImage;

/// A device that runs kernels.
#[derive(Debug)]
pub(crate) struct Target {
    pub device: Device,
    /// Lanes of a warp.
    pub lanes: u32,
    modules: KernelCache,
}

/// The devices of this machine. Missing ones are printed.
pub(crate) fn targets() -> Vec<Target> {
    let mut targets = Vec::new();
    let mut add = |device: Device, lanes: u32| {
        targets.push(Target {
            modules: KernelCache::new(&device, Some(lockstep::kernel_folder())).expect("there is a compiler"),
            device,
            lanes,
        });
    };
    match cuda::host_compiler() {
        Ok(_) => {
            add(Device::host(2, 1 << 30), HOST_LANES);
            add(Device::host(2, 1 << 30), GPU_LANES);
        }
        Err(e) => grampus_test_support::missing(grampus_test_support::Resource::Compiler, e),
    }
    match cuda::compiler_version().and_then(|_| Device::open(0)) {
        Ok(gpu) => add(gpu, GPU_LANES),
        Err(e) => grampus_test_support::missing(grampus_test_support::Resource::Gpu, e),
    }
    targets
}

impl Target {
    /// Whether the device is host threads that are warps of 32 lanes each, which is slow.
    pub(crate) fn is_lockstep(&self) -> bool {
        self.device.is_host() && self.lanes == GPU_LANES
    }

    pub(crate) fn module(&self, kernel: &QueryKernel) -> Arc<Module> {
        if !self.is_lockstep() {
            return self.modules.get(kernel).unwrap_or_else(|e| panic!("{e}")).module;
        }
        lockstep::query_module(&self.device, kernel)
    }

    /// The module of a source, for warps of 32 lanes.
    pub(crate) fn lockstep_module(&self, text: &str, name: &str) -> Arc<Module> {
        lockstep::module(&self.device, text, name)
    }
}

/// A table's columns and selected rows.
pub(crate) struct Table {
    pub types: Vec<Type>,
    /// By column, or empty: the types' layouts.
    pub layouts: Vec<Stored>,
    /// By column, then by row.
    pub cells: Vec<Vec<Cell>>,
    /// First row and number of rows of each run.
    pub runs: Vec<(u64, u64)>,
}

impl Table {
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<Cell>> {
        let rows = self.runs.iter().flat_map(|&(first, rows)| first..first + rows);
        rows.map(|row| self.cells.iter().map(|column| column[row as usize]).collect())
    }
}

/// A table in memory and behind queues, as kernels find it.
pub(crate) struct DeviceTable {
    device: Device,
    lanes: u32,
    stack: Stack,
    columns: Vec<Column>,
    valid: Vec<Option<ValidityImage>>,
    runs: Vec<(u64, u64)>,
    /// All bytes of the columns, their places in `bytes`, and the memory that kernels load from.
    bytes: Vec<u8>,
    places: Vec<(u32, Vec<Run>)>,
    image: DeviceBuffer,
    paging: Option<PartialPages>,
}

/// Bytes of a storage under construction.
struct Image(Vec<u8>);

impl Image {
    /// Places values in a few ranges, each at a random multiple of `align`.
    fn place(&mut self, random: &mut Random, width: usize, align: usize, values: &[Vec<u8>]) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut at = 0;
        while at < values.len() {
            let most = values.len() - at;
            let rows = if random.one_in(3) {
                most
            } else {
                1 + random.below(most as u64) as usize
            };
            let gap = random.below(5000) as usize;
            let start = (self.0.len() + gap).next_multiple_of(align);
            self.0.resize(start, 0xA5);
            values[at..at + rows].iter().for_each(|v| self.0.extend(v));
            runs.push(Run {
                source: 0,
                byte: start as u64,
                rows: rows as u64,
                mapped: 0,
            });
            assert_eq!(self.0.len(), start + rows * width);
            at += rows;
        }
        runs
    }
}

fn options() -> StackOptions {
    StackOptions {
        queues: QueueOptions {
            count: 2,
            depth_log2: 4,
            bounce_bytes: 4096,
        },
        cache: CacheOptions {
            bytes: 4 << 20,
            sector_log2: 9,
            group_log2: 3,
        },
        controller: ControllerOptions { threads: 1, depth: 8 },
        staging: StagingOptions {
            bytes: 64 << 10,
            count: 2,
        },
        timeout: Duration::from_secs(30),
        max_lines: 8,
    }
}

impl DeviceTable {
    pub(crate) fn new(random: &mut Random, target: &Target, table: &Table, shape: &Shape) -> Self {
        let device = &target.device;
        let mut image = Image(Vec::new());
        let mut places = Vec::new();
        let columns = table.types.iter().zip(&table.cells).zip(&shape.columns);
        for (at, ((ty, cells), shape)) in columns.enumerate() {
            let layout = table.layouts.get(at).copied().unwrap_or(Stored::of(*ty));
            let width = layout.bytes() as usize;
            let values: Vec<Vec<u8>> = cells.iter().map(|&cell| bytes(layout, *ty, cell)).collect();
            let runs = image.place(random, width, if shape.aligned { width } else { 1 }, &values);
            let valid = shape.nullable.then(|| ValidityImage::new(random, device, cells));
            places.push((width as u32, runs, valid));
        }
        let bytes = image.0;
        let memory = DeviceBuffer::filled(device, bytes.len().next_multiple_of(4096) + 4096, 0).expect("memory");
        memory.write(0, &bytes).expect("fits");
        let storage = Arc::new(MemoryStorage::new(bytes.clone()));
        let paged = |c: &usize| shape.columns[*c].access == Access::Paged;
        let paged: Vec<usize> = (0..shape.columns.len()).filter(paged).collect();
        let rows = table.cells.first().map_or(0, Vec::len) as u64;
        let paging = (!paged.is_empty()).then(|| PartialPages::new(random, device, &paged, rows));
        let stack = Stack::new(device, vec![storage], options(), &[]).expect("a stack");
        let column = |width: u32, runs: &[Run]| {
            let mapped = |run: &Run| Run {
                mapped: memory.address(),
                ..*run
            };
            let runs: Vec<Run> = runs.iter().map(mapped).collect();
            stack.column(width, &runs).expect("inside the storage")
        };
        let columns = places.iter().map(|(width, runs, _)| column(*width, runs)).collect();
        let (places, valid) = places
            .into_iter()
            .map(|(width, runs, valid)| ((width, runs), valid))
            .unzip();
        Self {
            device: device.clone(),
            lanes: target.lanes,
            columns,
            valid,
            stack,
            runs: table.runs.clone(),
            places,
            bytes,
            image: memory,
            paging,
        }
    }
}

/// Division of a query into warps and launches.
#[derive(Debug, Clone)]
pub(crate) struct Division {
    pub warps: u32,
    /// Ends of all launches but the last, as fractions of all tiles; ascending.
    pub ends: Vec<f64>,
    /// No row stays in a ring between launches.
    pub flush: bool,
    /// Groups that the table of all warps has space for.
    pub group_capacity: u32,
    /// By key, for kernels with tables by code.
    pub ranges: Vec<KeyRange>,
    /// Warps of a block on a GPU.
    pub block_warps: u32,
}

/// Warps of a block, unless a test says otherwise.
pub(crate) const BLOCK_WARPS: u32 = BLOCK_THREADS / GPU_LANES;

/// Runs the kernel over the table, and replays the pass while pages are missing.
pub(crate) fn run(
    placed: &DeviceTable,
    kernel: &QueryKernel,
    module: &Module,
    arguments: &[Scalar],
    division: &Division,
) -> Result<Merged, Refusal> {
    let Some(paging) = &placed.paging else {
        return pass(placed, kernel, module, arguments, division);
    };
    let mut random = Random(u64::from(division.warps) + division.ends.len() as u64);
    paging.scatter(&mut random, &placed.bytes, &placed.places, &placed.image);
    for _ in 0..paging.max_passes(kernel.steps()) {
        paging.clear();
        let result = pass(placed, kernel, module, arguments, division);
        if paging.serve(&placed.bytes, &placed.places, &placed.image) == 0 || result.is_err() {
            return result;
        }
    }
    panic!("pages are missing after {} passes", paging.max_passes(kernel.steps()))
}

fn pass(
    placed: &DeviceTable,
    kernel: &QueryKernel,
    module: &Module,
    arguments: &[Scalar],
    division: &Division,
) -> Result<Merged, Refusal> {
    let device = &placed.device;
    // A block of host threads is one warp.
    let block_warps = if device.is_host() { 1 } else { division.block_warps };
    let blocks = division.warps.div_ceil(block_warps);
    let sizes = kernel.sizes(placed.lanes);
    let warps = (blocks * block_warps) as usize;
    let layout = kernel.scope().map(|scope| {
        kernel
            .group_layout(scope, &division.ranges)
            .expect("ranges of the keys")
    });
    let layout = layout.as_ref();
    let grid = Grid {
        blocks,
        threads: block_warps * GPU_LANES,
        shared_bytes: layout.map_or(0, |layout| layout.block_bytes(block_warps, placed.lanes) as u32),
    };
    let buffer = |bytes: usize, byte: u8| DeviceBuffer::filled(device, bytes.max(16), byte).expect("memory");
    let (runs, tiles) = query::row_runs(placed.runs.iter().copied(), sizes.tile_rows);
    let runs_at = DeviceBuffer::from_values(
        device,
        &runs
            .iter()
            .flat_map(|r| [r.first_tile, r.first_row, r.rows])
            .collect::<Vec<u64>>(),
    );
    let runs_at = runs_at.expect("memory");
    let bits = |a: &Scalar| match *a {
        Scalar::Bool(v) => u64::from(v),
        Scalar::Int(v) => v as u64,
        Scalar::Float(v) => v.to_bits(),
        Scalar::Wide(v) => unreachable!("{v} as an argument"),
    };
    let arguments: Vec<u64> = arguments.iter().map(bits).chain([0]).collect();
    let arguments = DeviceBuffer::from_values(device, &arguments).expect("memory");
    // Memory that needs no initialisation is filled with garbage.
    let (state, partials) = (
        buffer(
            warps * (sizes.state_bytes + layout.map_or(0, |layout| layout.warp_bytes(placed.lanes))),
            0xEE,
        ),
        buffer(warps * sizes.partial_bytes, 0xEE),
    );
    let (counters, refused) = (buffer(warps * sizes.counters * 8, 0), buffer(4, 0));
    let capacity = if sizes.group_words > 0 {
        division.group_capacity
    } else {
        0
    };
    let slots_log2 = (2 * capacity).max(1).next_power_of_two().ilog2();
    let words = capacity as usize * sizes.group_words;
    let (slots, group_words, groups) = (buffer(8 << slots_log2, 0), buffer(words * 8, 0xEE), buffer(4, 0));
    let partial_count = layout.map_or(0, |layout| layout.partials(blocks, block_warps));
    let coded_words = layout.map_or(0, GroupLayout::partial_words);
    let coded_partials = buffer(partial_count as usize * coded_words * 8, 0xEE);
    let merged = buffer(coded_words * 8, 0xEE);
    let codes = layout.map(|layout| GroupCodes {
        partials: coded_partials.address(),
        merged: merged.address(),
        groups: layout.groups,
        partial_count,
        pad0: 0,
    });
    let codes = codes.as_ref().zip(layout.map(|layout| &layout.keys[..]));
    placed.stack.begin().expect("begins");
    let mut ends: Vec<u64> = division.ends.iter().map(|part| (part * tiles as f64) as u64).collect();
    ends.push(tiles);
    let stream = Stream::new(device).expect("a stream");
    let mut first_tile = 0;
    for (at, &end_tile) in ends.iter().enumerate() {
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        let head = QueryHead {
            io: placed.stack.io(),
            runs: runs_at.address(),
            run_count: runs.len() as u32,
            first_tile,
            end_tile,
            arguments: arguments.address(),
            state: state.address(),
            partials: partials.address(),
            counters: counters.address(),
            refused: refused.address(),
            group_slots: slots.address(),
            group_words: group_words.address(),
            group_count: groups.address(),
            group_capacity: capacity,
            group_slots_log2: slots_log2,
            flags: flag(at == 0, LAUNCH_FIRST)
                | flag(division.flush, LAUNCH_FLUSH)
                | flag(at + 1 == ends.len(), LAUNCH_LAST),
            patience: 2,
            pad0: 0,
        };
        first_tile = end_tile;
        let paging = placed.paging.as_ref().map(PartialPages::desc);
        let columns: Vec<_> = placed.columns.iter().map(Column::desc).collect();
        let valid: Vec<_> = (placed.valid.iter())
            .map(|valid| valid.as_ref().map(ValidityImage::desc))
            .collect();
        let mut args = Args::new().with_bytes(&query::parameter(&head, &columns, &valid, paging.as_ref(), codes));
        let kernel = module.kernel(ENTRY).expect("the kernel's name");
        kernel.launch_grid(&stream, grid, &mut args).expect("starts");
        if codes.is_some() && at + 1 == ends.len() {
            let merge = module.kernel(MERGE_ENTRY).expect("the kernel's name");
            merge.launch(&stream, 3, BLOCK_THREADS, &mut args).expect("starts");
        }
        stream.synchronize().expect("ends");
        let word = refused.read::<u32>(0, 1).expect("readable")[0];
        if let Some(refusal) = Refusal::of(word) {
            placed.stack.finish().expect("no status");
            return Err(refusal);
        }
    }
    placed.stack.finish().expect("no status");
    let merged = merged.read(0, coded_words).expect("readable");
    let found = groups.read::<u32>(0, 1).expect("readable")[0] as usize;
    let left = WarpPartials {
        partials: &partials.read(0, warps * sizes.partial_bytes / 8).expect("readable"),
        counters: &counters.read(0, warps * sizes.counters).expect("readable"),
        group_words: &group_words.read(0, found * sizes.group_words).expect("readable"),
        coded: layout.map(|layout| (layout, &merged[..])),
    };
    Ok(kernel.merge(&left).expect("what the kernel leaves"))
}
