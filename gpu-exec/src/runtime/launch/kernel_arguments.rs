//! Where everything is that launches are told of: what is put into device memory for a query, a launch's head, and what its kernels left.

use grampus_io_stack::layout::{ColumnDesc, Extent, bytes_of};

use crate::abi::query::{QueryHead, RowRun, Sizes, argument_bits};
use crate::error::RunError;
use crate::runtime::launch::launch_schedule::Launch;
use crate::runtime::launch::query_run::QueryRun;
use crate::runtime::launch::replay::LaunchContext;
use crate::runtime::memory::query_scratch::ScratchLayout;

/// What kernels left in device memory.
pub(crate) struct KernelResults {
    pub(crate) refused: u32,
    /// A job whose stored bytes made no sense.
    pub(crate) undecoded: Option<usize>,
    /// Pages that were missed: then the rest is worth nothing.
    pub(crate) missed: u32,
    pub(crate) partials: Vec<u64>,
    pub(crate) counters: Vec<u64>,
    pub(crate) group_locks: Vec<u32>,
    pub(crate) group_words: Vec<u64>,
}

/// Where everything is that launches are told of.
pub(crate) struct KernelArguments {
    counters: usize,
    refused: usize,
    pub(crate) missed: usize,
    locks: usize,
    words: usize,
    state: usize,
    partials: usize,
    pub(crate) columns: Vec<ColumnDesc>,
    pub(crate) valid: Vec<Option<ColumnDesc>>,
    runs: usize,
    arguments: usize,
    /// Of paged columns: the stripes' first rows, the pieces, and a bit for each page that is wanted.
    pub(crate) first_rows: usize,
    pub(crate) pieces: usize,
    pub(crate) wanted: usize,
    /// And one for each that has come.
    pub(crate) came: usize,
}

impl KernelArguments {
    /// The word behind `refused`: in which job something was wrong.
    pub(crate) fn undecoded(&self) -> usize {
        self.refused + 4
    }

    /// Offsets of extents to addresses.
    pub(crate) fn settle(&mut self, base: u64) {
        let all = self.columns.iter_mut().chain(self.valid.iter_mut().flatten());
        all.for_each(|desc| desc.extents += base);
    }
}

impl QueryRun<'_> {
    pub(crate) fn place(
        &self,
        wanted: &mut ScratchLayout,
        runs: &[RowRun],
        sizes: &Sizes,
        warps: usize,
    ) -> KernelArguments {
        let slots = self.slots_log2.map_or(0, |log2| 1usize << log2);
        let describe = |extents: &[Extent], width: u32, wanted: &mut ScratchLayout| ColumnDesc {
            extents: wanted.bytes(&all_bytes(extents)) as u64,
            extent_count: extents.len() as u32,
            value_bytes: width,
        };
        let mut placed = KernelArguments {
            counters: wanted.zeros(warps * sizes.counters * 8),
            refused: wanted.zeros(8),
            missed: wanted.zeros(4),
            // Behind the counters, so that both are read back at once.
            partials: wanted.zeros(warps * sizes.partial_bytes),
            locks: wanted.zeros(slots * 4),
            words: wanted.zeros(slots * sizes.group_words * 8),
            state: wanted.any(warps * sizes.state_bytes),
            columns: Vec::new(),
            valid: Vec::new(),
            runs: wanted.bytes(&all_bytes(runs)),
            arguments: 0,
            first_rows: 0,
            pieces: 0,
            wanted: 0,
            came: 0,
        };
        self.place_paging(&mut placed, wanted);
        let arguments = self
            .request
            .arguments
            .iter()
            .flat_map(|v| argument_bits(*v).to_le_bytes());
        placed.arguments = wanted.bytes(&arguments.collect::<Vec<u8>>());
        for (layout, column) in self.transfer.columns.iter().zip(&self.request.program.columns) {
            placed
                .columns
                .push(describe(&layout.extents, column.ty.width(), wanted));
            placed
                .valid
                .push(layout.nullable.then(|| describe(&layout.valid, 1, wanted)));
        }
        placed
    }

    pub(crate) fn head(&self, launched: &LaunchContext<'_>, launch: &Launch, flags: u32, patience: u32) -> QueryHead {
        let (placed, given) = (launched.placed, launched.given);
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
            run_count: launched.runs as u32,
            flags,
            patience,
        }
    }

    pub(crate) fn read_back(&self, launched: &LaunchContext<'_>) -> Result<KernelResults, RunError> {
        let &LaunchContext {
            placed,
            given,
            sizes,
            warps,
            ..
        } = launched;
        let slots = self.slots_log2.map_or(0, |log2| 1usize << log2);
        let (counters, partials) = (warps * sizes.counters, warps * sizes.partial_bytes / 8);
        // Every copy is a trip: counters, refused, missed and partials, which lie one after the other, are one.
        let mut words = given
            .zeroed
            .read::<u64>(placed.counters, (placed.partials - placed.counters) / 8 + partials)?;
        let word = |at: usize| words[(at - placed.counters) / 8];
        let (status, missed) = (word(placed.refused), word(placed.missed) as u32);
        let (refused, undecoded) = (status as u32, ((status >> 32) as usize).checked_sub(1));
        let mut left = KernelResults {
            refused,
            undecoded,
            missed,
            partials: words.split_off((placed.partials - placed.counters) / 8),
            counters: words,
            group_locks: Vec::new(),
            group_words: Vec::new(),
        };
        left.counters.truncate(counters);
        if refused == 0 && missed == 0 && slots > 0 {
            left.group_locks = given.zeroed.read(placed.locks, slots)?;
            left.group_words = given.zeroed.read(placed.words, slots * sizes.group_words)?;
        }
        Ok(left)
    }
}

pub(crate) fn all_bytes<T: grampus_io_stack::layout::Bytes>(values: &[T]) -> Vec<u8> {
    values.iter().flat_map(bytes_of).collect()
}
