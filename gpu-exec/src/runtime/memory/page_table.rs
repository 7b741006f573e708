//! `PageTable`: a query's columns of which only some pages are in device memory: how their pages are numbered for
//! kernels, and which rows a page stands for.
//!
//! A page of values that lie raw in their file is 64 bytes of them. A page of a decoded column is a row group, or the
//! rows of a compression chunk.

use crate::input::encoded_check::MAX_GROUP_ROWS;
use std::sync::atomic::AtomicU32;

use crate::abi::paging::{PAGE_BYTES, PagedPiece};
use crate::input::Stripe;
use crate::options::Place;
use crate::runtime::memory::arena::DeviceRange;
use crate::runtime::memory::cached_column::{CachedColumn, PresenceBitmap};
use crate::runtime::memory::column_key::ColumnKey;
use crate::validity;

/// The pages of each column of a stripe are numbered from a multiple of this on, so that no two columns share a word of
/// bits.
const WORD_PAGES: u32 = 32;

/// A stripe's column that is partially resident.
#[derive(Debug)]
pub(crate) struct PagedColumn {
    pub(crate) stripe: usize,
    pub(crate) column: usize,
    /// Rows of the stripe.
    pub(crate) rows: u64,
    pub(crate) key: ColumnKey,
    pub(crate) cached: CachedColumn,
    /// A bit for each page that is there.
    pub(crate) there: DeviceRange,
    pub(crate) layout: PageLayout,
    /// The device decodes its row groups, as far as the metadata tells.
    pub(crate) on_device: bool,
    /// Position in the table.
    pub(crate) position: u32,
    /// Number of its first page among all of the query's.
    pub(crate) first_page: u32,
    /// Index of its description among those that kernels are given.
    pub(crate) description: u32,
    /// Pages that were not there when the query began.
    pub(crate) missing: u32,
    /// Pages that came in this pass.
    pub(crate) came: AtomicU32,
    /// Pages that kernels know of since the query began.
    pub(crate) published: AtomicU32,
}

impl PagedColumn {
    /// A column with nothing come yet; the table numbers its pages.
    pub(crate) fn new(
        (stripe, column): (usize, usize),
        rows: u64,
        key: ColumnKey,
        (layout, on_device): (PageLayout, bool),
        cached: CachedColumn,
        bits: PresenceBitmap,
    ) -> Self {
        Self {
            stripe,
            column,
            rows,
            key,
            cached,
            there: bits.there,
            layout,
            on_device,
            position: 0,
            first_page: 0,
            description: 0,
            missing: bits.missing,
            came: AtomicU32::new(0),
            published: AtomicU32::new(0),
        }
    }

    /// The index among the column's pages of a page with a number of the table's, if the column has it.
    pub(crate) fn page(&self, page: u32) -> Option<u32> {
        page.checked_sub(self.first_page).filter(|at| *at < self.layout.count)
    }

    /// Bytes that were there when the query began.
    fn resident_bytes(&self) -> u64 {
        let there = self.layout.count.saturating_sub(self.missing);
        self.cached.bytes() * u64::from(there) / u64::from(self.layout.count.max(1))
    }
}

/// How a stripe's column is divided into pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageLayout {
    /// Pages.
    pub(crate) count: u32,
    /// Rows of a page.
    pub(crate) rows: u32,
    /// The values lie raw in the file; else pages are to be decoded.
    pub(crate) raw: bool,
}

/// Rows of a page that is a chunk, at least: a task and the read of smaller ones would cost more than their bytes.
const MIN_CHUNK_ROWS: u64 = 64;

/// Rows of a page of a column whose values lie raw in chunks that decompress to `chunk_bytes`: those of a chunk, with
/// whole bytes of validity. If chunks end within values, or have other lengths, a page lies in several.
pub(crate) fn chunk_rows(chunk_bytes: u64, width: u64) -> u64 {
    let rows = (chunk_bytes / width.max(1)).clamp(MIN_CHUNK_ROWS, MAX_GROUP_ROWS);
    rows - rows % validity::ROWS_OF_BYTE
}

