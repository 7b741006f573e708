//! Reservation of space for paged columns: of each, all of its values have their space, and a bit for each page says
//! whether it is there.

use crate::error::RunError;
use crate::runtime::memory::arena::DeviceRange;
use crate::runtime::memory::buffer_pool::{BufferPool, QueryId};
use crate::runtime::memory::cached_column::{CachedColumn, PresenceBitmap};
use crate::runtime::memory::page_table::{PageLayout, PageTable, PagedColumn};
use crate::runtime::transfer::column_locator::{ColumnLocation, ColumnLocator, MissingColumn};
use crate::runtime::transfer::encoded_columns::EncodedColumns;
use crate::validity;

/// Finds what earlier queries left of paged columns, and reserves space for the others. `None`: the columns must be
/// loaded whole, because not all of them have space, because there are too many pages to be numbered, or because two
/// pages share a byte of validity.
pub(crate) fn reserve_pages(
    columns: &mut ColumnLocator<'_>,
    encoded: &EncodedColumns<'_>,
    (pool, query): (&mut BufferPool, QueryId),
    paged: &[MissingColumn],
) -> Result<Option<PageTable>, RunError> {
    let stripes = &columns.request.input.stripes;
    let layout_of = |m: &MissingColumn, on_device: bool| {
        let width = u64::from(columns.stored(m.column).bytes());
        let stripe = &stripes[m.stripe];
        let place = columns.request.place(stripe, m.column);
        let layout = PageLayout::of(stripe, place, width, on_device)?;
        // Pages come one by one, each with its bytes of validity.
        let has_whole_bytes = layout.count == 1 || u64::from(layout.rows).is_multiple_of(validity::ROWS_OF_BYTE);
        (m.valid.is_none() || has_whole_bytes).then_some(layout)
    };
    let layout = |m: &MissingColumn| layout_of(m, encoded.may_decode((m.stripe, m.column)));
    let Some(mut layouts) = paged.iter().map(layout).collect::<Option<Vec<PageLayout>>>() else {
        return Ok(None);
    };
    let mut find = |(m, layout): (&MissingColumn, &mut PageLayout)| {
        let (cached, bits) = pool.find_paged(query, &columns.key(m))?;
        // The column may have had the other decoder when its first page came.
        let mut layouts = [true, false]
            .into_iter()
            .filter_map(|on_device| layout_of(m, on_device));
        let known = layouts.find(|layout| (layout.count, layout.rows) == (bits.pages, bits.page_rows));
        if let Some(known) = known.filter(|_| cached.valid.is_some() == m.valid.is_some()) {
            *layout = known;
            return Some((cached, bits));
        }
        pool.drop_pages(query, &columns.key(m)); // pages of another size
        None
    };
    let found: Vec<_> = paged.iter().zip(&mut layouts).map(&mut find).collect();
    let new: Vec<usize> = (0..paged.len()).filter(|&at| found[at].is_none()).collect();
    let bytes = |&at: &usize| paged[at].bytes() + layouts[at].bits_bytes() as u64;
    if new.iter().map(bytes).sum::<u64>() > pool.available(query) {
        return Ok(None);
    }
    // Bits first, one after the other, so that they are set to zero at once; then values, each stripe's behind the last
    // one's.
    let Some(bits) = take_all(pool, new.iter().map(|&at| layouts[at].bits_bytes()))? else {
        return Ok(None);
    };
    let mut table = PageTable {
        unset: bits.clone(),
        ..PageTable::default()
    };
    let mut bits = bits.into_iter();
    for ((m, layout), found) in paged.iter().zip(&layouts).zip(found) {
        let reserved = match found {
            Some(found) => Some(found),
            None => match bits.next() {
                Some(there) => reserve_one(columns, (pool, query), m, *layout, there)?,
                None => None,
            },
        };
        let added = reserved.filter(|(cached, bits)| {
            let (place, rows) = ((m.stripe, m.column), stripes[m.stripe].rows);
            let (cached, bits) = (cached.clone(), bits.clone());
            let decoded = (*layout, encoded.may_decode(place));
            table.add(PagedColumn::new(place, rows, columns.key(m), decoded, cached, bits))
        });
        let Some((cached, _)) = added else {
            bits.for_each(|range| pool.give_back(&range));
            return Ok(None);
        };
        columns.locations[m.stripe][m.column] = ColumnLocation::Pool(cached);
    }
    table.finish(stripes.len());
    Ok(Some(table))
}

/// Reserves space for a column of which no page is there. The pool takes the bits.
fn reserve_one(
    columns: &ColumnLocator<'_>,
    (pool, query): (&mut BufferPool, QueryId),
    m: &MissingColumn,
    layout: PageLayout,
    there: DeviceRange,
) -> Result<Option<(CachedColumn, PresenceBitmap)>, RunError> {
    let bits = PresenceBitmap {
        there,
        pages: layout.count,
        page_rows: layout.rows,
        missing: layout.count,
    };
    let valid = m.valid.map(|bytes| bytes as usize);
    let cached = pool.reserve_paged(query, columns.key(m), m.values as usize, valid, bits.clone())?;
    Ok(cached.map(|cached| (cached, bits)))
}

/// Ranges of so many bytes each; `None`, with everything given back, if one of them has no space.
fn take_all(pool: &mut BufferPool, lengths: impl Iterator<Item = usize>) -> Result<Option<Vec<DeviceRange>>, RunError> {
    let mut taken = Vec::new();
    for bytes in lengths {
        let Some(range) = pool.take(bytes)? else {
            taken.iter().for_each(|range| pool.give_back(range));
            return Ok(None);
        };
        taken.push(range);
    }
    Ok(Some(taken))
}

/// Drops what is resident of partially resident columns that have to be loaded whole.
pub(crate) fn drop_pages(
    columns: &mut ColumnLocator<'_>,
    (pool, query): (&mut BufferPool, QueryId),
    paged: &[MissingColumn],
) {
    for m in paged {
        pool.drop_pages(query, &columns.key(m));
        columns.locations[m.stripe][m.column] = ColumnLocation::Nowhere;
    }
}
