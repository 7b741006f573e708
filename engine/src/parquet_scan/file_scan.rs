//! [`FileScan`]: the batches of one file, row group after row group, tile after tile.
//!
//! A tile is a range of a row group's rows. Stage after stage of the filter reads its columns for the rows that passed
//! so far. Values of columns that are emitted too are kept. The other columns are then read for the rows that are left.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection};
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::physical_expr::projection::Projector;
use datafusion::physical_plan::metrics::Count;
use futures::StreamExt;
use futures::stream::BoxStream;

use super::file_filter::{FileFilter, Stage};
use super::group_columns::GroupColumns;
use super::group_pruning::{GroupPruning, PlannedGroup};
use super::kept_rows::KeptRows;
use super::selected_values::SelectedValues;
use super::tile_rows::TileRows;

/// Rows of the first tile of a file. Each further tile has four times as many, up to `MAX_TILE_ROWS`.
const FIRST_TILE_ROWS: usize = 1 << 15;
/// Rows of a tile at most. Whole row groups are usually not larger.
const MAX_TILE_ROWS: usize = 1 << 17;

/// Counts for EXPLAIN ANALYZE.
#[derive(Debug, Clone)]
pub(super) struct ScanCounts {
    /// Rows that the first conjunct was evaluated for.
    pub(super) rows_scanned: Count,
    /// Rows that passed all conjuncts.
    pub(super) rows_passed: Count,
    /// Row groups that a dynamic filter excluded.
    pub(super) groups_excluded: Count,
}

/// A file that is being read.
pub(super) struct FileScan {
    pub(super) reader: Box<dyn AsyncFileReader>,
    pub(super) metadata: ArrowReaderMetadata,
    /// The file's columns, as they are read.
    pub(super) schema: SchemaRef,
    pub(super) filter: FileFilter,
    pub(super) pruning: Option<GroupPruning>,
    /// Columns of the file that are emitted, ascending.
    pub(super) emitted: Vec<usize>,
    /// From the emitted columns to those of the scan.
    pub(super) projector: Projector,
    pub(super) output: SchemaRef,
    pub(super) batch_size: usize,
    pub(super) groups: VecDeque<PlannedGroup>,
    pub(super) counts: ScanCounts,
    pub(super) state: ScanState,
}

/// The place in the file.
#[derive(Default)]
pub(super) struct ScanState {
    group: Option<OpenGroup>,
    tile: Option<OpenTile>,
    tiles: u32,
}

struct OpenGroup {
    columns: GroupColumns,
    selection: Option<RowSelection>,
    next_row: usize,
}

/// The rows of a tile that passed.
struct OpenTile {
    kept: KeptRows,
    /// The emitted columns that the filter has not read; `None` if there are none.
    others: Option<(Vec<usize>, SelectedValues)>,
    rows_left: usize,
}

impl FileScan {
    pub(super) fn into_stream(self) -> BoxStream<'static, Result<RecordBatch>> {
        futures::stream::try_unfold(self, |mut scan| async move {
            let batch = scan.next().await?;
            Ok(batch.map(|batch| (batch, scan)))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(tile) = &mut self.state.tile {
                if let Some((rows, arrays)) = tile.next(&self.emitted, self.batch_size)? {
                    return Ok(Some(self.projected(rows, arrays)?));
                }
                self.state.tile = None;
            }
            if self.state.group.is_none() && !self.open_group() {
                return Ok(None);
            }
            self.state.tile = self.open_tile().await?;
        }
    }

