//! The cost model: bytes and time of each backing of a column, by the rates of the machine profile. The only estimate
//! of these: backings are compared by it, and a `ColumnChoice` carries it to the caller's choice between CPU and GPU.

use std::time::Duration;

use crate::abi::paging::PAGE_BYTES;
use crate::machine_profile::{LINK_SECTOR_BYTES, MachineProfile, PerCodec};
use crate::options::{Backing, BackingChoice};
use crate::runtime::memory::pinned_ring::MAX_COPY_BYTES;

/// A further pass, and the wait for the last pages: half a millisecond was measured over 200 million rows.
const PASS_S: f64 = 0.0005;
/// Bytes that a kernel's scattered loads from a mapping read of a file that is not in the page cache: whole pages.
const FILE_PAGE_BYTES: u64 = 4096;

/// Decompressed bytes by codec, of the processor that decompresses them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompressedBytes {
    pub(crate) by_cpu: PerCodec<u64>,
    pub(crate) by_device: PerCodec<u64>,
}

impl CompressedBytes {
    /// Time of the processors, one after the other.
    fn seconds(&self, profile: &MachineProfile) -> f64 {
        let cpu = zipped(&self.by_cpu, &profile.cpu_decompressed_bytes_per_s) / profile.cores as f64;
        cpu + zipped(&self.by_device, &profile.device_decompressed_bytes_per_s)
    }
}

/// Seconds for these bytes at these rates.
fn zipped(bytes: &PerCodec<u64>, rates: &PerCodec<f64>) -> f64 {
    let seconds = bytes.values().into_iter().zip(rates.values());
    seconds.map(|(bytes, rate)| bytes as f64 / rate).sum()
}

/// Selected rows of a column, by how they are stored.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoredRows {
    /// Raw in their files.
    pub(crate) raw: u64,
    /// To be decoded.
    pub(crate) decoded: u64,
    /// Of these, those that the GPU decodes.
    pub(crate) on_device: u64,
    /// Of the decoded rows, those that are paged by chunk.
    pub(crate) by_chunk: u64,
    /// All with one value.
    pub(crate) constant: u64,
}

impl StoredRows {
    pub(crate) fn all(&self) -> u64 {
        self.raw + self.decoded + self.constant
    }
}

/// Bytes of a column, by what is to be done for them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ColumnBytes {
    /// Of stripes that are resident.
    pub(crate) resident: u64,
    /// Of the other stripes, in device memory.
    pub(crate) missing: u64,
    /// Moved for those: fewer if the GPU decodes.
    pub(crate) moved: u64,
    /// Of these, for rows that have to be decoded.
    pub(crate) decoded_moved: u64,
    /// Values' bytes of those that come out of compression chunks.
    pub(crate) compressed: CompressedBytes,
}

/// Resident pages of partially resident stripes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResidentPages {
    /// Of 64 raw bytes.
    pub(crate) raw: u64,
    /// Row groups.
    pub(crate) groups: u64,
    /// Compression chunks.
    pub(crate) chunks: u64,
}

/// Facts about one column, known before the query.
#[derive(Debug, Clone, Default)]
pub(crate) struct ColumnStats {
    /// The column is read whole: the first conjunct needs it, or there is no filter.
    pub(crate) dense: bool,
    /// Bytes of a value.
    pub(crate) width: u64,
    pub(crate) rows: StoredRows,
    /// Rows of a row group of the stripes that are decoded, the most of any.
    pub(crate) group_rows: u64,
    /// Rows of a chunk of the stripes that are paged by chunk, the most of any.
    pub(crate) chunk_rows: u64,
    pub(crate) there: ResidentPages,
    pub(crate) bytes: ColumnBytes,
    /// The files with raw rows are registered, or can be.
    pub(crate) can_be_mapped: bool,
    /// All raw values are in files that the software controller reads, or on drives of one NVMe controller.
    pub(crate) has_one_controller: bool,
    /// Some of the files' pages are not in the page cache.
    pub(crate) cold: bool,
}

impl ColumnStats {
    /// Whether the column can be read by command: all of it lies raw, where one controller reads it.
    pub(crate) fn is_raw(&self) -> bool {
        self.rows.decoded == 0 && self.rows.constant == 0 && self.rows.raw > 0 && self.has_one_controller
    }

