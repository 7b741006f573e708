//! [`GroupColumns`]: columns of one row group, fetched and decoded for selected rows.

use std::ops::Range;

use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection, RowSelectionPolicy,
};
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::file::metadata::ColumnChunkMetaData;
use datafusion::parquet::file::page_index::offset_index::PageLocation;

use super::fetched_bytes::FetchedBytes;

/// The columns of one row group of a file without nested columns among those that are read.
#[derive(Debug)]
pub(super) struct GroupColumns {
    metadata: ArrowReaderMetadata,
    pub(super) group: usize,
    fetched: FetchedBytes,
    /// Columns of which only some pages were fetched.
    sparse: Vec<usize>,
}

/// The pages of a tile are fetched one by one if they have at most one in this many of the tile's bytes.
const PAGES_PART: f64 = 2.0;

impl GroupColumns {
    pub(super) fn new(metadata: ArrowReaderMetadata, group: usize) -> Self {
        Self {
            metadata,
            group,
            fetched: FetchedBytes::default(),
            sparse: Vec::new(),
        }
    }

    pub(super) fn rows(&self) -> usize {
        let rows = self.metadata.metadata().row_group(self.group).num_rows();
        usize::try_from(rows).unwrap_or(0)
    }

    /// Fetches what the selected rows of `columns` need, in a tile with this share of the row group's rows. `None`
    /// selects all rows.
    pub(super) async fn fetch(
        &mut self,
        reader: &mut Box<dyn AsyncFileReader>,
        columns: &[usize],
        selection: Option<&RowSelection>,
        share: f64,
    ) -> Result<()> {
        let mut ranges = Vec::new();
        for &column in columns {
            for leaf in leaves(&self.metadata, column) {
                let chunk = self.metadata.metadata().row_group(self.group).column(leaf);
                let (start, length) = chunk.byte_range();
                let whole = start..start.saturating_add(length);
                if self.fetched.contains(&whole) {
                    continue;
                }
                let pages = selection.and_then(|selection| self.pages(leaf, chunk, selection, share));
                match pages {
                    Some(pages) => {
                        if !self.sparse.contains(&column) {
                            self.sparse.push(column);
                        }
                        ranges.extend(pages.into_iter().filter(|page| !self.fetched.contains(page)));
                    }
                    None => {
                        self.sparse.retain(|&other| other != column);
                        ranges.push(whole);
                    }
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

    /// A reader of the selected rows of `columns`, which were fetched for these rows or for more.
    pub(super) fn read(
        &self,
        columns: &[usize],
        selection: Option<RowSelection>,
        batch_size: usize,
    ) -> Result<ParquetRecordBatchReader> {
        let metadata = self.metadata.clone();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.fetched.clone(), metadata)
            .with_row_groups(vec![self.group])
            .with_projection(mask)
            .with_batch_size(batch_size);
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        // A mask is applied to all rows of a batch, and so would need the pages between two selected ones.
        if columns.iter().any(|column| self.sparse.contains(column)) {
            builder = builder.with_row_selection_policy(RowSelectionPolicy::Selectors);
        }
        Ok(builder.build()?)
    }
}

/// The stored columns of a column of the file's schema.
pub(super) fn leaves(metadata: &ArrowReaderMetadata, column: usize) -> impl Iterator<Item = usize> {
    let schema = metadata.parquet_schema();
    (0..schema.num_columns()).filter(move |&leaf| schema.get_column_root_idx(leaf) == column)
}
