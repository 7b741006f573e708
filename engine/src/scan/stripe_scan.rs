//! `StripeScan`: the scan of one stripe.
//!
//! 1. The row groups that statistics do not exclude are cut into tiles.
//! 2. If the file is remote, a window of tiles is fetched: the first conjunct's columns or, without a filter, all.
//! 3. Each conjunct reads its columns for the tile's remaining rows, and removes the rows that do not pass.
//! 4. Surviving rows of many tiles become pending, with their values of projected filter columns.
//! 5. A flush reads the other projected columns for the pending rows and returns a batch.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::stripe::StripeLayout;

use super::Scan;
use super::metrics::ScanMetrics;
use super::predicate_cascade::PredicateCascade;
use super::pruning::{ContainerStatistics, Containers};
use super::row_mask::RowMask;
use super::scan_ranges::ScanRange;
use super::stripe_column::{StoredColumn, StripeColumn, is_all_null, is_nested, is_plain};
use crate::error::layout;
use crate::file::{FileHandle, ScanSource};

/// Bytes that one window of a remote file fetches.
const WINDOW_BYTES: f64 = (16 << 20) as f64;
/// Minimum rows of a tile of a remote file, because each tile costs a round trip.
const MIN_FETCHED_TILE_ROWS: usize = 1 << 20;

/// The state of the scan of one stripe.
pub(super) struct StripeScan {
    scan: Arc<Scan>,
    file: usize,
    layout: Arc<StripeLayout>,
    handle: Arc<FileHandle>,
    source: Arc<ScanSource>,
    /// Columns by table column, opened at their first use.
    columns: Vec<Option<StripeColumn>>,
    tiles: Vec<Range<u64>>,
    next_tile: usize,
    /// The first tile after the fetched window.
    fetched_tiles: usize,
    /// Rows that passed, and whose other columns are not read yet.
    pending: RowSelection,
    /// Projected columns that the filter does not read.
    dependents: Arc<[usize]>,
    /// Values of the pending rows, for projected filter columns.
    kept: Vec<(usize, Vec<ArrayRef>)>,
    reservation: Arc<MemoryReservation>,
}

impl StripeScan {
    /// Opens a stripe; `None`: statistics exclude all of its row groups.
    pub(super) async fn open(
        scan: &Arc<Scan>,
        work: &ScanRange,
        tile_rows: usize,
        metrics: &ScanMetrics,
        reservation: &Arc<MemoryReservation>,
    ) -> Result<Option<Self>> {
        let file = &scan.files[work.file].file;
        let layout_of = scan
            .cache
            .stripe(file, work.stripe, &metrics.io)
            .await
            .map_err(layout)?;
        let keep = surviving_groups(scan, work, &layout_of, metrics).await?;
        metrics
            .row_groups_skipped
            .add(keep.iter().filter(|keep| !**keep).count());
        let handle = scan.cache.handle(file).map_err(layout)?;
        let tile_rows = match handle.is_on_demand() || scan.conjuncts.is_empty() {
            true => tile_rows,
            false => tile_rows.max(MIN_FETCHED_TILE_ROWS),
        };
        let rows = |group| layout_of.row_group_rows(&file.tail, group);
        let surviving = work
            .groups
            .clone()
            .zip(keep)
            .filter(|(_, keep)| *keep)
            .map(|(group, _)| rows(group));
        let tiles = cut(surviving, tile_rows.max(1) as u64);
        if tiles.is_empty() {
            return Ok(None);
        }
        let source = handle
            .source(scan.options.local_io, metrics.io.clone())
            .map_err(layout)?;
        let (kept, dependents): (Vec<usize>, Vec<usize>) = scan
            .projection
            .iter()
            .partition(|column| scan.is_filter_column(**column));
        Ok(Some(Self {
            kept: kept.into_iter().map(|column| (column, Vec::new())).collect(),
            dependents: dependents.into(),
            scan: Arc::clone(scan),
            file: work.file,
            layout: layout_of,
            handle,
            source,
            columns: (0..scan.table.fields().len()).map(|_| None).collect(),
            tiles,
            next_tile: 0,
            fetched_tiles: 0,
            pending: RowSelection::new(),
            reservation: Arc::clone(reservation),
        }))
    }