    fn projected(&self, rows: usize, arrays: Vec<ArrayRef>) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::new(self.schema.project(&self.emitted)?);
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
        let projected = self.projector.project_batch(&batch)?;
        if projected.schema_ref() == &self.output {
            return Ok(projected);
        }
        let (_, arrays, rows) = projected.into_parts();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let output = Arc::clone(&self.output);
        Ok(RecordBatch::try_new_with_options(output, arrays, &options)?)
    }

    /// Begins the next row group that the filter, as it is now, does not exclude. False: there is none.
    fn open_group(&mut self) -> bool {
        while let Some(PlannedGroup { group, selection }) = self.groups.pop_front() {
            if self.filter.is_watching()
                && let Some(pruning) = &mut self.pruning
                && pruning.excludes(&self.metadata, group)
            {
                self.counts.groups_excluded.add(1);
                continue;
            }
            self.state.group = Some(OpenGroup {
                columns: GroupColumns::new(self.metadata.clone(), group),
                selection,
                next_row: 0,
            });
            return true;
        }
        false
    }

    /// Filters the next tile of the row group. `None`: no row passes, or the row group has ended.
    async fn open_tile(&mut self) -> Result<Option<OpenTile>> {
        let Some(mut group) = self.state.group.take() else {
            return Ok(None);
        };
        let rows = group.columns.rows();
        if group.next_row >= rows {
            return Ok(None);
        }
        let tile_rows = match self.filter.is_empty() {
            true => rows,
            false => (FIRST_TILE_ROWS << (2 * self.state.tiles).min(16)).min(MAX_TILE_ROWS),
        };
        self.state.tiles += 1;
        let end = rows.min(group.next_row + tile_rows);
        // A small rest is scanned with the tile.
        let end = if rows - end < tile_rows / 4 { rows } else { end };
        let start = std::mem::replace(&mut group.next_row, end);
        let tile = TileRows::new(start..end, rows, group.selection.as_ref());
        let tile = self.filter_tile(&mut group.columns, tile).await?;
        self.state.group = Some(group);
        Ok(tile)
    }

    async fn filter_tile(&mut self, columns: &mut GroupColumns, mut tile: TileRows) -> Result<Option<OpenTile>> {
        let mut kept = KeptRows::new(Vec::new(), &self.schema, self.batch_size)?;
        let stages = self.filter.stages();
        if !stages.is_empty() {
            self.counts.rows_scanned.add(tile.left);
        }
        for (at, stage) in stages.iter().enumerate() {
            if tile.left == 0 {
                return Ok(None);
            }
            let later = &stages[at + 1..];
            let (mask, passed) = self.run_stage(columns, stage, later, kept, &tile).await?;
            kept = passed;
            tile.keep(mask.values());
        }
        if tile.left == 0 {
            return Ok(None);
        }
        self.counts.rows_passed.add(tile.left);
        let others = self.emitted.iter().filter(|column| !kept.columns.contains(column));
        let others: Vec<usize> = others.copied().collect();
        let others = match others.is_empty() {
            true => None,
            false => {
                columns.fetch(&mut self.reader, &others, &tile).await?;
                let values = columns.read(&others, &tile, self.batch_size)?;
                Some((others, values))
            }
        };
        Ok(Some(OpenTile {
            kept,
            others,
            rows_left: tile.left,
        }))
    }

    /// Evaluates one stage for the rows of a tile that are left. Returns which of them pass, and their values that are
    /// used later.
    async fn run_stage(
        &mut self,
        columns: &mut GroupColumns,
        stage: &Stage,
        later: &[Stage],
        mut kept: KeptRows,
        tile: &TileRows,
    ) -> Result<(BooleanArray, KeptRows)> {
        let left = tile.left;
        columns.fetch(&mut self.reader, &stage.new_columns, tile).await?;
        let mut reader = match stage.new_columns.is_empty() {
            true => None,
            false => Some(columns.read(&stage.new_columns, tile, self.batch_size)?),
        };
        let mut read: Vec<usize> = kept.columns.iter().chain(&stage.new_columns).copied().collect();
        read.sort_unstable();
        let is_used = |column: &usize| {
            let mut later = later.iter().flat_map(|stage| &stage.conjuncts);
            self.emitted.binary_search(column).is_ok() || later.any(|&at| self.filter.columns(at).contains(column))
        };
        let kept_columns: Vec<usize> = read.iter().copied().filter(is_used).collect();
        let mut passed = KeptRows::new(kept_columns, &self.schema, self.batch_size)?;
        let mut masks = BooleanBufferBuilder::new(left);
        while masks.len() < left {
            let new = match &mut reader {
                Some(reader) => reader.next()?,
                None => None,
            };
            let rows = match (&new, &reader) {
                (Some((rows, _)), _) => *rows,
                (None, None) if !kept.columns.is_empty() => kept.next_rows(),
                // A condition without columns.
                (None, None) => left - masks.len(),
                (None, Some(_)) => 0,
            };
            if rows == 0 {
                return missing_rows(left - masks.len(), columns.group);
            }
            let old = kept.take(rows)?;
            let array = |column: usize| {
                let old_place = kept.columns.binary_search(&column);
                if let Ok(place) = old_place {
                    return old.get(place).cloned();
                }
                let place = stage.new_columns.binary_search(&column).ok()?;
                new.as_ref().and_then(|(_, new)| new.get(place).cloned())
            };
            let mask = self.filter.evaluate(stage, rows, &array)?;
            masks.append_buffer(mask.values());
            if mask.true_count() > 0 {
                let arrays: Option<Vec<ArrayRef>> = passed.columns.iter().map(|&column| array(column)).collect();
                passed.put(arrays.unwrap_or_default(), &mask)?;
            }
        }
        passed.finish()?;
        Ok((BooleanArray::new(masks.finish(), None), passed))
    }
}

impl OpenTile {
    /// The next rows of the emitted columns, and their number.
    fn next(&mut self, emitted: &[usize], batch_size: usize) -> Result<Option<(usize, Vec<ArrayRef>)>> {
        if self.rows_left == 0 {
            return Ok(None);
        }
        let new = match &mut self.others {
            Some((_, values)) => match values.next()? {
                Some(new) => Some(new),
                None => return missing_rows(self.rows_left, 0),
            },
            None => None,
        };
        let rows = match &new {
            Some((rows, _)) => *rows,
            None if self.kept.columns.is_empty() => self.rows_left.min(batch_size),
            None => self.kept.next_rows().min(self.rows_left),
        };
        self.rows_left = self.rows_left.saturating_sub(rows);
        let kept = self.kept.take(rows)?;
        let others = self.others.as_ref().map_or(&[][..], |(columns, _)| columns.as_slice());
        let arrays = emitted.iter().filter_map(|column| {
            if let Ok(place) = self.kept.columns.binary_search(column) {
                return kept.get(place).cloned();
            }
            let place = others.binary_search(column).ok()?;
            new.as_ref().and_then(|(_, new)| new.get(place).cloned())
        });
        Ok(Some((rows, arrays.collect())))
    }
}

/// A column has fewer values than the row group has rows.
fn missing_rows<T>(rows: usize, group: usize) -> Result<T> {
    datafusion::common::exec_err!("{rows} rows of row group {group} are missing: its columns differ in length")
}