impl PageLayout {
    /// Pages of values of `width` bytes, which the stripe has at `place`. `on_device`: the device decodes them; the CPU
    /// decodes whole row groups. `None`: the numbers exceed 32 bits.
    pub(crate) fn of(stripe: &Stripe, place: Place<'_>, width: u64, on_device: bool) -> Option<Self> {
        let raw = matches!(place, Place::Raw(_));
        let rows = match place {
            Place::Raw(_) => PAGE_BYTES / width,
            Place::Decoded {
                chunk_bytes: Some(bytes),
                ..
            } if on_device => chunk_rows(bytes, width).min(stripe.rows.max(1)),
            Place::Decoded { .. } | Place::Constant(_) => stripe.group_rows.min(stripe.rows.max(1)),
        };
        u32::try_from(stripe.rows).ok()?; // kernels divide a row's number by `rows`
        Some(Self {
            count: u32::try_from(stripe.rows.div_ceil(rows)).ok()?,
            rows: u32::try_from(rows).ok()?,
            raw,
        })
    }

    /// Bytes of the pages' bits: whole words.
    pub(crate) fn bits_bytes(self) -> usize {
        self.count.div_ceil(WORD_PAGES) as usize * 4
    }
}

/// All partially resident columns of a query.
#[derive(Debug, Default)]
pub(crate) struct PageTable {
    /// The program's columns that have any, ascending.
    pub(crate) program_columns: Vec<usize>,
    /// By number of the first page, ascending.
    pub(crate) columns: Vec<PagedColumn>,
    /// Pages of all columns: numbers go up to here.
    pub(crate) pages: u32,
    /// Bits that are yet to be set to zero.
    pub(crate) unset: Vec<DeviceRange>,
}

impl PageTable {
    /// Appends a column. False: there are too many pages.
    pub(crate) fn add(&mut self, column: PagedColumn) -> bool {
        let next = self.pages.checked_add(column.layout.count);
        let next = next.and_then(|end| end.checked_next_multiple_of(WORD_PAGES));
        // Kernels write a page's number plus one, which is a word that is not zero.
        let Some(next) = next.filter(|end| *end < u32::MAX) else {
            return false;
        };
        self.columns.push(PagedColumn {
            position: self.columns.len() as u32,
            first_page: self.pages,
            ..column
        });
        self.pages = next;
        true
    }

    /// All columns are known: gives them their places among `stripes` descriptions for each column of the program.
    pub(crate) fn finish(&mut self, stripes: usize) {
        self.program_columns = self.columns.iter().map(|c| c.column).collect();
        self.program_columns.sort_unstable();
        self.program_columns.dedup();
        for column in &mut self.columns {
            let before = self.program_columns.partition_point(|c| *c < column.column);
            column.description = (before * stripes + column.stripe) as u32;
        }
    }

    /// The descriptions that kernels are given: for each column of the program, for each stripe.
    pub(crate) fn descriptions(&self, stripes: usize) -> Vec<PagedPiece> {
        let none = PagedPiece {
            page_rows: 1,
            ..PagedPiece::default()
        };
        let mut all = vec![none; self.program_columns.len() * stripes];
        for column in &self.columns {
            all[column.description as usize] = PagedPiece {
                there: column.there.address(),
                values: column.cached.values.address(),
                bytes: column.cached.values.len as u64,
                first_page: column.first_page,
                page_rows: column.layout.rows,
                pages: column.layout.count,
                pad0: 0,
            };
        }
        all
    }

    /// The column that has a page, and the index of the page in it.
    pub(crate) fn find(&self, page: u32) -> Option<(&PagedColumn, u32)> {
        let after = self.columns.partition_point(|c| c.first_page <= page);
        let column = self.columns.get(after.checked_sub(1)?)?;
        column.page(page).map(|at| (column, at))
    }

    /// Bytes of a bit for each page.
    pub(crate) fn bits_bytes(&self) -> usize {
        (self.pages / WORD_PAGES) as usize * 4
    }

    /// Bytes of the columns that were there when the query began.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.columns.iter().map(PagedColumn::resident_bytes).sum()
    }
}
