//! `StripeColumn`: one table column in one stripe, as a reader of stored values or as one value for all rows.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, new_null_array};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::physical_plan::metrics::Count;
use grampus_orc_layout::access::{Access, byte_ranges};
use grampus_orc_layout::decode::{ColumnReader, MAX_READ_BYTES};
use grampus_orc_layout::index::ColumnIndex;
use grampus_orc_layout::proto::stream::Kind;
use grampus_orc_layout::read_options::ReadOptions;
use grampus_orc_layout::schema::{ColumnId, OrcSchema, TypeKind};
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::tail::FileTail;

use super::predicate_cascade::ColumnCost;
use super::stripe_dictionaries::StripeDictionaries;
use crate::error::layout;
use crate::file::ScanSource;
use crate::table::column_types;

/// A column of the table in one stripe.
pub(super) enum StripeColumn {
    /// The file stores the column.
    Stored(Box<StoredColumn>),
    /// All rows have this value.
    Constant(ScalarValue, DataType),
}

/// A column that the file stores.
pub(super) struct StoredColumn {
    reader: ColumnReader,
    /// The table's type, if the file's is narrower.
    wider_type: Option<DataType>,
    column: ColumnId,
    index: Option<Arc<ColumnIndex>>,
    tail: Arc<FileTail>,
    stripe: Arc<StripeLayout>,
    need: Need,
}

/// The form in which a table reads a column of a file.
pub(super) struct ReadAs {
    pub(super) options: ReadOptions,
    /// The table's type, if the file's is narrower.
    pub(super) wider_type: Option<DataType>,
    /// The dictionaries of the stripe.
    pub(super) dictionaries: Arc<StripeDictionaries>,
}

impl StoredColumn {
    pub(super) fn new(
        tail: &Arc<FileTail>,
        stripe: &Arc<StripeLayout>,
        column: ColumnId,
        index: Option<Arc<ColumnIndex>>,
        source: &Arc<ScanSource>,
        probe_chunks: bool,
        read_as: ReadAs,
    ) -> Result<Self> {
        let access =
            Access::of(tail, stripe, column, index.as_deref(), source.as_ref(), probe_chunks).map_err(layout)?;
        let need = Need::new(&tail.schema, stripe, column, &access);
        let source = Arc::clone(source);
        let reader = ColumnReader::with_options(
            Arc::clone(tail),
            Arc::clone(stripe),
            column,
            index.clone(),
            access,
            source,
            read_as.options,
        )
        .map_err(layout)?
        .sharing(read_as.dictionaries);
        Ok(Self {
            reader,
            wider_type: read_as.wider_type,
            column,
            index,
            tail: Arc::clone(tail),
            stripe: Arc::clone(stripe),
            need,
        })
    }

    /// The byte ranges to read for `rows`. A file with unusual chunks may need more.
    pub(super) fn ranges(&self, rows: &RowSelection) -> Result<Vec<Range<u64>>> {
        let access = self.reader.access();
        byte_ranges(
            &self.tail,
            &self.stripe,
            self.column,
            self.index.as_deref(),
            access,
            rows,
        )
        .map_err(layout)
    }

    /// Stored bytes per row.
    pub(super) fn bytes_per_row(&self) -> f64 {
        self.need.bytes as f64 / self.need.rows.max(1) as f64
    }
}

impl StripeColumn {
    /// Reads the values of `rows` and counts the bytes that they need. If there are several rows, their text and list
    /// elements may take `array_bytes`. The planned bytes of a remote file are fetched before, and those that the plan
    /// left out are fetched here.
    pub(super) async fn read(
        &mut self,
        rows: &RowSelection,
        array_bytes: usize,
        source: &ScanSource,
        needed_bytes: &Count,
    ) -> Result<ArrayRef> {
        match self {
            Self::Stored(stored) => {
                let limit = match rows.rows() {
                    1 => MAX_READ_BYTES,
                    _ => array_bytes as u64,
                };
                let reader = &mut stored.reader;
                let values = source.read_with_fetches(|| reader.read_within(rows, limit)).await;
                let values = values.map_err(layout)?;
                needed_bytes.add(stored.need.take(rows.rows()) as usize);
                match &stored.wider_type {
                    Some(data_type) => column_types::convert(&values, data_type),
                    None => Ok(values),
                }
            }
            Self::Constant(value, data_type) if value.is_null() => Ok(new_null_array(data_type, rows.rows() as usize)),
            Self::Constant(value, _) => value.to_array_of_size(rows.rows() as usize),
        }
    }
}

