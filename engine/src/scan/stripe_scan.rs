//! `StripeScan`: the scan of one stripe.
//!
//! 1. The row groups that statistics do not exclude are cut into tiles.
//! 2. If the file is remote, each step fetches the bytes that it is about to read and that are not there. The first
//!    conjunct's columns or, without a filter, all columns are fetched for a window of tiles. The next window is in
//!    flight meanwhile, if its rows are wanted. The system loads the same bytes of a cold local file ahead.
//! 3. Each conjunct reads its columns for the tile's remaining rows, and removes the rows that do not pass.
//! 4. Surviving rows of many tiles become pending, with their values of projected filter columns.
//! 5. A flush reads the other projected columns for the next pending rows and returns a batch.
//! 6. If a dynamic filter has changed meanwhile, it may exclude row groups of the tiles that are left.
//!
//! Arrays are bounded in bytes too. If the values of a tile or of a batch are too large, fewer rows are read at once.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::error::Result;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::stripe::StripeLayout;

use super::Scan;
use super::coded_strings::{coded, expanded};
use super::conjunct::Conjunct;
use super::fetched_windows::FetchedWindows;
use super::kept_columns::{KeptColumns, lacking};
use super::load_ahead::LoadAhead;
use super::metrics::ScanMetrics;
use super::predicate_cascade::{PredicateCascade, conjunct_at};
use super::pruning::Pruner;
use super::row_division::{PendingRows, Tiles, window};
use super::row_mask::RowMask;
use super::scan_memory::{ScanMemory, fewer_rows_may_fit};
use super::scan_ranges::ScanRange;
use super::stripe_column::unmapped;
use super::stripe_columns::StripeColumns;
use super::stripe_pruning::{excluded_rows, surviving_rows};
use crate::error::layout;
use crate::file::{FileHandle, ScanSource};

/// Fetched bytes are kept while they are at most this many arrays of the memory's maximum.
const MAX_KEPT_ARRAYS: usize = 4;

/// The state of the scan of one stripe.
pub(super) struct StripeScan {
    scan: Arc<Scan>,
    work: ScanRange,
    layout: Arc<StripeLayout>,
    handle: Arc<FileHandle>,
    source: Arc<ScanSource>,
    columns: StripeColumns,
    /// Rows to filter.
    tiles: Tiles,
    ahead: LoadAhead,
    windows: FetchedWindows,
    /// Rows that passed, and whose other columns are not read yet.
    pending: PendingRows,
    /// Whether rows are filtered. Else all rows of the tiles pass.
    is_filtered: bool,
    /// Projected columns that the filter does not read.
    dependents: Arc<[usize]>,
    /// Values of the pending rows, for projected filter columns.
    kept: KeptColumns,
    /// Maximum rows of a batch: fewer, once a batch's values were too large.
    rows_at_once: u64,
    memory: ScanMemory,
}

