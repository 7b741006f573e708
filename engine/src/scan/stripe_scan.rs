//! `StripeScan`: the scan of one stripe.
//!
//! 1. The row groups that statistics do not exclude are cut into tiles.
//! 2. If the file is remote, each step fetches the bytes that it is about to read and that are not there. The first
//!    conjunct's columns or, without a filter, all columns are fetched for a window of tiles. The system loads the same
//!    bytes of a cold local file meanwhile.
//! 3. Each conjunct reads its columns for the tile's remaining rows, and removes the rows that do not pass.
//! 4. Surviving rows of many tiles become pending, with their values of projected filter columns.
//! 5. A flush reads the other projected columns for the next pending rows and returns a batch.
//! 6. If a dynamic filter has changed meanwhile, it may exclude row groups of the tiles that are left.
//!
//! Arrays are bounded in bytes too. If the values of a tile or of a batch are too large, fewer rows are read at once.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use grampus_orc_layout::read_options::Dictionaries;
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::stripe::StripeLayout;

use super::Scan;
use super::coded_strings::{coded, expanded};
use super::conjunct::Conjunct;
use super::kept_columns::{KeptColumns, lacking};
use super::load_ahead::LoadAhead;
use super::metrics::ScanMetrics;
use super::predicate_cascade::{PredicateCascade, conjunct_at};
use super::pruning::Pruner;
use super::row_division::{PendingRows, Tiles, window};
use super::row_mask::RowMask;
use super::scan_memory::{ScanMemory, fewer_rows_may_fit};
use super::scan_ranges::ScanRange;
use super::stripe_column::{ReadAs, StoredColumn, StripeColumn, is_all_null, is_nested, is_plain, unmapped};
use super::stripe_dictionaries::StripeDictionaries;
use super::stripe_pruning::{surviving_all, surviving_groups};
use crate::error::layout;
use crate::file::{FileHandle, ScanSource};

/// The state of the scan of one stripe.
pub(super) struct StripeScan {
    scan: Arc<Scan>,
    work: ScanRange,
    layout: Arc<StripeLayout>,
    handle: Arc<FileHandle>,
    source: Arc<ScanSource>,
    /// Columns by table column, opened at their first use.
    columns: Vec<Option<StripeColumn>>,
    /// Rows to filter.
    tiles: Tiles,
    ahead: LoadAhead,
    /// Rows that passed, and whose other columns are not read yet.
    pending: PendingRows,
    /// Whether rows are filtered. Else all rows of the tiles pass.
    is_filtered: bool,
    /// Columns that are read with their dictionaries, for conjuncts that are evaluated on the entries.
    coded: Vec<usize>,
    /// Projected columns that the filter does not read.
    dependents: Arc<[usize]>,
    /// Values of the pending rows, for projected filter columns.
    kept: KeptColumns,
    /// Maximum rows of a batch: fewer, once a batch's values were too large.
    rows_at_once: u64,
    memory: Arc<ScanMemory>,
    /// The dictionaries of the stripe, which other partitions share.
    dictionaries: Arc<StripeDictionaries>,
}