    /// Pages that are to be loaded, if a share of `selectivity` passes. Resident ones are taken to be read again: most
    /// queries repeat, or narrow down, an earlier one.
    fn missing_pages(&self, selectivity: f64) -> MissingPages {
        let missing = |rows: u64, page_rows: u64, there: u64| {
            let touched = blocks_touched(rows, self.width, selectivity, page_rows.max(1) * self.width);
            (touched - there as f64).max(0.0)
        };
        let by_group_rows = self.rows.decoded.saturating_sub(self.rows.by_chunk);
        MissingPages {
            raw: missing(self.rows.raw, PAGE_BYTES / self.width.max(1), self.there.raw),
            groups: missing(by_group_rows, self.group_rows, self.there.groups),
            chunks: missing(self.rows.by_chunk, self.chunk_rows, self.there.chunks),
        }
    }

    /// Share of the decoded rows in pages that are to be loaded.
    fn missing_share(&self, pages: &MissingPages) -> f64 {
        let rows = pages.groups * self.group_rows as f64 + pages.chunks * self.chunk_rows as f64;
        (rows / self.rows.decoded.max(1) as f64).min(1.0)
    }

    /// Share of the chunks that hold a row that passes, if a share of `selectivity` does.
    pub(super) fn touched_chunks(&self, selectivity: f64) -> f64 {
        share_touched(selectivity, self.chunk_rows as f64)
    }
}

/// Pages that are to be loaded: of 64 raw bytes, row groups, and chunks.
struct MissingPages {
    raw: f64,
    groups: f64,
    chunks: f64,
}

/// Everything that costs depend on beside the column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CostInputs<'a> {
    pub(crate) choice: BackingChoice,
    /// Share of rows that pass.
    pub(crate) selectivity: f64,
    pub(crate) sector_bytes: u64,
    /// Columns may be read by command.
    pub(crate) commands: bool,
    /// Device memory for columns, in bytes.
    pub(crate) capacity: u64,
    pub(crate) profile: &'a MachineProfile,
    /// Columns that are read whole fit in device memory: passes can be replayed for pages.
    pub(crate) pages: bool,
}

/// Of `rows` values of `width` bytes, a share of `selectivity` is read from all over. The number of blocks of
/// `block_bytes` with one of them.
fn blocks_touched(rows: u64, width: u64, selectivity: f64, block_bytes: u64) -> f64 {
    let per_block = block_bytes as f64 / width as f64;
    let blocks = rows as f64 / per_block;
    blocks * share_touched(selectivity, per_block)
}

/// Share of the blocks of `rows` rows in which at least one passes, if a share of `selectivity` of all rows does.
fn share_touched(selectivity: f64, rows: f64) -> f64 {
    1.0 - (1.0 - selectivity.clamp(0.0, 1.0)).powf(rows)
}

/// Time to move and decode a column. Files are taken to be in the page cache, as in an
/// estimate of the CPU's time.
pub(super) fn estimated_time(column: &ColumnStats, backing: Backing, inputs: &CostInputs<'_>) -> Duration {
    Duration::from_secs_f64(moving_s(column, backing, inputs, false))
}

/// Seconds by which backings are compared: as [`estimated_time`], and in addition the disk for files that are not in
/// the page cache, and a further pass for pages.
pub(super) fn compared_s(column: &ColumnStats, backing: Backing, inputs: &CostInputs<'_>) -> f64 {
    let pass = if backing == Backing::Paged { PASS_S } else { 0.0 };
    moving_s(column, backing, inputs, column.cold) + pass
}

fn moving_s(column: &ColumnStats, backing: Backing, inputs: &CostInputs<'_>, cold: bool) -> f64 {
    let profile = inputs.profile;
    let touched = |block_bytes: u64| blocks_touched(column.rows.raw, column.width, inputs.selectivity, block_bytes);
    let raw_bytes = (column.rows.raw * column.width) as f64;
    let file_bytes_per_s = match cold {
        true => profile.disk_bytes_per_s,
        false => profile.push_bytes_per_s,
    };
    // Stripes that are resident are not decoded.
    let all = (column.bytes.missing + column.bytes.resident).max(1);
    let by_cpu = column.rows.decoded.saturating_sub(column.rows.on_device) as f64;
    let decode = by_cpu * (column.bytes.missing as f64 / all as f64) / profile.decoded_values_per_s();
    let decode = decode + column.bytes.compressed.seconds(profile);
    match backing {
        Backing::Resident => column.bytes.moved as f64 / file_bytes_per_s + decode,
        Backing::Paged => {
            let pages = column.missing_pages(inputs.selectivity);
            let share = column.missing_share(&pages);
            let decode = by_cpu / profile.decoded_values_per_s() + column.bytes.compressed.seconds(profile);
            let bytes = column.bytes.decoded_moved as f64;
            // Each page is a read, and takes part of its column's bytes and decoding.
            let reads = pages.raw + pages.groups + pages.chunks;
            reads / profile.fetched_pages_per_s + share * (bytes / file_bytes_per_s + decode)
        }
        Backing::Mapped => {
            let sectors = touched(LINK_SECTOR_BYTES);
            let bytes = sectors * LINK_SECTOR_BYTES as f64;
            let loads = match column.dense {
                true => raw_bytes / profile.mapped_bytes_per_s,
                false => (sectors / profile.mapped_loads_per_s).max(bytes / profile.mapped_bytes_per_s),
            };
            let disk = match cold {
                true => touched(FILE_PAGE_BYTES) * FILE_PAGE_BYTES as f64 / profile.disk_bytes_per_s,
                false => 0.0,
            };
            loads.max(disk) + (column.rows.decoded * column.width) as f64 / file_bytes_per_s + decode
        }
        Backing::Queued if column.dense => raw_bytes / file_bytes_per_s,
        Backing::Queued => {
            let commands = touched(inputs.sector_bytes);
            let bytes = commands * inputs.sector_bytes as f64;
            (commands / profile.commands_per_s).max(bytes / file_bytes_per_s)
        }
    }
}

