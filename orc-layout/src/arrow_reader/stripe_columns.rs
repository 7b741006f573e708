//! [`StripeColumns`], the columns of one stripe that a scan reads: how each is stored, its row index and its reader.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;

use super::metadata::ArrowReaderMetadata;
use crate::access::{Access, byte_ranges};
use crate::decode::ColumnReader;
use crate::error::Result;
use crate::index::{ColumnIndex, IndexRanges};
use crate::schema::ColumnId;
use crate::selection::RowSelection;
use crate::source::ByteSource;
use crate::stripe::StripeLayout;

/// A column of the stripe.
struct StripeColumn {
    id: ColumnId,
    access: Access,
    /// Bytes of the row index, until it is loaded. `None` if it is not needed.
    index_range: Option<Range<u64>>,
    index: Option<Arc<ColumnIndex>>,
    reader: Option<ColumnReader>,
}

/// The columns of a stripe, by position in the root struct.
pub(super) struct StripeColumns {
    metadata: ArrowReaderMetadata,
    stripe: Arc<StripeLayout>,
    source: Arc<dyn ByteSource>,
    columns: BTreeMap<usize, StripeColumn>,
}

impl StripeColumns {
    /// The columns at `positions`, each with whether only some of the stripe's rows are read. For these the row index
    /// is wanted, and with `probe_chunks` the chunk headers of columns that may be direct are read.
    ///
    /// # Errors
    /// As [`Access::of`].
    pub(super) fn open(
        metadata: &ArrowReaderMetadata,
        stripe: Arc<StripeLayout>,
        source: Arc<dyn ByteSource>,
        positions: impl Iterator<Item = (usize, bool)>,
        probe_chunks: bool,
    ) -> Result<Self> {
        let tail = metadata.metadata();
        let mut columns = BTreeMap::new();
        for (position, is_sparse) in positions {
            let id = metadata.columns()[position].id;
            let access = Access::of(tail, &stripe, id, None, &*source, probe_chunks && is_sparse)?;
            let has_entry_points = is_sparse
                && stripe.row_groups(tail) > 1
                && matches!(access, Access::Decode { .. })
                && !tail.schema.column(id).kind.is_nested();
            let index_range = match has_entry_points {
                true => IndexRanges::of(tail, &stripe, id).row_index,
                false => None,
            };
            let column = StripeColumn {
                id,
                access,
                index_range,
                index: None,
                reader: None,
            };
            columns.insert(position, column);
        }
        Ok(Self {
            metadata: metadata.clone(),
            stripe,
            source,
            columns,
        })
    }

    /// The bytes that [`load_indexes`](Self::load_indexes) reads.
    pub(super) fn index_ranges(&self) -> Vec<Range<u64>> {
        self.columns
            .values()
            .filter_map(|column| column.index_range.clone())
            .collect()
    }

    /// Reads the row indexes that are wanted.
    ///
    /// # Errors
    /// As [`ColumnIndex::parse`], and `Io` from the source.
    pub(super) fn load_indexes(&mut self) -> Result<()> {
        let tail = self.metadata.metadata();
        for column in self.columns.values_mut() {
            let Some(range) = column.index_range.take() else {
                continue;
            };
            let bytes = self.source.read(range)?;
            let index = Arc::new(ColumnIndex::parse(tail, &self.stripe, column.id, Some(&bytes), None)?);
            column.access = Access::of(tail, &self.stripe, column.id, Some(&index), &*self.source, false)?;
            column.index = Some(index);
        }
        Ok(())
    }

    /// The bytes that reading `rows` of the columns at `positions` needs.
    ///
    /// # Errors
    /// As [`byte_ranges`].
    pub(super) fn byte_ranges(&self, positions: &[usize], rows: &RowSelection) -> Result<Vec<Range<u64>>> {
        let tail = self.metadata.metadata();
        let mut found = Vec::new();
        for column in positions.iter().filter_map(|position| self.columns.get(position)) {
            let (index, access) = (column.index.as_deref(), &column.access);
            found.extend(byte_ranges(tail, &self.stripe, column.id, index, access, rows)?);
        }
        Ok(found)
    }

    /// The values of `rows` of the column at `position`, in the type of the reader's schema.
    ///
    /// # Errors
    /// As [`ColumnReader::read_within`], and `OutOfRange` for values that the schema's type cannot hold.
    pub(super) fn read(&mut self, position: usize, rows: &RowSelection, limit_bytes: u64) -> Result<ArrayRef> {
        let tail = self.metadata.metadata();
        let output = &self.metadata.columns()[position];
        let Some(column) = self.columns.get_mut(&position) else {
            let reason = format!("column {position} is not part of the scan");
            return Err(crate::LayoutError::invalid_request(&tail.file, reason));
        };
        let reader = match &mut column.reader {
            Some(reader) => reader,
            empty => {
                let (index, access) = (column.index.clone(), column.access.clone());
                let (stripe, source) = (self.stripe.clone(), self.source.clone());
                let options = output.options;
                let reader =
                    ColumnReader::with_options(tail.clone(), stripe, column.id, index, access, source, options)?;
                empty.insert(reader)
            }
        };
        output.convert(tail, reader.read_within(rows, limit_bytes)?)
    }
}