impl StripeScan {
    /// Opens a stripe; `None`: statistics exclude all of its row groups. If the rows to emit are limited, the tiles of
    /// a remote file begin small: the first of them may have enough rows.
    pub(super) async fn open(
        scan: &Arc<Scan>,
        work: &ScanRange,
        cascade: &PredicateCascade,
        (tile_rows, is_limited): (usize, bool),
        metrics: &ScanMetrics,
        memory: &Arc<ScanMemory>,
    ) -> Result<Option<Self>> {
        let file = &scan.files[work.file].file;
        let layout_of = scan
            .cache
            .stripe(file, work.stripe, &metrics.io)
            .await
            .map_err(layout)?;
        let pruners = scan.pruner.iter().chain(cascade.dynamic_pruner());
        let keep = surviving_all(scan, pruners, work, &layout_of, metrics).await?;
        let handle = scan.cache.handle(file).map_err(layout)?;
        let is_filtered = !cascade.order.is_empty();
        let first_rows = tile_rows as u64;
        let tile_rows = match handle.is_on_demand() || !is_filtered {
            true => tile_rows,
            false => tile_rows.max(scan.options.fetched_tile_rows),
        };
        let rows = |group| layout_of.row_group_rows(&file.tail, group);
        let surviving = work
            .groups
            .clone()
            .zip(keep)
            .filter(|(_, keep)| *keep)
            .map(|(group, _)| rows(group));
        let mut tiles = Tiles::new(surviving, tile_rows as u64);
        if is_limited {
            tiles = tiles.growing_from(first_rows);
        }
        if tiles.is_empty() {
            return Ok(None);
        }
        let source = handle
            .source(scan.options.local_io, metrics.io.clone())
            .map_err(layout)?;
        let conjuncts: Vec<&Conjunct> = (cascade.order.iter())
            .map(|&at| conjunct_at(scan, cascade.dynamic(), at))
            .collect();
        let (kept, dependents): (Vec<usize>, Vec<usize>) = (scan.projection.iter())
            .partition(|column| conjuncts.iter().any(|conjunct| conjunct.columns.contains(column)));
        let coded = conjuncts.iter().filter_map(|conjunct| conjunct.text_column()).collect();
        Ok(Some(Self {
            kept: KeptColumns::new(kept),
            is_filtered,
            coded,
            dependents: dependents.into(),
            scan: Arc::clone(scan),
            work: work.clone(),
            layout: layout_of,
            handle,
            source,
            columns: (0..scan.table.fields().len()).map(|_| None).collect(),
            tiles,
            ahead: LoadAhead::default(),
            pending: PendingRows::default(),
            rows_at_once: u64::MAX,
            memory: Arc::clone(memory),
            dictionaries: scan.dictionaries.of(file.id, work.stripe, memory.pool()),
        }))
    }

    /// Whether the rows that passed make a batch of `rows` rows, or as many bytes as a batch should have.
    pub(super) fn has_enough(&self, rows: usize) -> bool {
        self.pending.rows() >= (rows as u64).min(self.rows_at_once) || self.kept.bytes() >= self.memory.array_bytes()
    }

    /// Whether the next batch of `rows` rows needs no filter and no fetch.
    pub(super) fn is_next_at_hand(&self, rows: usize) -> bool {
        self.has_enough(rows) || !self.is_filtered && self.handle.is_on_demand() && !self.is_done()
    }

    /// True if all rows that passed are emitted.
    pub(super) fn has_nothing_pending(&self) -> bool {
        self.pending.rows() == 0
    }

    /// True if all tiles are filtered.
    pub(super) fn is_done(&self) -> bool {
        self.tiles.is_empty()
    }

    /// Filters the next tile. `remaining`: rows that may still be emitted.
    pub(super) async fn step(
        &mut self,
        cascade: &mut PredicateCascade,
        remaining: Option<usize>,
        metrics: &ScanMetrics,
    ) -> Result<()> {
        let (scan, dynamic) = (Arc::clone(&self.scan), Arc::clone(cascade.dynamic()));
        // The first conjunct may be another one than at the last tile.
        let first = match cascade.order.first().filter(|_| self.is_filtered) {
            Some(&at) => &conjunct_at(&scan, &dynamic, at).columns,
            None => &scan.projection,
        };
        self.fetch_window(first, remaining, metrics).await?;
        let Some(tile) = self.tiles.iter().next() else {
            return Ok(());
        };
        let tile_rows = tile.end - tile.start;
        let before = self.pending.rows();
        let mut has_new_pruner = false;
        if !self.is_filtered {
            self.pending.push(tile);
        } else {
            match self.filter(tile, cascade, metrics).await {
                Err(error) if fewer_rows_may_fit(&error) && tile_rows > 1 => {
                    self.tiles.cut(tile_rows / 2);
                    return Ok(());
                }
                filtered => filtered?,
            }
            has_new_pruner = cascade.adapt(&scan);
        }
        self.tiles.remove_first();
        metrics.rows_scanned.add(tile_rows as usize);
        metrics.rows_passed.add((self.pending.rows() - before) as usize);
        match cascade.dynamic_pruner().filter(|_| has_new_pruner) {
            Some(pruner) => self.prune_left(pruner, metrics).await,
            None => Ok(()),
        }
    }

