//! The columns of a query of which only some pages are in device memory: where their pieces are, how their pages are numbered for
//! kernels, and which rows a page stands for. Bringing pages is gather.rs's business, keeping them pool.rs's.

use std::sync::atomic::AtomicU32;

use crate::abi::paging::{PAGE_BYTES, PagedPiece};
use crate::error::RunError;
use crate::input::{Placement, Stripe};
use crate::runtime::memory::arena::DeviceRange;
use crate::runtime::memory::buffer_pool::{CachedColumn, ColumnKey, PresenceBitmap};
use crate::runtime::transfer::transfer_plan::{Builder, ColumnLocation, Missing};

/// Pieces' pages are numbered from multiples of this on, so that no two share a word of bits.
const WORD_PAGES: u32 = 32;

/// A column's values of one stripe, there in part.
#[derive(Debug)]
pub(crate) struct PagedColumn {
    pub(crate) stripe: usize,
    pub(crate) column: usize,
    /// Rows of the stripe.
    pub(crate) rows: u64,
    pub(crate) key: ColumnKey,
    pub(crate) resident: CachedColumn,
    pub(crate) there: DeviceRange,
    pub(crate) pages: PageLayout,
    /// Number of its first page among all of the query's.
    pub(crate) first_page: u32,
    /// Index of its description among those that kernels are given.
    pub(crate) place: u32,
    /// Pages that were not there when the query began; those that came in this pass; and those that kernels know of.
    pub(crate) missing: u32,
    pub(crate) came: AtomicU32,
    pub(crate) published: AtomicU32,
}

impl PagedColumn {
    /// Which of its pages this one of the query's is, if it is one of them.
    pub(crate) fn page(&self, page: u32) -> Option<u32> {
        page.checked_sub(self.first_page).filter(|at| *at < self.pages.count)
    }

    /// Bytes that were there when the query began.
    fn bytes_there(&self) -> u64 {
        let there = self.pages.count.saturating_sub(self.missing);
        self.resident.bytes() * u64::from(there) / u64::from(self.pages.count.max(1))
    }
}

/// How a stripe's column is divided into pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageLayout {
    pub(crate) count: u32,
    pub(crate) rows: u32,
    /// Values that lie raw in the file; else row groups to be decoded.
    pub(crate) raw: bool,
}

impl PageLayout {
    /// `None`: not in numbers of 32 bits.
    pub(crate) fn of(stripe: &Stripe, column: usize, width: u64) -> Option<Self> {
        let raw = matches!(stripe.columns[column], Placement::Direct(_));
        let rows = if raw {
            PAGE_BYTES / width
        } else {
            stripe.group_rows.min(stripe.rows.max(1))
        };
        u32::try_from(stripe.rows).ok()?; // kernels divide a row's number by `rows`
        Some(Self {
            count: u32::try_from(stripe.rows.div_ceil(rows)).ok()?,
            rows: u32::try_from(rows).ok()?,
            raw,
        })
    }