    /// Rows that passed and are not yet emitted.
    pub(super) fn pending_rows(&self) -> usize {
        self.pending.rows() as usize
    }

    /// True if all tiles are filtered.
    pub(super) fn is_done(&self) -> bool {
        self.next_tile >= self.tiles.len()
    }

    /// Filters the next tile.
    pub(super) async fn step(&mut self, cascade: &mut PredicateCascade, metrics: &ScanMetrics) -> Result<()> {
        let scan = Arc::clone(&self.scan);
        if !self.handle.is_on_demand() && self.next_tile >= self.fetched_tiles {
            let first = match cascade.order.first() {
                Some(&conjunct) => &scan.conjuncts[conjunct].columns,
                None => &scan.projection,
            };
            self.fetch_window(first, metrics).await?;
        }
        let tile = self.tiles[self.next_tile].clone();
        self.next_tile += 1;
        metrics.rows_scanned.add((tile.end - tile.start) as usize);
        let before = self.pending.rows();
        if scan.conjuncts.is_empty() {
            self.pending.push(tile);
        } else {
            self.filter(tile, cascade, metrics).await?;
            cascade.adapt(&scan);
        }
        metrics.rows_passed.add((self.pending.rows() - before) as usize);
        Ok(())
    }

    /// Evaluates the cascade on one tile. The surviving rows become pending.
    async fn filter(&mut self, tile: Range<u64>, cascade: &mut PredicateCascade, metrics: &ScanMetrics) -> Result<()> {
        let scan = Arc::clone(&self.scan);
        let mut rows = RowSelection::range(tile);
        // Columns read so far, reduced to `rows`.
        let mut loaded: Vec<(usize, ArrayRef)> = Vec::new();
        for (step, &at) in cascade.order.iter().enumerate() {
            let conjunct = &scan.conjuncts[at];
            self.open_columns(&conjunct.columns, metrics).await?;
            if step > 0 {
                let new: Vec<usize> = without(&conjunct.columns, &loaded).collect();
                self.fetch(&new, &rows).await?;
            }
            let mut arrays = Vec::with_capacity(conjunct.columns.len());
            for &column in &conjunct.columns {
                let found = loaded.iter().find(|(known, _)| *known == column);
                arrays.push(match found {
                    Some((_, array)) => Arc::clone(array),
                    None => {
                        let array = self.read(column, &rows, metrics)?;
                        loaded.push((column, Arc::clone(&array)));
                        array
                    }
                });
            }
            let total = rows.rows() as usize;
            let passing = RowMask::of(conjunct, arrays, total)?;
            let passed = passing.count();
            cascade.seen[at].rows += total as u64;
            cascade.seen[at].passed += passed as u64;
            if passed == 0 {
                return Ok(());
            }
            if passed == total {
                continue;
            }
            let later = &cascade.order[step + 1..];
            loaded.retain(|(column, _)| {
                let is_asked_later = later.iter().any(|&c| scan.conjuncts[c].columns.contains(column));
                is_asked_later || scan.projection.contains(column)
            });
            passing.cut(&mut loaded)?;
            rows = passing.refine(&rows);
        }
        rows.ranges().iter().for_each(|range| self.pending.push(range.clone()));
        for (column, parts) in &mut self.kept {
            if let Some((_, array)) = loaded.iter().find(|(known, _)| known == column) {
                parts.push(Arc::clone(array));
            }
        }
        Ok(())
    }

    /// Reads the other columns of at most `limit` pending rows and returns the rows.
    pub(super) async fn flush(&mut self, limit: Option<usize>, metrics: &ScanMetrics) -> Result<Option<RecordBatch>> {
        let scan = Arc::clone(&self.scan);
        let rows = truncated(std::mem::take(&mut self.pending), limit);
        if rows.is_empty() {
            return Ok(None);
        }
        let dependents = Arc::clone(&self.dependents);
        self.open_columns(&dependents, metrics).await?;
        self.fetch(&dependents, &rows).await?;
        let total = rows.rows() as usize;
        let mut arrays = Vec::with_capacity(scan.projection.len());
        for &column in &scan.projection {
            let kept = self.kept.iter_mut().find(|(known, _)| *known == column);
            arrays.push(match kept {
                Some((_, parts)) => join(std::mem::take(parts))?.slice(0, total),
                None => self.read(column, &rows, metrics)?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(total));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&scan.projected), arrays, &options)?;
        Ok(Some(batch))
    }