/// The array, copied if it lies in memory that another process may change. Only values of direct columns, which are
/// floats without NULLs, are used in place.
pub(super) fn unmapped(array: ArrayRef, source: &ScanSource) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => unmapped_floats::<Float64Type>(array, source),
        DataType::Float32 => unmapped_floats::<Float32Type>(array, source),
        _ => array,
    }
}

fn unmapped_floats<T: ArrowPrimitiveType>(array: ArrayRef, source: &ScanSource) -> ArrayRef {
    let floats = array.as_primitive::<T>();
    match source.is_mapped(floats.values().as_ptr().cast()) {
        true => Arc::new(PrimitiveArray::<T>::new(
            floats.values().to_vec().into(),
            floats.nulls().cloned(),
        )),
        false => array,
    }
}

/// Bytes that values of a column need: the width of direct values, or a share of the stored bytes.
#[derive(Debug)]
struct Need {
    /// Bytes of all rows of the stripe.
    bytes: u64,
    /// Rows of the stripe.
    rows: u64,
    /// Rows read so far.
    taken: u64,
}

impl Need {
    fn new(schema: &OrcSchema, stripe: &StripeLayout, column: ColumnId, access: &Access) -> Self {
        let rows = stripe.info.rows;
        let bytes = match access {
            Access::Direct(direct) => u64::from(direct.width).saturating_mul(rows),
            Access::Decode { .. } => stored_bytes(schema, stripe, column),
        };
        Self { bytes, rows, taken: 0 }
    }

    /// Bytes that `rows` more rows need. The shares of all rows add up to the whole.
    fn take(&mut self, rows: u64) -> u64 {
        let share = |taken: u64| u128::from(self.bytes) * u128::from(taken) / u128::from(self.rows.max(1));
        let before = share(self.taken);
        let after = share(self.taken.saturating_add(rows));
        self.taken = self.taken.saturating_add(rows);
        (after - before) as u64
    }
}

/// Stored bytes of the data streams of a column and its children.
pub(super) fn stored_bytes(schema: &OrcSchema, stripe: &StripeLayout, column: ColumnId) -> u64 {
    let mut last = column;
    while let Some(&child) = schema.column(last).children.last() {
        last = child;
    }
    // Column ids are in pre-order, so a column's descendants follow the column.
    stripe
        .streams
        .of_columns(column..=last)
        .filter(|stream| !matches!(stream.kind, Kind::RowIndex | Kind::BloomFilter | Kind::BloomFilterUtf8))
        .map(|stream| stream.length)
        .sum()
}

/// True for types that are decoded from the start of the stripe.
pub(super) fn is_nested(kind: TypeKind) -> bool {
    kind.is_nested()
}

/// True if the column surely consists of raw values, so that reading it needs no row index.
pub(super) fn is_plain(tail: &FileTail, stripe: &StripeLayout, column: ColumnId) -> bool {
    tail.compression.is_none()
        && matches!(tail.schema.column(column).kind, TypeKind::Float | TypeKind::Double)
        && stripe.stream(column, Kind::Present).is_none()
}

/// True if the stripe surely has no value of the column: its statistics count no value, and its data streams are empty.
///
/// A column without values (`ehail_fee` in taxi data) is read without its PRESENT stream.
pub(super) fn is_all_null(tail: &FileTail, stripe: &StripeLayout, column: ColumnId) -> bool {
    let statistics = tail.stripe_statistics.get(stripe.info.index);
    let statistics = statistics.and_then(|columns| columns.get(column as usize));
    let holds_value = |kind| stripe.stream(column, kind).is_some_and(|stream| stream.length > 0);
    statistics.is_some_and(|statistics| statistics.values == Some(0))
        && !is_nested(tail.schema.column(column).kind)
        && tail.encrypted_columns.binary_search(&column).is_err()
        && holds_value(Kind::Present)
        && ![Kind::Data, Kind::Length, Kind::Secondary, Kind::DictionaryData]
            .into_iter()
            .any(holds_value)
}

/// The cost of a column in a stripe, from the footers.
pub(super) fn cost(tail: &FileTail, stripe: &StripeLayout, column: ColumnId, access: &Access) -> ColumnCost {
    match access {
        Access::Direct(direct) => ColumnCost::Direct(f64::from(direct.width)),
        Access::Decode { .. } => {
            let bytes = stored_bytes(&tail.schema, stripe, column) as f64;
            ColumnCost::Decoded(bytes / stripe.info.rows.max(1) as f64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn need_shares_add_up_to_the_whole() {
        let mut need = Need {
            bytes: 1000,
            rows: 7,
            taken: 0,
        };
        let shares: Vec<u64> = (0..7).map(|_| need.take(1)).collect();
        assert_eq!(shares.iter().sum::<u64>(), 1000);
        assert!(shares.iter().all(|share| (142..=143).contains(share)));
    }
}
