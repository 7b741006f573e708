//! [`GroupColumns`]: columns of one row group, fetched and decoded for selected rows.

use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::BooleanBuffer;
use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReaderBuilder, RowSelection, RowSelectionPolicy,
};
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::file::metadata::ColumnChunkMetaData;
use datafusion::parquet::file::page_index::offset_index::PageLocation;

use super::fetched_bytes::FetchedBytes;
use super::kept_rows::KeptRows;
use super::selected_values::SelectedValues;
use super::tile_rows::TileRows;

/// The columns of one row group of a file without nested columns among those that are read.
#[derive(Debug)]
pub(super) struct GroupColumns {
    metadata: ArrowReaderMetadata,
    pub(super) group: usize,
    fetched: FetchedBytes,
}

/// The pages of a tile are fetched one by one if they have at most one in this many of the tile's bytes.
const PAGES_PART: f64 = 2.0;

impl GroupColumns {
    pub(super) fn new(metadata: ArrowReaderMetadata, group: usize) -> Self {
        Self {
            metadata,
            group,
            fetched: FetchedBytes::default(),
        }
    }

    pub(super) fn rows(&self) -> usize {
        let rows = self.metadata.metadata().row_group(self.group).num_rows();
        usize::try_from(rows).unwrap_or(0)
    }

    /// Fetches what the rows of `tile` that are left need of `columns`.
    pub(super) async fn fetch(
        &mut self,
        reader: &mut Box<dyn AsyncFileReader>,
        columns: &[usize],
        tile: &TileRows,
    ) -> Result<()> {
        let selection = tile.mask.as_ref().and_then(|_| tile.runs());
        let mut ranges = Vec::new();
        for &column in columns {
            for leaf in leaves(&self.metadata, column) {
                let chunk = self.metadata.metadata().row_group(self.group).column(leaf);
                let (start, length) = chunk.byte_range();
                let whole = start..start.saturating_add(length);
                if self.fetched.contains(&whole) {
                    continue;
                }
                let pages = selection.as_ref();
                let pages = pages.and_then(|selection| self.pages(leaf, chunk, selection, tile.share()));
                match pages {
                    Some(pages) => ranges.extend(pages.into_iter().filter(|page| !self.fetched.contains(page))),
                    None => ranges.push(whole),
                }
            }
        }
        if ranges.is_empty() {
            return Ok(());
        }
        let fetched = reader.get_byte_ranges(ranges.clone()).await;
        for (range, bytes) in ranges.into_iter().zip(fetched.map_err(DataFusionError::from)?) {
            self.fetched.insert(range, bytes);
        }
        Ok(())
    }

    /// The ranges of the dictionary and of the pages with selected rows. `None`: the whole column is fetched.
    fn pages(
        &self,
        leaf: usize,
        chunk: &ColumnChunkMetaData,
        selection: &RowSelection,
        share: f64,
    ) -> Option<Vec<Range<u64>>> {
        let index = self.metadata.metadata().offset_index()?;
        let locations: &[PageLocation] = index.get(self.group)?.get(leaf)?.page_locations();
        let first = u64::try_from(locations.first()?.offset).ok()?;
        let (start, length) = chunk.byte_range();
        let mut pages = selection.scan_ranges(locations);
        if first > start {
            pages.insert(0, start..first);
        }
        let bytes: u64 = pages.iter().map(|page| page.end.saturating_sub(page.start)).sum();
        (bytes as f64 <= length as f64 * share / PAGES_PART).then_some(pages)
    }

    /// The values of `columns` for the rows of `tile` that are left. They were fetched for these rows or for more.
    pub(super) fn read(&self, columns: &[usize], tile: &TileRows, batch_size: usize) -> Result<SelectedValues> {
        let metadata = self.metadata.clone();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
        let file_schema = Arc::clone(metadata.schema());
        // A selection of runs reads no page without rows of it, and so does without those that were not fetched.
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.fetched.clone(), metadata)
            .with_row_groups(vec![self.group])
            .with_projection(mask)
            .with_batch_size(batch_size)
            .with_row_selection_policy(RowSelectionPolicy::Selectors);
        if let Some(runs) = tile.runs() {
            return Ok(SelectedValues::all(builder.with_row_selection(runs).build()?));
        }
        let builder = match tile.all().runs() {
            Some(all) => builder.with_row_selection(all),
            None => builder,
        };
        let gathered = KeptRows::new(columns.to_vec(), &file_schema, batch_size)?;
        let mask = tile
            .mask
            .clone()
            .unwrap_or_else(|| BooleanBuffer::new_set(tile.range.len()));
        Ok(SelectedValues::scattered(builder.build()?, mask, gathered, batch_size))
    }
}

/// The stored columns of a column of the file's schema.
pub(super) fn leaves(metadata: &ArrowReaderMetadata, column: usize) -> impl Iterator<Item = usize> {
    let schema = metadata.parquet_schema();
    (0..schema.num_columns()).filter(move |&leaf| schema.get_column_root_idx(leaf) == column)
}