    fn read(&mut self, column: usize, rows: &RowSelection, metrics: &ScanMetrics) -> Result<ArrayRef> {
        match &mut self.columns[column] {
            Some(open) => open.read(rows, &metrics.needed_bytes),
            None => datafusion::common::internal_err!("column {column} is read before it is opened"),
        }
    }

    /// Opens the columns that are not open yet. Reads all their row indexes at once.
    async fn open_columns(&mut self, wanted: &[usize], metrics: &ScanMetrics) -> Result<()> {
        if wanted.iter().all(|&column| self.columns[column].is_some()) {
            return Ok(());
        }
        let scan = Arc::clone(&self.scan);
        let table_file = &scan.files[self.file];
        let tail = &table_file.file.tail;
        let mut stored: Vec<(usize, ColumnId)> = Vec::new();
        for &column in wanted {
            if self.columns[column].is_some() {
                continue;
            }
            let data_type = || scan.table.field(column).data_type().clone();
            let constant = match table_file.place_of(column) {
                Ok(id) if !is_all_null(tail, &self.layout, id) => {
                    stored.push((column, id));
                    continue;
                }
                Ok(_) => ScalarValue::Null,
                Err(value) => value,
            };
            self.columns[column] = Some(StripeColumn::Constant(constant, data_type()));
        }
        let needs_index = |id: ColumnId| !is_plain(tail, &self.layout, id) && !is_nested(tail.schema.column(id).kind);
        let (indexed, plain): (Vec<_>, Vec<_>) = stored.into_iter().partition(|(_, id)| needs_index(*id));
        let asked: Vec<(ColumnId, bool)> = indexed.iter().map(|(_, id)| (*id, false)).collect();
        let indexes = scan
            .cache
            .indexes(&table_file.file, &self.layout, &asked, &metrics.io)
            .await
            .map_err(layout)?;
        let probe = self.handle.is_on_demand();
        let with_index = indexed.into_iter().zip(indexes);
        for ((column, id), index) in with_index.chain(plain.into_iter().map(|plain| (plain, None))) {
            let opened = StoredColumn::new(tail, &self.layout, id, index, &self.source, probe)?;
            self.columns[column] = Some(StripeColumn::Stored(Box::new(opened)));
        }
        Ok(())
    }

    /// Fetches the bytes of `columns` at `rows`, if the file is remote.
    async fn fetch(&mut self, columns: &[usize], rows: &RowSelection) -> Result<()> {
        if self.handle.is_on_demand() || rows.is_empty() {
            return Ok(());
        }
        let mut ranges = Vec::new();
        for &column in columns {
            if let Some(StripeColumn::Stored(stored)) = &self.columns[column] {
                ranges.extend(stored.ranges(rows)?);
            }
        }
        self.source.fetch(&ranges).await.map_err(layout)?;
        self.reservation.try_resize(self.source.buffered_bytes())
    }

    /// Fetches the bytes of `columns` for the next tiles, up to [`WINDOW_BYTES`].
    async fn fetch_window(&mut self, columns: &[usize], metrics: &ScanMetrics) -> Result<()> {
        self.source.trim();
        self.open_columns(columns, metrics).await?;
        let stored = columns.iter().filter_map(|&column| match &self.columns[column] {
            Some(StripeColumn::Stored(stored)) => Some(stored.bytes_per_row()),
            _ => None,
        });
        let rows_at_once = (WINDOW_BYTES / stored.sum::<f64>().max(0.01)) as u64;
        let mut rows = RowSelection::new();
        self.fetched_tiles = self.next_tile;
        while self.fetched_tiles < self.tiles.len() && rows.rows() < rows_at_once {
            rows.push(self.tiles[self.fetched_tiles].clone());
            self.fetched_tiles += 1;
        }
        self.fetch(columns, &rows).await
    }
}

impl Drop for StripeScan {
    fn drop(&mut self) {
        self.reservation.free();
    }
}