impl StripeScan {
    /// Opens a stripe; `None`: statistics exclude all of its row groups. If the rows to emit are limited, the tiles of
    /// a remote file begin small: the first of them may have enough rows. `memory` counts what the stripe holds.
    pub(super) async fn open(
        scan: &Arc<Scan>,
        work: &ScanRange,
        cascade: &PredicateCascade,
        (tile_rows, is_limited): (usize, bool),
        metrics: &ScanMetrics,
        memory: ScanMemory,
    ) -> Result<Option<Self>> {
        let file = &scan.files[work.file].file;
        let layout_of = scan
            .cache
            .stripe(file, work.stripe, &metrics.io)
            .await
            .map_err(layout)?;
        let pruners = scan.pruner.iter().chain(cascade.dynamic_pruner());
        let surviving = surviving_rows(scan, pruners, work, &layout_of, metrics).await?;
        let handle = scan.cache.handle(file).map_err(layout)?;
        let is_filtered = !cascade.order.is_empty();
        let most_rows = match handle.is_on_demand() || !is_filtered {
            true => tile_rows,
            false => tile_rows.max(scan.options.fetched_tile_rows),
        };
        let mut tiles = Tiles::new(surviving.into_iter(), most_rows as u64);
        if is_limited {
            tiles = tiles.growing_from(tile_rows as u64);
        }
        if tiles.is_empty() {
            let checked = scan.cache.check(file, &handle, &layout_of, || handle.check());
            return checked.map(|()| None).map_err(layout);
        }
        let source = handle.source(scan.options.local_io, metrics.io.clone());
        let conjuncts: Vec<&Conjunct> = (cascade.order.iter())
            .map(|&at| conjunct_at(scan, cascade.dynamic(), at))
            .collect();
        let (kept, dependents): (Vec<usize>, Vec<usize>) = (scan.projection.iter())
            .partition(|column| conjuncts.iter().any(|conjunct| conjunct.columns.contains(column)));
        let coded = conjuncts.iter().filter_map(|conjunct| conjunct.text_column()).collect();
        let dictionaries = scan.dictionaries.of(file.id, work.stripe, memory.pool());
        let bytes = (&source, handle.is_on_demand());
        Ok(Some(Self {
            columns: StripeColumns::new(scan, work, &layout_of, bytes, coded, dictionaries),
            kept: KeptColumns::new(kept),
            is_filtered,
            dependents: dependents.into(),
            scan: Arc::clone(scan),
            work: work.clone(),
            layout: layout_of,
            handle,
            source,
            tiles,
            ahead: LoadAhead::default(),
            windows: FetchedWindows::default(),
            pending: PendingRows::default(),
            rows_at_once: u64::MAX,
            memory,
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

    /// Fetches the bytes with which the next tile begins. `remaining`: rows that may still be emitted. If all rows of
    /// the stripe are wanted, the next window is in flight afterwards.
    pub(super) async fn prepare(
        &mut self,
        cascade: &PredicateCascade,
        remaining: Option<usize>,
        are_all_wanted: bool,
        metrics: &ScanMetrics,
    ) -> Result<()> {
        let (scan, dynamic) = (Arc::clone(&self.scan), Arc::clone(cascade.dynamic()));
        // The first conjunct may be another one than at the last tile.
        let first = match cascade.order.first().filter(|_| self.is_filtered) {
            Some(&at) => &conjunct_at(&scan, &dynamic, at).columns,
            None => &scan.projection,
        };
        self.fetch_window(first, remaining, metrics).await?;
        match are_all_wanted {
            true => self.fetch_ahead(first).await,
            false => Ok(()),
        }
    }

    /// Whether the file is remote, and all windows of the stripe have arrived.
    pub(super) fn is_all_fetched(&self) -> bool {
        !self.handle.is_on_demand() && self.tiles.end() <= self.windows.end
    }

    /// Filters the next tile.
    pub(super) async fn step(&mut self, cascade: &mut PredicateCascade, metrics: &ScanMetrics) -> Result<()> {
        let scan = Arc::clone(&self.scan);
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
        let Some(first_row) = self.tiles.first_row() else {
            return Ok(());
        };
        let excluded = excluded_rows(&self.scan, pruner, &self.work, &self.layout, first_row, metrics).await?;
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
        self.columns.open(&new, metrics).await?;
        self.fetch(&new, rows).await?;
        for column in new {
            let read = self.columns.read(column, rows, self.memory.array_bytes(), metrics);
            loaded.push((column, read.await?));
            let bytes = loaded.iter().map(|(_, array)| self.columns.uncounted_bytes(array));
            let bytes = bytes.sum();
            self.hold(bytes)?;
        }
        Ok(())
    }

    /// Fetches the other columns' bytes of pending rows, if the file is remote and the next `most` rows lack some: of
    /// all these rows up to a window, since all of them are wanted.
    pub(super) async fn prepare_pending(&mut self, most: usize, metrics: &ScanMetrics) -> Result<()> {
        if self.handle.is_on_demand() || self.dependents.is_empty() || self.pending.rows() == 0 {
            return Ok(());
        }
        let dependents = Arc::clone(&self.dependents);
        self.columns.open(&dependents, metrics).await?;
        let most = most as u64;
        let next = self.columns.ranges(&dependents, &self.pending.first(most))?;
        if self.source.holds(&next) {
            return Ok(());
        }
        if self.is_done() {
            self.trim();
        }
        let mut rows = self.window_rows(&dependents).min(self.pending.rows());
        while rows > most {
            let ranges = self.columns.ranges(&dependents, &self.pending.first(rows))?;
            let bytes = self.source.missing_bytes(&ranges);
            if bytes <= self.window_bytes() && self.memory.can_spare(bytes) {
                self.source.fetch(&ranges).await.map_err(layout)?;
                return self.hold(0);
            }
            rows /= 2; // a column of large chunks has more bytes than its rows' share
        }
        Ok(())
    }

    /// Checks that the bytes read so far are those of the file's planned version.
    pub(super) fn check(&self) -> Result<()> {
        let file = &self.scan.files[self.work.file].file;
        let check = || self.source.check();
        self.scan
            .cache
            .check(file, &self.handle, &self.layout, check)
            .map_err(layout)
    }

    /// Returns at most `most` pending rows with their other columns. The batch may leave the scan only after a
    /// [`check`](Self::check). None of its arrays lies in a map: a batch may outlive the file.
    pub(super) async fn flush(&mut self, most: usize, metrics: &ScanMetrics) -> Result<Option<RecordBatch>> {
        if self.pending.rows() == 0 {
            return Ok(None);
        }
        let scan = Arc::clone(&self.scan);
        let dependents = Arc::clone(&self.dependents);
        self.columns.open(&dependents, metrics).await?;
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
            let read = self.columns.read(column, rows, self.memory.array_bytes(), metrics);
            let read = read.await?;
            let array = match self.scan.coded.contains(&column) {
                true => read,
                false => expanded(&read)?,
            };
            bytes += self.columns.uncounted_bytes(&array);
            self.hold(bytes)?;
            arrays.push(array);
        }
        Ok(arrays)
    }

    /// Counts fetched bytes, kept values and `decoded` bytes of other arrays. If they are too many, nothing is fetched
    /// ahead.
    fn hold(&mut self, decoded: usize) -> Result<()> {
        let others = self.kept.bytes() + decoded;
        match self.memory.hold(self.source.buffered_bytes() + others) {
            Err(error) if fewer_rows_may_fit(&error) && self.source.give_up_ahead() => {
                self.windows.give_up();
                self.memory.hold(self.source.buffered_bytes() + others)
            }
            held => held,
        }
    }

    /// Fetches the bytes of `columns` at `rows`, if the file is remote. Has the system load them, if it is cold.
    async fn fetch(&mut self, columns: &[usize], rows: &RowSelection) -> Result<()> {
        let is_local = self.handle.is_on_demand();
        if rows.is_empty() || is_local && !self.source.is_cold() {
            return Ok(());
        }
        let ranges = self.columns.ranges(columns, rows)?;
        if is_local {
            self.source.load(&ranges);
            return Ok(());
        }
        self.source.fetch(&ranges).await.map_err(layout)?;
        self.hold(0)
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
        self.columns.open(columns, metrics).await?;
        if is_local {
            let bytes_per_row = self.columns.bytes_per_row(columns);
            return match self.ahead.next(self.tiles.iter(), bytes_per_row) {
                Some(rows) => self.fetch(columns, &rows).await,
                None => Ok(()),
            };
        }
        if self.windows.begin(columns) {
            self.source.arrive().await.map_err(layout)?;
        }
        let tile = RowSelection::range(self.tiles.iter().next().unwrap_or_default());
        let is_held = self.source.holds(&self.columns.ranges(columns, &tile)?);
        if !is_held {
            self.trim();
            let mut wanted = tile;
            if !self.source.is_ahead() {
                let most = match remaining {
                    None => u64::MAX,
                    Some(_) if self.is_filtered => wanted.rows(),
                    Some(remaining) => (remaining as u64).saturating_sub(self.pending.rows()),
                };
                wanted = window(self.tiles.iter(), 0, self.window_rows(columns).min(most)).unwrap_or_default();
                self.windows.ahead_end = wanted.ranges().last().map_or(0, |last| last.end);
            }
            self.fetch(columns, &wanted).await?;
        }
        if !self.source.is_ahead() {
            self.windows.arrive();
        }
        Ok(())
    }

    /// Rows whose values of `columns` are fetched at once.
    fn window_rows(&self, columns: &[usize]) -> u64 {
        (self.window_bytes() as f64 / self.columns.bytes_per_row(columns).max(0.01)) as u64
    }

    fn window_bytes(&self) -> usize {
        self.scan.options.fetch_window_bytes.min(self.memory.array_bytes())
    }

    /// Drops the bytes of rows that were read, if they are many.
    fn trim(&self) {
        self.source.trim(MAX_KEPT_ARRAYS * self.memory.array_bytes());
    }

    /// Begins to fetch the window of `columns` after those that have arrived, if the file is remote, and the query can
    /// spare the memory.
    async fn fetch_ahead(&mut self, columns: &[usize]) -> Result<()> {
        if self.handle.is_on_demand() || self.windows.is_short || self.source.is_ahead() {
            return Ok(());
        }
        let Some(rows) = window(self.tiles.iter(), self.windows.end, self.window_rows(columns)) else {
            return Ok(());
        };
        let ranges = self.columns.ranges(columns, &rows)?;
        if !self.memory.can_spare(self.source.missing_bytes(&ranges)) {
            return Ok(());
        }
        self.windows.ahead_end = rows.ranges().last().map_or(0, |last| last.end);
        if !self.source.fetch_ahead(&ranges) {
            self.windows.arrive(); // the bytes are there
            return Ok(());
        }
        self.hold(0)?;
        // The task sends its requests before this thread begins to decode.
        tokio::task::yield_now().await;
        Ok(())
    }
}