/// Time that kernels take to scan a column in device memory. Decoding on the device takes no time beside that of moving
/// the encoded bytes (docs/experiments/0010-decoding-on-the-gpu.md); decompressing does.
pub(super) fn scan_time(column: &ColumnStats, inputs: &CostInputs<'_>) -> Duration {
    let share = if column.dense { 1.0 } else { inputs.selectivity };
    let bytes = ((column.rows.raw + column.rows.decoded) * column.width) as f64 * share;
    Duration::from_secs_f64(bytes / inputs.profile.device_bytes_per_s)
}

/// Bytes of the smallest range that is moved.
pub(super) fn granularity_bytes(column: &ColumnStats, backing: Backing, inputs: &CostInputs<'_>) -> u64 {
    match backing {
        Backing::Resident => MAX_COPY_BYTES.min((column.rows.all() * column.width).max(1)),
        Backing::Paged if column.rows.raw > 0 => PAGE_BYTES,
        Backing::Paged if column.rows.by_chunk > 0 => column.chunk_rows * column.width,
        Backing::Paged => (column.group_rows * column.width).max(1),
        Backing::Mapped => LINK_SECTOR_BYTES,
        Backing::Queued => inputs.sector_bytes,
    }
}

/// Bytes that are moved.
pub(super) fn estimated_bytes(column: &ColumnStats, backing: Backing, inputs: &CostInputs<'_>) -> u64 {
    let rows = column.rows.raw;
    let touched = |block_bytes: u64| match column.dense {
        true => rows * column.width,
        false => {
            let blocks = blocks_touched(rows, column.width, inputs.selectivity, block_bytes);
            (blocks * block_bytes as f64) as u64
        }
    };
    match backing {
        Backing::Resident => column.bytes.moved,
        Backing::Paged => {
            let pages = column.missing_pages(inputs.selectivity);
            let decoded = column.missing_share(&pages) * column.bytes.decoded_moved as f64;
            (pages.raw * PAGE_BYTES as f64 + decoded) as u64
        }
        Backing::Mapped => touched(LINK_SECTOR_BYTES) + column.rows.decoded * column.width,
        Backing::Queued => touched(inputs.sector_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_blocks_lie_between_the_values_wanted_and_all_blocks() {
        let sparse = blocks_touched(1_000_000, 8, 0.0003, 512);
        assert!((290.0..=300.0).contains(&sparse), "{sparse}");
        assert_eq!(blocks_touched(1_000_000, 8, 1.0, 512), 15_625.0);
        assert_eq!(blocks_touched(1_000_000, 8, 0.0, 512), 0.0);
    }

    #[test]
    fn share_of_chunks_with_a_row_that_passes_is_that_of_independent_rows() {
        // 1 - 0.9999^8192, 1 - 0.999^512 and 1 - 0.999^8192.
        let cases = [(1e-4, 8192.0, 0.5592), (1e-3, 512.0, 0.4009), (1e-3, 8192.0, 0.9997)];
        for (selectivity, rows, expected) in cases {
            let share = share_touched(selectivity, rows);
            assert!((share - expected).abs() < 1e-4, "{selectivity}, {rows}: {share}");
        }
        assert_eq!((share_touched(0.0, 8192.0), share_touched(1.0, 8192.0)), (0.0, 1.0));
    }
}
