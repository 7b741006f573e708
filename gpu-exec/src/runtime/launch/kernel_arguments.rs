//! `KernelArguments`: where everything is that a query's launches are told of, and `KernelResults`: what its kernels
//! left there.

use grampus_cuda::{CudaError, DeviceBuffer, PinnedBuffer, Stream};
use grampus_io_stack::abi::{Bytes, ColumnDesc, Extent, IoStack};

use crate::abi::paging::PagingDesc;
use crate::abi::query::{GroupCodes, KeyCodes, QueryHead, RowRun, Sizes, argument_bits};
use crate::codegen::GroupLayout;
use crate::options::Request;
use crate::runtime::launch::launch_schedule::Launch;
use crate::runtime::launch::occupancy::BlockSize;
use crate::runtime::memory::group_table_size::GroupTableSize;
use crate::runtime::memory::query_scratch::{ScratchBuffers, ScratchLayout, Words};
use crate::runtime::transfer::transfer_plan::TransferPlan;

/// The words that kernels left in device memory.
pub(crate) struct KernelResults {
    pub(crate) refused: u32,
    /// A job whose encoded bytes could not be decoded.
    pub(crate) undecoded: Option<usize>,
    /// Pages that were missed. If there are any, the rest is discarded.
    pub(crate) missed: u32,
    pub(crate) partials: Vec<u64>,
    pub(crate) counters: Vec<u64>,
    /// Groups that the group table has space for.
    pub(crate) group_capacity: u32,
    /// Groups in the group table.
    pub(crate) groups: usize,
    pub(crate) group_words: Vec<u64>,
    /// Words of the groups by code; empty without tables by code.
    pub(crate) merged: Vec<u64>,
}

/// Groups that are read back before it is known how many there are.
const FEW_GROUPS: u32 = 4096;
/// The dimensions of launches, on which the sizes of arguments depend.
#[derive(Debug, Clone)]
pub(crate) struct LaunchSize {
    pub(crate) sizes: Sizes,
    pub(crate) blocks: u32,
    pub(crate) block: BlockSize,
    /// Lanes of a warp.
    pub(crate) lanes: u32,
    /// The size of the group table, if there is one.
    pub(crate) table: Option<GroupTableSize>,
    /// The groups by code, if the kernel has tables of them.
    pub(crate) layout: Option<GroupLayout>,
}

impl LaunchSize {
    fn warps(&self) -> usize {
        (self.blocks * self.block.warps) as usize
    }

    /// Bytes that a warp keeps between launches.
    fn state_bytes(&self) -> usize {
        self.sizes.state_bytes + self.layout.as_ref().map_or(0, |layout| layout.warp_bytes(self.lanes))
    }

    /// Words of all groups that the group table has space for.
    fn table_words(&self) -> usize {
        self.table
            .map_or(0, |table| table.capacity as usize * self.sizes.group_words)
    }

    fn partials_bytes(&self) -> usize {
        self.warps() * self.sizes.partial_bytes
    }
}

/// Offsets in the query's scratch buffers.
pub(crate) struct KernelArguments {
    pub(crate) size: LaunchSize,
    counters: usize,
    /// The word whether kernels refused; behind it the word in which job decoding failed.
    refused: usize,
    missed: usize,
    /// The number of groups in the group table.
    groups: usize,
    slots: usize,
    words: usize,
    state: usize,
    partials: usize,
    /// Descriptions of the columns. Their extents are offsets until [`settle`](Self::settle).
    pub(crate) columns: Vec<ColumnDesc>,
    pub(crate) valid: Vec<Option<ColumnDesc>>,
    runs: usize,
    run_count: u32,
    arguments: usize,
    paging: Option<PagingArguments>,
    codes: Option<CodedArguments>,
}

/// The same for tables by code, in the uninitialized buffer.
struct CodedArguments {
    keys: Vec<KeyCodes>,
    groups: u32,
    partials: usize,
    partial_count: u32,
    merged: usize,
    merged_words: usize,
}

impl CodedArguments {
    /// `None`: the kernel has no tables by code.
    fn new(scratch: &mut ScratchLayout, size: &LaunchSize) -> Option<Self> {
        let layout = size.layout.as_ref()?;
        let words = layout.partial_words();
        let partial_count = layout.partials(size.blocks, size.block.warps);
        Some(Self {
            keys: layout.keys.clone(),
            groups: layout.groups,
            partials: scratch.uninitialized(partial_count as usize * words * 8),
            partial_count,
            merged: scratch.uninitialized(words * 8),
            merged_words: words,
        })
    }
}