/// For each row group of `work`, whether it may have rows that pass.
pub(super) async fn surviving_groups(
    scan: &Scan,
    work: &ScanRange,
    layout_of: &StripeLayout,
    metrics: &ScanMetrics,
) -> Result<Vec<bool>> {
    let all = vec![true; work.groups.len()];
    let table_file = &scan.files[work.file];
    let tail = &table_file.file.tail;
    let Some(pruner) = scan.pruner.as_ref().filter(|_| tail.row_index_stride.is_some()) else {
        return Ok(all);
    };
    let stored: Vec<(usize, ColumnId)> = pruner
        .columns()
        .iter()
        .filter_map(|&column| Some((column, table_file.place_of(column).ok()?)))
        .collect();
    let asked: Vec<_> = stored
        .iter()
        .map(|&(column, id)| (id, pruner.wants_bloom_filter(column)))
        .collect();
    let indexes = scan
        .cache
        .indexes(&table_file.file, layout_of, &asked, &metrics.io)
        .await
        .map_err(layout)?;
    let mut columns: Vec<(usize, ContainerStatistics<'_>)> = Vec::new();
    for (&(column, id), index) in stored.iter().zip(&indexes) {
        let Some(index) = index else { continue };
        let known = ContainerStatistics::Stored {
            kind: tail.schema.column(id).kind,
            statistics: work.groups.clone().map(|group| index.statistics.get(group)).collect(),
            bloom_filters: index.bloom_filters.get(work.groups.clone()).unwrap_or(&[]),
        };
        columns.push((column, known));
    }
    columns.extend(
        pruner
            .columns()
            .iter()
            .filter_map(|&c| Some((c, ContainerStatistics::Constant(table_file.place_of(c).err()?)))),
    );
    let rows = |group| layout_of.row_group_rows(tail, group);
    let containers = Containers {
        schema: &scan.table,
        rows: work
            .groups
            .clone()
            .map(rows)
            .map(|rows| rows.end - rows.start)
            .collect(),
        columns,
    };
    Ok(pruner.may_pass(&containers))
}

/// Merges adjacent row ranges and cuts them into tiles of at most `tile_rows`.
fn cut(surviving: impl Iterator<Item = Range<u64>>, tile_rows: u64) -> Vec<Range<u64>> {
    let mut rows = RowSelection::new();
    surviving.for_each(|range| rows.push(range));
    let tiles = rows.ranges().iter().flat_map(|range| {
        let starts = (range.start..range.end).step_by(tile_rows as usize);
        starts.map(|start| start..(start + tile_rows).min(range.end))
    });
    tiles.collect()
}

fn without<'a>(columns: &'a [usize], loaded: &'a [(usize, ArrayRef)]) -> impl Iterator<Item = usize> + 'a {
    columns
        .iter()
        .copied()
        .filter(|column| loaded.iter().all(|(known, _)| known != column))
}

fn join(parts: Vec<ArrayRef>) -> Result<ArrayRef> {
    match parts.as_slice() {
        [one] => Ok(Arc::clone(one)),
        _ => {
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            Ok(concat(&parts)?)
        }
    }
}

/// The first `limit` rows.
fn truncated(rows: RowSelection, limit: Option<usize>) -> RowSelection {
    let Some(limit) = limit.map(|limit| limit as u64).filter(|&limit| limit < rows.rows()) else {
        return rows;
    };
    let mut first = RowSelection::new();
    for range in rows.ranges() {
        let room = limit - first.rows();
        first.push(range.start..range.end.min(range.start + room));
        if first.rows() == limit {
            break;
        }
    }
    first
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // lists of ranges that happen to have one
mod tests {
    use super::*;

    #[test]
    fn tiles_follow_surviving_groups() {
        let groups = [0..10, 10..20, 40..50, 50..55];
        assert_eq!(cut(groups.into_iter(), 12), [0..12, 12..20, 40..52, 52..55]);
        assert_eq!(cut(std::iter::empty(), 12), []);
    }

    #[test]
    fn truncated_keeps_the_first_rows() {
        let mut rows = RowSelection::range(0..3);
        rows.push(10..20);
        assert_eq!(truncated(rows.clone(), Some(5)).ranges(), [0..3, 10..12]);
        assert_eq!(truncated(rows.clone(), Some(3)).ranges(), [0..3]);
        assert_eq!(truncated(rows.clone(), None), rows);
        assert_eq!(truncated(rows.clone(), Some(100)), rows);
    }
}
