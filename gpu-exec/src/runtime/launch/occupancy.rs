//! Occupancy: how many blocks a launch has, and how long its rows wait for a full warp.

use grampus_cuda::{CudaError, Device, Kernel};

use crate::abi::query::PATIENCE_ENDLESS;
use crate::codegen::{BLOCK_THREADS, GPU_LANES};
use crate::options::Backing;
use crate::runtime::launch::io_binding::IoBinding;
use crate::runtime::planner::QueryPlan;

/// Warps of a block.
pub(crate) const BLOCK_WARPS: u32 = BLOCK_THREADS / GPU_LANES;
/// Blocks on a multiprocessor, at most: the registers of kernels are bounded for so many.
const MAX_BLOCKS_EACH: u32 = 4;
/// The same if a column is read over PCIe.
const MAX_BLOCKS_EACH_MAPPED: u32 = 1;
/// Multiprocessors for a block if the filter's column is read over PCIe: a quarter of the warps saturates the link.
const MULTIPROCESSORS_A_BLOCK: u32 = 2;
/// Tiles for which rows wait that need values over PCIe, or whose misses are looked for, besides the one that they are
/// in.
pub(crate) const PATIENT_TILES: u32 = 0;

/// Threads and shared memory of a launch's blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockSize {
    /// Warps of a block.
    pub(crate) warps: u32,
    /// Bytes of shared memory beside those that the kernel declares.
    pub(crate) shared_bytes: u32,
}

impl BlockSize {
    /// Threads of a block; on host threads, those of one warp.
    pub(crate) fn threads(self) -> u32 {
        self.warps * GPU_LANES
    }
}

/// As many blocks as the device holds at once and there are tiles for; fewer if their warps could fill the sector cache
/// with pins.
pub(crate) fn blocks(
    plan: &QueryPlan,
    device: &Device,
    entry: &Kernel<'_>,
    tiles: u64,
    (block, lanes): (BlockSize, u32),
    io: &IoBinding<'_>,
) -> Result<u32, CudaError> {
    // Few warps saturate PCIe. More of them only spread what they fetch by row over more pages than the GPU's address
    // translation caches.
    let columns = || plan.choices.iter().zip(&plan.dense);
    let mapped = columns().any(|(choice, _)| choice.backing == Backing::Mapped);
    let streams = columns().any(|(choice, &dense)| dense && choice.backing == Backing::Mapped);
    let most = if mapped {
        MAX_BLOCKS_EACH_MAPPED
    } else {
        MAX_BLOCKS_EACH
    };
    let each = entry.blocks_that_fit(block.threads(), block.shared_bytes)?.min(most);
    let most = match streams {
        true => device.multiprocessors().div_ceil(MULTIPROCESSORS_A_BLOCK),
        false => device.multiprocessors() * each,
    };
    let most = u64::from(most.max(1));
    let mut blocks = tiles.div_ceil(u64::from(block.warps)).clamp(1, most);
    // A warp pins a line for each lane while it fetches, or a tile's two.
    let pins = u64::from(lanes) + 2;
    while blocks > 1 && !io.has_room_for_pins(blocks * u64::from(block.warps), pins) {
        blocks /= 2;
    }
    Ok(blocks as u32)
}

/// Tiles for which rows that passed wait for a full warp. Rows that need values over PCIe do not wait: if one row in
/// thousands passes, every warp would fetch its rows at the very end, one trip after the other with nothing else in
/// flight, and from all over the files.
pub(crate) fn patience(plan: &QueryPlan) -> u32 {
    let mut columns = plan.choices.iter().zip(&plan.dense);
    match columns.any(|(choice, dense)| !dense && choice.backing == Backing::Mapped) {
        true => PATIENT_TILES,
        false => PATIENCE_ENDLESS,
    }
}