/// The same for paged columns.
struct PagingArguments {
    stripes: u32,
    /// The stripes' first rows.
    first_rows: usize,
    /// Descriptions of the columns of stripes.
    pieces: usize,
    /// A bit for each page that is wanted.
    wanted: usize,
    /// A bit for each page that has come.
    came: usize,
}

impl KernelArguments {
    pub(crate) fn new(
        layout: &mut ScratchLayout,
        request: &Request<'_>,
        transfer: &TransferPlan,
        runs: &[RowRun],
        size: LaunchSize,
    ) -> Self {
        let (sizes, warps) = (size.sizes, size.warps());
        let codes = CodedArguments::new(layout, &size);
        let counters = layout.zeroed(warps * sizes.counters * 8);
        let refused = layout.zeroed(8);
        let missed = layout.zeroed(4);
        let groups = layout.zeroed(4);
        // Behind the counters, so that both are read back at once.
        let partials = layout.zeroed(size.partials_bytes());
        let literals = request.arguments.iter();
        let literals: Vec<u8> = literals.flat_map(|v| argument_bits(*v).to_le_bytes()).collect();
        let mut arguments = Self {
            codes,
            counters,
            refused,
            missed,
            partials,
            groups,
            slots: layout.sparse(size.table.map_or(0, |table| 8 << table.slots_log2)),
            words: layout.uninitialized(size.table_words() * 8),
            state: layout.uninitialized(warps * size.state_bytes()),
            columns: Vec::new(),
            valid: Vec::new(),
            runs: layout.uploaded(&all_bytes(runs)),
            run_count: runs.len() as u32,
            paging: PagingArguments::new(layout, request, transfer),
            arguments: layout.uploaded(&literals),
            size,
        };
        let describe = |extents: &[Extent], width: u32, layout: &mut ScratchLayout| ColumnDesc {
            extents: layout.uploaded(&all_bytes(extents)) as u64,
            extent_count: extents.len() as u32,
            value_bytes: width,
        };
        for (map, column) in transfer.columns.iter().zip(&request.program.columns) {
            let values = describe(&map.extents, column.stored.bytes(), layout);
            arguments.columns.push(values);
            let valid = map.nullable.then(|| describe(&map.valid, 0, layout));
            arguments.valid.push(valid);
        }
        arguments
    }

    /// Makes addresses of the offsets of extents.
    pub(crate) fn settle(&mut self, buffers: &ScratchBuffers<'_>) {
        let base = buffers.uploaded.address();
        let all = self.columns.iter_mut().chain(self.valid.iter_mut().flatten());
        all.for_each(|desc| desc.extents += base);
    }

    /// Device address of the word in which job decoding failed.
    pub(crate) fn undecoded(&self, buffers: &ScratchBuffers<'_>) -> u64 {
        buffers.zeroed.address() + self.refused as u64 + 4
    }

    /// The part of the parameter for kernels with paged columns. `list`: the fault buffer.
    pub(crate) fn paging_desc(&self, buffers: &ScratchBuffers<'_>, list: &PinnedBuffer) -> Option<PagingDesc> {
        let paging = self.paging.as_ref()?;
        let uploaded = buffers.uploaded.address();
        Some(PagingDesc {
            first_rows: uploaded + paging.first_rows as u64,
            pieces: uploaded + paging.pieces as u64,
            wanted: buffers.sparse.address() + paging.wanted as u64,
            list: list.address(),
            missed: buffers.zeroed.address() + self.missed as u64,
            capacity: (list.len() / 4) as u32,
            stripes: paging.stripes,
        })
    }

    /// The end of the parameter of a kernel with tables by code.
    pub(crate) fn group_codes(&self, buffers: &ScratchBuffers<'_>) -> Option<(GroupCodes, &[KeyCodes])> {
        let codes = self.codes.as_ref()?;
        let uninitialized = buffers.uninitialized.address();
        let groups = GroupCodes {
            partials: uninitialized + codes.partials as u64,
            merged: uninitialized + codes.merged as u64,
            groups: codes.groups,
            partial_count: codes.partial_count,
            pad0: 0,
        };
        Some((groups, &codes.keys))
    }

    /// Device address of the bits of pages that have come.
    pub(crate) fn came(&self, buffers: &ScratchBuffers<'_>) -> Option<u64> {
        let paging = self.paging.as_ref()?;
        Some(buffers.sparse.address() + paging.came as u64)
    }