    /// Leaves out the row groups of the tiles that are left in which no row passes the filters of `pruner`.
    async fn prune_left(&mut self, pruner: &Pruner, metrics: &ScanMetrics) -> Result<()> {
        let scan = Arc::clone(&self.scan);
        let tail = &scan.files[self.work.file].file.tail;
        let Some(first) = self.tiles.first_row() else {
            return Ok(());
        };
        let rows = |group: usize| self.layout.row_group_rows(tail, group);
        let groups = self.work.groups.clone();
        let begun = groups.clone().find(|&group| rows(group).end > first);
        let left = ScanRange {
            groups: begun.unwrap_or(groups.end)..groups.end,
            ..self.work.clone()
        };
        let keep = surviving_groups(&scan, pruner, &left, &self.layout, metrics).await?;
        let excluded = left.groups.zip(keep).filter(|(_, keep)| !keep);
        let excluded: Vec<Range<u64>> = excluded.map(|(group, _)| rows(group)).collect();
        let skipped = excluded.iter().filter(|group| self.tiles.has_rows_of(group));
        metrics.row_groups_skipped.add(skipped.count());
        self.tiles.exclude(&excluded);
        Ok(())
    }

    /// Evaluates the cascade on one tile. The surviving rows become pending.
    async fn filter(&mut self, tile: Range<u64>, cascade: &mut PredicateCascade, metrics: &ScanMetrics) -> Result<()> {
        let (scan, dynamic) = (Arc::clone(&self.scan), Arc::clone(cascade.dynamic()));
        let mut rows = RowSelection::range(tile);
        // Columns read so far, reduced to `rows`.
        let mut loaded: Vec<(usize, ArrayRef)> = Vec::new();
        for (step, &at) in cascade.order.iter().enumerate() {
            let conjunct = conjunct_at(&scan, &dynamic, at);
            self.load(&conjunct.columns, &rows, &mut loaded, metrics).await?;
            let of_column = |column| loaded.iter().find(|(known, _)| known == column);
            let arrays = conjunct.columns.iter().filter_map(of_column);
            let arrays = arrays.map(|(_, array)| Arc::clone(array)).collect();
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
                let mut later = later.iter().map(|&at| conjunct_at(&scan, &dynamic, at));
                let is_asked_later = later.any(|conjunct| conjunct.columns.contains(column));
                is_asked_later || scan.projection.contains(column)
            });
            passing.cut(&mut loaded)?;
            rows = passing.refine(&rows);
        }
        // A dynamic filter that has left the order reads no columns.
        let missing = self.kept.missing(&loaded);
        self.load(&missing, &rows, &mut loaded, metrics).await?;
        for (_, array) in &mut loaded {
            *array = expanded(array)?;
        }
        rows.ranges().iter().for_each(|range| self.pending.push(range.clone()));
        self.kept.push(&loaded);
        Ok(())
    }

    /// Reads the values of `rows` of those of `columns` that `loaded` lacks.
    async fn load(
        &mut self,
        columns: &[usize],
        rows: &RowSelection,
        loaded: &mut Vec<(usize, ArrayRef)>,
        metrics: &ScanMetrics,
    ) -> Result<()> {
        let new = lacking(loaded, columns.iter().copied());
        self.open_columns(&new, metrics).await?;
        self.fetch(&new, rows).await?;
        for column in new {
            loaded.push((column, self.read(column, rows, metrics).await?));
            let bytes = loaded.iter().map(|(_, array)| self.dictionaries.uncounted_bytes(array));
            self.hold(bytes.sum())?;
        }
        Ok(())
    }

    /// Checks that the bytes read so far are those of the file's planned version.
    pub(super) fn check(&self) -> Result<()> {
        self.source.check().map_err(layout)
    }

    /// Returns at most `most` pending rows with their other columns. The batch may leave the scan only after a
    /// [`check`](Self::check). None of its arrays lies in a map: a batch may outlive the file.
    pub(super) async fn flush(&mut self, most: usize, metrics: &ScanMetrics) -> Result<Option<RecordBatch>> {
        if self.pending.rows() == 0 {
            return Ok(None);
        }
        let scan = Arc::clone(&self.scan);
        let dependents = Arc::clone(&self.dependents);
        self.open_columns(&dependents, metrics).await?;
        let mut most = (most as u64).min(self.rows_at_once).max(1);
        let (rows, mut read) = loop {
            let rows = self.pending.first(most);
            match self.read_dependents(&dependents, &rows, metrics).await {
                Err(error) if fewer_rows_may_fit(&error) && rows.rows() > 1 => {
                    most = rows.rows() / 2;
                    self.rows_at_once = most;
                }
                read => break (rows, read?.into_iter()),
            }
        };
        let total = rows.rows() as usize;
        let mut arrays = Vec::with_capacity(scan.projection.len());
        for &column in &scan.projection {
            let array = match self.kept.take(column, total) {
                Some(kept) => kept?,
                None => match read.next() {
                    Some(array) => array,
                    None => return datafusion::common::internal_err!("column {column} is not read"),
                },
            };
            arrays.push(match scan.coded.contains(&column) {
                true => coded(array)?,
                false => unmapped(array, &self.source),
            });
        }
        self.pending.remove_first(total as u64);
        self.hold(0)?;
        let options = RecordBatchOptions::new().with_row_count(Some(total));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&scan.projected), arrays, &options)?;
        Ok(Some(batch))
    }

    /// The values of `rows` of each of `columns`, together bounded in bytes.
    async fn read_dependents(
        &mut self,
        columns: &[usize],
        rows: &RowSelection,
        metrics: &ScanMetrics,
    ) -> Result<Vec<ArrayRef>> {
        self.fetch(columns, rows).await?;
        let mut arrays = Vec::with_capacity(columns.len());
        let mut bytes = 0;
        for &column in columns {
            let read = self.read(column, rows, metrics).await?;
            let array = match self.scan.coded.contains(&column) {
                true => read,
                false => expanded(&read)?,
            };
            bytes += self.dictionaries.uncounted_bytes(&array);
            self.hold(bytes)?;
            arrays.push(array);
        }
        Ok(arrays)
    }

    /// Counts fetched bytes, kept values and `decoded` bytes of other arrays.
    fn hold(&self, decoded: usize) -> Result<()> {
        self.memory
            .hold(self.source.buffered_bytes() + self.kept.bytes() + decoded)
    }

    async fn read(&mut self, column: usize, rows: &RowSelection, metrics: &ScanMetrics) -> Result<ArrayRef> {
        match &mut self.columns[column] {
            Some(open) => {
                let array_bytes = self.memory.array_bytes();
                open.read(rows, array_bytes, &self.source, &metrics.needed_bytes).await
            }
            None => datafusion::common::internal_err!("column {column} is read before it is opened"),
        }
    }

    /// Opens the columns that are not open yet. Reads all their row indexes at once.
    async fn open_columns(&mut self, wanted: &[usize], metrics: &ScanMetrics) -> Result<()> {
        if wanted.iter().all(|&column| self.columns[column].is_some()) {
            return Ok(());
        }
        let scan = Arc::clone(&self.scan);
        let table_file = &scan.files[self.work.file];
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
            let mut read_as = ReadAs {
                options: scan.read_options(column),
                wider_type: table_file
                    .is_converted(column)
                    .then(|| scan.table.field(column).data_type().clone()),
                dictionaries: Arc::clone(&self.dictionaries),
            };
            let is_coded = self.coded.contains(&column) || scan.coded.contains(&column);
            if is_coded && read_as.wider_type.is_none() {
                read_as.options.dictionaries = Dictionaries::Keep;
            }
            let opened = StoredColumn::new(tail, &self.layout, id, index, &self.source, probe, read_as)?;
            self.columns[column] = Some(StripeColumn::Stored(Box::new(opened)));
        }
        Ok(())
    }

    /// Fetches the bytes of `columns` at `rows`, if the file is remote. Has the system load them, if it is cold.
    async fn fetch(&mut self, columns: &[usize], rows: &RowSelection) -> Result<()> {
        let is_local = self.handle.is_on_demand();
        if rows.is_empty() || is_local && !self.source.is_cold() {
            return Ok(());
        }
        let ranges = self.ranges(columns, rows)?;
        if is_local {
            self.source.load(&ranges);
            return Ok(());
        }
        self.source.fetch(&ranges).await.map_err(layout)?;
        self.hold(0)
    }

    /// The byte ranges of open columns at `rows`.
    fn ranges(&self, columns: &[usize], rows: &RowSelection) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        for &column in columns {
            if let Some(StripeColumn::Stored(stored)) = &self.columns[column] {
                ranges.extend(stored.ranges(rows)?);
            }
        }
        Ok(ranges)
    }

    /// Fetches the bytes of `columns` for the next tile, if the file is remote and some of them are not there. Then the
    /// bytes of the tiles after it are fetched too, up to the setting `fetch_window_bytes`. If the rows to emit are
    /// limited, they are the bytes of no more rows than that, or of one tile of a filter. Of a cold file, the system
    /// loads the bytes of the next tiles.
    async fn fetch_window(&mut self, columns: &[usize], remaining: Option<usize>, metrics: &ScanMetrics) -> Result<()> {
        let is_local = self.handle.is_on_demand();
        if is_local && let Some(first_row) = self.tiles.first_row() {
            let places = &self.scan.files[self.work.file];
            let column = columns.iter().find_map(|&column| places.place_of(column).ok());
            self.ahead.probe(&self.source, &self.layout, column, first_row);
        }
        if is_local && !self.source.is_cold() {
            return Ok(());
        }
        self.open_columns(columns, metrics).await?;
        let stored = columns.iter().filter_map(|&column| match &self.columns[column] {
            Some(StripeColumn::Stored(stored)) => Some(stored.bytes_per_row()),
            _ => None,
        });
        let bytes_per_row = stored.sum::<f64>();
        if is_local {
            return match self.ahead.next(self.tiles.iter(), bytes_per_row) {
                Some(rows) => self.fetch(columns, &rows).await,
                None => Ok(()),
            };
        }
        let tile = RowSelection::range(self.tiles.iter().next().unwrap_or_default());
        if self.source.holds(&self.ranges(columns, &tile)?) {
            return Ok(());
        }
        self.source.trim();
        let window_bytes = self.scan.options.fetch_window_bytes.min(self.memory.array_bytes()) as f64;
        let mut window_rows = (window_bytes / bytes_per_row.max(0.01)) as u64;
        if let Some(remaining) = remaining {
            let wanted = match self.is_filtered {
                true => tile.rows(),
                false => (remaining as u64).saturating_sub(self.pending.rows()),
            };
            window_rows = window_rows.min(wanted);
        }
        let rows = window(self.tiles.iter(), 0, window_rows).unwrap_or_default();
        self.fetch(columns, &rows).await
    }
}

impl Drop for StripeScan {
    fn drop(&mut self) {
        self.memory.release();
    }
}
