//! [`FilterSample`]: how many rows of a few places of a table pass the scan's filter.
//!
//! Only local files are sampled, and only if the sample reads few bytes. A sample is an estimate: whatever is wrong
//! with the files or the filter, the scan itself reports.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::error::Result;
use grampus_orc_layout::proto::stream::Kind;
use grampus_orc_layout::stripe::StripeLayout;

use super::Scan;
use super::column_locations::{at_once, read};
use super::scan_ranges::PlannedStripe;
use super::stripe_column::{is_nested, stored_bytes};
use crate::error::layout;
use crate::file::IoCounters;
use crate::table::files::TableFile;

/// Places of a sample, at equal distances.
pub(crate) const MAX_PLACES: u64 = 8;
/// Maximum rows of a place. They begin a row group, where decoders can start.
pub(crate) const MAX_PLACE_ROWS: u64 = 1024;
/// Maximum stored bytes that a sample reads, by estimate. Dictionaries and compression chunks count whole.
pub(crate) const MAX_SAMPLE_BYTES: u64 = 4 << 20;

/// The rows of a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FilterSample {
    /// Rows on which the filter was evaluated.
    pub(crate) rows: u64,
    /// Rows among them that pass.
    pub(crate) passed: u64,
    /// Places of the sample.
    pub(crate) places: u64,
    /// Rows of the places in which a row passes.
    pub(crate) rows_of_hits: u64,
    /// Places in which a row passes.
    pub(crate) hits: u64,
}

impl FilterSample {
    /// Adds a place of `rows` rows, of which `passed` pass.
    pub(crate) fn add_place(&mut self, rows: u64, passed: u64) {
        self.rows += rows;
        self.passed += passed;
        self.places += 1;
        if passed > 0 {
            self.hits += 1;
            self.rows_of_hits += rows;
        }
    }
}

/// Evaluates the filter at a few places of `stripes`. `None`: there is no filter, or a sample costs too much.
///
/// # Errors
/// If the files cannot be read, or the filter fails on a row. The scan may succeed all the same: it evaluates a
/// conjunct only on rows that the conjuncts before let through.
pub(super) fn sample(scan: &Scan, stripes: &[PlannedStripe]) -> Result<Option<FilterSample>> {
    if scan.conjuncts.is_empty() || !scan.is_local() {
        return Ok(None);
    }
    let mut places = Vec::new();
    let mut bytes: u64 = 0;
    for (planned, rows) in place_starts(stripes) {
        let file = &scan.files[planned.file].file;
        let stripe = at_once(scan.cache.stripe(file, planned.stripe, &IoCounters::default()))?.map_err(layout)?;
        // Decoders start at row groups.
        let stride = file.tail.row_group_stride(&stripe.info).map_or(0, u64::from);
        let start = rows.checked_div(stride).map_or(0, |group| group * stride);
        let end = (start + MAX_PLACE_ROWS).min(stripe.info.rows);
        match filter_bytes(scan, &scan.files[planned.file], &stripe, end - start) {
            Some(of_place) => bytes = bytes.saturating_add(of_place),
            None => return Ok(None),
        }
        if bytes > MAX_SAMPLE_BYTES {
            return Ok(None);
        }
        let place = (planned.file, stripe, start..end);
        if places
            .last()
            .is_none_or(|last: &(usize, Arc<StripeLayout>, Range<u64>)| {
                (last.0, last.1.info.index, &last.2) != (place.0, place.1.info.index, &place.2)
            })
        {
            places.push(place);
        }
    }
    let mut sample = FilterSample::default();
    for (file, stripe, rows) in places {
        let of_place = rows.end - rows.start;
        sample.add_place(of_place, passing(scan, file, &stripe, rows)?);
    }
    Ok((sample.rows > 0).then_some(sample))
}

/// The middles of equal parts of all rows: a stripe, and a row of it.
fn place_starts(stripes: &[PlannedStripe]) -> Vec<(&PlannedStripe, u64)> {
    let total: u64 = stripes.iter().map(|stripe| stripe.rows).sum();
    let middle = |place: u64| (u128::from(total) * u128::from(2 * place + 1) / u128::from(2 * MAX_PLACES)) as u64;
    let mut middles = (0..MAX_PLACES).map(middle).peekable();
    let mut starts = Vec::new();
    let mut before = 0;
    for stripe in stripes {
        while let Some(row) = middles.next_if(|&row| row < before + stripe.rows) {
            starts.push((stripe, row - before));
        }
        before += stripe.rows;
    }
    starts
}

/// Stored bytes that the filter's columns take for `rows` rows of a stripe, about. `None`: a column cannot be read
/// from the middle of a stripe.
fn filter_bytes(scan: &Scan, file: &TableFile, stripe: &StripeLayout, rows: u64) -> Option<u64> {
    let tail = &file.file.tail;
    let chunk = tail.compression.as_ref().map_or(0, |codec| codec.block_size_bytes);
    let columns = scan.conjuncts.iter().flat_map(|conjunct| &conjunct.columns);
    let ids = columns.filter_map(|&column| file.place_of(column).ok());
    let mut bytes: u64 = 0;
    for id in ids {
        if is_nested(tail.schema.column(id).kind) {
            return None;
        }
        let dictionary = stripe
            .stream(id, Kind::DictionaryData)
            .map_or(0, |stream| stream.length);
        let others = stored_bytes(&tail.schema, stripe, id).saturating_sub(dictionary);
        let share = u128::from(others) * u128::from(rows) / u128::from(stripe.info.rows.max(1));
        bytes = bytes
            .saturating_add(dictionary)
            .saturating_add((share as u64).max(chunk.min(others)));
    }
    Some(bytes)
}

/// The number of `rows` in one stripe of a local file that pass the scan's filter.
///
/// # Errors
/// If the file cannot be read, or a conjunct fails on a row, even one that an earlier conjunct excludes.
pub(crate) fn passing(scan: &Scan, file: usize, stripe: &Arc<StripeLayout>, rows: Range<u64>) -> Result<u64> {
    let count = (rows.end - rows.start) as usize;
    let mut pass = vec![true; count];
    for &at in &scan.order {
        let conjunct = &scan.conjuncts[at];
        let mut arrays = Vec::with_capacity(conjunct.columns.len());
        for &column in &conjunct.columns {
            arrays.push(read(scan, file, stripe, column, rows.clone())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&conjunct.schema), arrays, &options)?;
        let mask = conjunct.evaluate(&batch)?.into_array(count)?;
        let Some(mask) = mask.as_boolean_opt() else {
            return Ok(0);
        };
        for (row, pass) in pass.iter_mut().enumerate() {
            *pass &= mask.is_valid(row) && mask.value(row);
        }
    }
    Ok(pass.iter().filter(|pass| **pass).count() as u64)
}