    /// The head of a launch's parameter.
    pub(crate) fn head(
        &self,
        io: IoStack,
        buffers: &ScratchBuffers<'_>,
        launch: &Launch,
        (flags, patience): (u32, u32),
    ) -> QueryHead {
        let uploaded = buffers.uploaded.address();
        let zeroed = buffers.zeroed.address();
        let table = self.size.table.unwrap_or_default();
        let of_table = |buffer: &DeviceBuffer, at: usize| match table.capacity {
            0 => 0,
            _ => buffer.address() + at as u64,
        };
        QueryHead {
            io,
            runs: uploaded + self.runs as u64,
            first_tile: launch.first_tile,
            end_tile: launch.end_tile,
            arguments: uploaded + self.arguments as u64,
            state: buffers.uninitialized.address() + self.state as u64,
            partials: zeroed + self.partials as u64,
            counters: zeroed + self.counters as u64,
            refused: zeroed + self.refused as u64,
            group_slots: of_table(buffers.sparse, self.slots),
            group_words: of_table(buffers.uninitialized, self.words),
            group_count: of_table(buffers.zeroed, self.groups),
            group_capacity: table.capacity,
            group_slots_log2: table.slots_log2,
            run_count: self.run_count,
            flags,
            patience,
            pad0: 0,
        }
    }

    /// Reads back what kernels left. The stream has come to its end.
    pub(crate) fn read_results(
        &self,
        buffers: &ScratchBuffers<'_>,
        stream: &Stream,
    ) -> Result<KernelResults, CudaError> {
        let sizes = self.size.sizes;
        // Counters, refused, missed, groups and partials lie one after the other.
        let before_partials = (self.partials - self.counters) / 8;
        let counters = Words {
            buffer: buffers.zeroed,
            offset: self.counters,
            count: before_partials + self.size.partials_bytes() / 8,
        };
        let merged = Words {
            buffer: buffers.uninitialized,
            offset: self.codes.as_ref().map_or(0, |codes| codes.merged),
            count: self.codes.as_ref().map_or(0, |codes| codes.merged_words),
        };
        let table = |groups: usize| Words {
            buffer: buffers.uninitialized,
            offset: self.words,
            count: groups * sizes.group_words,
        };
        let status_of = |words: &[u64]| {
            let word = |at: usize| words[(at - self.counters) / 8];
            (word(self.refused), word(self.missed) as u32, word(self.groups) as u32)
        };
        // Few groups come with everything else.
        let few = self.size.table.map_or(0, |table| table.capacity.min(FEW_GROUPS)) as usize;
        let bytes = (counters.count + merged.count + table(few).count) * 8;
        let (mut words, mut group_words, mut merged_words) = match buffers.are_read_at_once(bytes) {
            true => buffers.read(stream, [counters, table(few), merged])?.into(),
            false => {
                let [words] = buffers.read(stream, [counters])?;
                (words, Vec::new(), Vec::new())
            }
        };
        let (status, missed, groups) = status_of(&words);
        let is_done = status as u32 == 0 && missed == 0;
        let groups = if is_done { groups as usize } else { 0 };
        if is_done && merged_words.len() < merged.count {
            [merged_words] = buffers.read(stream, [merged])?;
        }
        if group_words.len() < table(groups).count {
            [group_words] = buffers.read(stream, [table(groups)])?;
        }
        group_words.truncate(table(groups).count);
        let partials = words.split_off(before_partials);
        words.truncate(self.size.warps() * sizes.counters);
        Ok(KernelResults {
            refused: status as u32,
            undecoded: ((status >> 32) as usize).checked_sub(1),
            missed,
            partials,
            counters: words,
            group_capacity: self.size.table.unwrap_or_default().capacity,
            groups,
            group_words,
            merged: merged_words,
        })
    }
}

impl PagingArguments {
    /// `None`: no column is paged.
    fn new(layout: &mut ScratchLayout, request: &Request<'_>, transfer: &TransferPlan) -> Option<Self> {
        let (table, stripes) = (&transfer.page_table, request.input.stripes.len());
        if table.columns.is_empty() {
            return None;
        }
        let first_rows = &request.input.first_rows()[..stripes];
        Some(Self {
            stripes: stripes as u32,
            first_rows: layout.uploaded(&all_bytes(first_rows)),
            pieces: layout.uploaded(&all_bytes(&table.descriptions(stripes))),
            wanted: layout.sparse(table.bits_bytes()),
            came: layout.sparse(table.bits_bytes()),
        })
    }
}

fn all_bytes<T: Bytes>(values: &[T]) -> Vec<u8> {
    let mut bytes = vec![0; size_of_val(values)];
    for (value, to) in values.iter().zip(bytes.chunks_exact_mut(size_of::<T>())) {
        value.write_to(to);
    }
    bytes
}