    /// Bytes of their bits: whole words.
    pub(crate) fn bits_bytes(self) -> usize {
        self.count.div_ceil(WORD_PAGES) as usize * 4
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct PageTable {
    /// The program's columns that have such pieces, ascending.
    pub(crate) columns: Vec<usize>,
    /// By number of the first page, ascending.
    pub(crate) pieces: Vec<PagedColumn>,
    /// Pages of all pieces: numbers go up to here.
    pub(crate) pages: u32,
    /// Bits that are yet to be set to zero.
    pub(crate) unset: Vec<DeviceRange>,
}

impl PageTable {
    /// Appends a piece; false: there are too many pages.
    fn add(
        &mut self,
        m: &Missing,
        rows: u64,
        key: ColumnKey,
        pages: PageLayout,
        (resident, bits): &(CachedColumn, PresenceBitmap),
    ) -> bool {
        let next = self.pages.checked_add(pages.count);
        let next = next.and_then(|end| end.checked_next_multiple_of(WORD_PAGES));
        // A page's number plus one is a word that is not zero.
        let Some(next) = next.filter(|end| *end < u32::MAX) else {
            return false;
        };
        self.pieces.push(PagedColumn {
            stripe: m.stripe,
            column: m.column,
            rows,
            key,
            resident: resident.clone(),
            there: bits.there.clone(),
            pages,
            first_page: self.pages,
            place: 0,
            missing: bits.missing,
            came: AtomicU32::new(0),
            published: AtomicU32::new(0),
        });
        self.pages = next;
        true
    }

    /// All pieces are known: gives them their places among `stripes` descriptions for each column.
    fn number(&mut self, stripes: usize) {
        self.columns = self.pieces.iter().map(|p| p.column).collect();
        self.columns.sort_unstable();
        self.columns.dedup();
        for piece in &mut self.pieces {
            let column = self.columns.partition_point(|c| *c < piece.column);
            piece.place = (column * stripes + piece.stripe) as u32;
        }
    }

    /// What kernels are told: for each of the columns, for each stripe.
    pub(crate) fn described(&self, stripes: usize) -> Vec<PagedPiece> {
        let mut all = vec![
            PagedPiece {
                page_rows: 1,
                ..PagedPiece::default()
            };
            self.columns.len() * stripes
        ];
        for piece in &self.pieces {
            all[piece.place as usize] = PagedPiece {
                there: piece.there.address(),
                values: piece.resident.values.address(),
                bytes: piece.resident.values.len as u64,
                first_page: piece.first_page,
                page_rows: piece.pages.rows,
                pages: piece.pages.count,
                pad0: 0,
            };
        }
        all
    }

    /// The piece that has a page, and which of its pages that is.
    pub(crate) fn find(&self, page: u32) -> Option<(&PagedColumn, u32)> {
        let after = self.pieces.partition_point(|p| p.first_page <= page);
        let piece = self.pieces.get(after.checked_sub(1)?)?;
        piece.page(page).map(|at| (piece, at))
    }

    /// Bytes of a bit for each page.
    pub(crate) fn bits_bytes(&self) -> usize {
        (self.pages / WORD_PAGES) as usize * 4
    }
}

impl Builder<'_, '_> {
    /// Finds what earlier queries left of columns that come by pages, and room for the others. False: they must come whole, because there
    /// is not room for all of them, or there are too many pages to be numbered.
    pub(crate) fn reserve_pages(&mut self, paged: &[Missing]) -> Result<bool, RunError> {
        let (request, stripes) = (self.request, self.request.input.stripes.len());
        let width = |m: &Missing| u64::from(request.program.columns[m.column].ty.width());
        let pages = |m: &Missing| PageLayout::of(&request.input.stripes[m.stripe], m.column, width(m));
        let Some(pages) = paged.iter().map(pages).collect::<Option<Vec<PageLayout>>>() else {
            return Ok(false);
        };
        let find = |(m, pages): (&Missing, &PageLayout)| {
            let found = self.means.pool.find_paged(&self.key(m.stripe, m.column));
            let fits = |kept: &(CachedColumn, PresenceBitmap)| {
                (kept.1.pages, kept.0.valid.is_some()) == (pages.count, m.valid.is_some())
            };
            found.filter(fits)
        };
        let found: Vec<_> = paged.iter().zip(&pages).map(find).collect();
        let new: Vec<usize> = (0..paged.len()).filter(|&at| found[at].is_none()).collect();
        let bytes = |&at: &usize| paged[at].bytes() + pages[at].bits_bytes() as u64;
        if new.iter().map(bytes).sum::<u64>() > self.means.pool.available() {
            return Ok(false);
        }
        // Bits first, one after the other, so that they are set to zero at once; then values, each stripe's behind the last one's.
        let Some(bits) = self.room_for_bits(new.iter().map(|&at| pages[at].bits_bytes()))? else {
            return Ok(false);
        };
        self.out.paging.unset.clone_from(&bits);
        let mut bits = bits.into_iter();
        for (at, m) in paged.iter().enumerate() {
            let key = self.key(m.stripe, m.column);
            let kept = match (&found[at], found[at].is_none().then(|| bits.next()).flatten()) {
                (Some(kept), _) => Some(kept.clone()),
                (None, Some(there)) => {
                    let bits = PresenceBitmap {
                        there,
                        pages: pages[at].count,
                        missing: pages[at].count,
                    };
                    let valid = m.valid.map(|v| v as usize);
                    let pool = &mut self.means.pool;
                    let resident = pool.reserve_paged(key, m.values as usize, valid, bits.clone())?;
                    resident.map(|resident| (resident, bits))
                }
                (None, None) => None,
            };
            let Some(kept) = kept.filter(|kept| {
                self.out
                    .paging
                    .add(m, request.input.stripes[m.stripe].rows, key, pages[at], kept)
            }) else {
                bits.for_each(|piece| self.means.pool.give_back(&piece));
                return Ok(false);
            };
            self.places[m.stripe][m.column] = ColumnLocation::Resident(kept.0);
        }
        self.out.paging.number(stripes);
        self.out.resident_bytes += self.out.paging.pieces.iter().map(PagedColumn::bytes_there).sum::<u64>();
        Ok(true)
    }

    fn room_for_bits(&mut self, bytes: impl Iterator<Item = usize>) -> Result<Option<Vec<DeviceRange>>, RunError> {
        let mut bits = Vec::new();
        for bytes in bytes {
            let Some(piece) = self.means.pool.piece(bytes)? else {
                bits.iter().for_each(|piece| self.means.pool.give_back(piece));
                return Ok(None);
            };
            bits.push(piece);
        }
        Ok(Some(bits))
    }

    /// Gives up what is there in part of columns that have to come whole.
    pub(crate) fn drop_pages(&mut self, paged: &[Missing]) {
        for m in paged {
            let key = self.key(m.stripe, m.column);
            if self.means.pool.page_bits(&key).is_some() {
                self.means.pool.drop_column(&key);
            }
            self.places[m.stripe][m.column] = ColumnLocation::Nowhere;
        }
        self.out.paging = PageTable::default();
    }
}
