//! What each way of bringing a column would take and move, by what the machine gives (machine_profile.rs). Which way is taken is choose.rs's
//! business.

use crate::abi::paging::PAGE_BYTES;
use crate::machine_profile::{LINK_SECTOR_BYTES, MachineProfile, pieces_touched};
use crate::options::{Backing, BackingChoice};
use crate::runtime::memory::pinned_ring::MAX_COPY_BYTES;

/// What is known of one column before the query.
#[derive(Debug, Clone)]
pub(crate) struct ColumnStats {
    /// It is read whole: the first conjunct needs it, or there is no filter.
    pub(crate) dense: bool,
    /// Bytes of a value.
    pub(crate) width: u64,
    /// Selected rows that lie raw in their files, have to be decoded, or all have one value.
    pub(crate) raw_rows: u64,
    pub(crate) decoded_rows: u64,
    /// Of those that have to be decoded: by the GPU.
    pub(crate) on_device_rows: u64,
    pub(crate) constant_rows: u64,
    /// Rows of a row group of the stripes that are decoded, the most of any.
    pub(crate) group_rows: u64,
    /// Pages that are there of stripes that are there in part: of 64 raw bytes, and row groups.
    pub(crate) pages_there: u64,
    pub(crate) groups_there: u64,
    /// Bytes on the device already.
    pub(crate) resident_bytes: u64,
    /// Bytes that would have to be brought for it to be there whole.
    pub(crate) missing_bytes: u64,
    /// Bytes that are moved for that: fewer where the GPU decodes.
    pub(crate) brought_bytes: u64,
    /// Bytes of the files with raw rows that are not registered; `None`: one of them cannot be.
    pub(crate) unregistered_bytes: Option<u64>,
    /// Some of its files' pages are not in the page cache.
    pub(crate) cold: bool,
}

impl ColumnStats {
    /// All of it lies raw: it can be read by command.
    pub(crate) fn is_raw(&self) -> bool {
        self.decoded_rows == 0 && self.constant_rows == 0 && self.raw_rows > 0
    }

    /// Pages of it that are to be gathered, and row groups that are to be decoded, for rows of which a share of `selectivity` passes. Those
    /// that are there are taken to be wanted again: most queries repeat, or narrow down, an earlier one.
    fn pages(&self, selectivity: f64) -> (f64, f64) {
        let missing = |touched: f64, there: u64| (touched - there as f64).max(0.0);
        let pages = pieces_touched(self.raw_rows, self.width, selectivity, PAGE_BYTES);
        let group_bytes = self.group_rows.max(1) * self.width;
        let groups = pieces_touched(self.decoded_rows, self.width, selectivity, group_bytes);
        (missing(pages, self.pages_there), missing(groups, self.groups_there))
    }

    pub(crate) fn rows(&self) -> u64 {
        self.raw_rows + self.decoded_rows + self.constant_rows
    }
}

/// What else the choice depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CostInputs {
    pub(crate) choice: BackingChoice,
    /// Share of rows that pass.
    pub(crate) selectivity: f64,
    pub(crate) sector_bytes: u64,
    /// Device memory for columns.
    pub(crate) room: u64,
    pub(crate) machine_profile: MachineProfile,
    /// Files may be registered for columns that are read sparsely.
    pub(crate) register: bool,
    /// What is read whole fits into device memory, so that rows can be gone over again for pages.
    pub(crate) pages: bool,
}

/// What a further pass costs, and waiting for the last pages: half a millisecond is what it took over 200 million rows.
const PASS_SECONDS: f64 = 0.0005;

/// Seconds that a way takes, registering left out.
pub(crate) fn cost(column: &ColumnStats, backing: Backing, terms: &CostInputs) -> f64 {
    let c = &terms.machine_profile;
    let wanted = |piece: u64| pieces_touched(column.raw_rows, column.width, terms.selectivity, piece);
    let push = if column.cold {
        c.disk_bytes_per_s
    } else {
        c.push_bytes_per_s
    };
    // Of stripes that are there nothing is decoded.
    let all = (column.missing_bytes + column.resident_bytes).max(1);
    let cpu_decode = column.decoded_rows.saturating_sub(column.on_device_rows) as f64;
    let to_decode = cpu_decode * (column.missing_bytes as f64 / all as f64) / c.decoded_values_per_s;
    match backing {
        Backing::Resident => column.brought_bytes as f64 / push + to_decode,
        Backing::Paged => {
            let (pages, groups) = column.pages(terms.selectivity);
            let values = groups * column.group_rows as f64;
            let decode = values / c.decoded_values_per_s + values * column.width as f64 / push;
            pages / c.gathered_pages_per_s + decode + PASS_SECONDS
        }
        Backing::Mapped => {
            let sectors = wanted(LINK_SECTOR_BYTES);
            let loads = (sectors / c.mapped_loads_per_s).max(sectors * LINK_SECTOR_BYTES as f64 / c.mapped_bytes_per_s);
            let rest = (column.decoded_rows * column.width) as f64 / push + to_decode;
            let disk = if column.cold {
                wanted(4096) * 4096.0 / c.disk_bytes_per_s
            } else {
                0.0
            };
            loads.max(disk) + rest
        }
        Backing::Queued => {
            let commands = wanted(terms.sector_bytes);
            let bytes = commands * terms.sector_bytes as f64;
            (commands / c.commands_per_s).max(bytes / push)
        }
    }
}

/// Bytes of the smallest piece that is moved.
pub(crate) fn granularity(column: &ColumnStats, backing: Backing, terms: &CostInputs) -> u64 {
    match backing {
        Backing::Resident => MAX_COPY_BYTES.min((column.rows() * column.width).max(1)),
        Backing::Paged if column.raw_rows > 0 => PAGE_BYTES,
        Backing::Paged => (column.group_rows * column.width).max(1),
        Backing::Mapped => LINK_SECTOR_BYTES,
        Backing::Queued => terms.sector_bytes,
    }
}

/// Bytes that are moved.
pub(crate) fn estimate(column: &ColumnStats, backing: Backing, terms: &CostInputs) -> u64 {
    let rows = column.raw_rows;
    let touched = |piece: u64| {
        if column.dense {
            rows * column.width
        } else {
            (pieces_touched(rows, column.width, terms.selectivity, piece) * piece as f64) as u64
        }
    };
    match backing {
        Backing::Resident => column.brought_bytes,
        Backing::Paged => {
            let (pages, groups) = column.pages(terms.selectivity);
            (pages * PAGE_BYTES as f64 + groups * (column.group_rows * column.width) as f64) as u64
        }
        Backing::Mapped => touched(LINK_SECTOR_BYTES) + column.decoded_rows * column.width,
        Backing::Queued => touched(terms.sector_bytes),
    }
}
