//! `StripeColumns`: the table's columns in one stripe, opened at their first use, and their bytes.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use grampus_orc_layout::read_options::Dictionaries;
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::stripe::StripeLayout;

use super::Scan;
use super::metrics::ScanMetrics;
use super::scan_ranges::ScanRange;
use super::stripe_column::{ReadAs, StoredColumn, StripeColumn, is_all_null, is_nested, is_plain};
use super::stripe_dictionaries::StripeDictionaries;
use crate::error::layout;
use crate::file::ScanSource;

/// The columns of the table in one stripe.
pub(super) struct StripeColumns {
    scan: Arc<Scan>,
    work: ScanRange,
    layout: Arc<StripeLayout>,
    source: Arc<ScanSource>,
    /// Whether reads need no fetch before them.
    is_on_demand: bool,
    /// By table column.
    columns: Vec<Option<StripeColumn>>,
    /// Columns that are read with their dictionaries, for conjuncts that are evaluated on the entries.
    coded: Vec<usize>,
    /// The dictionaries of the stripe, which other partitions share.
    dictionaries: Arc<StripeDictionaries>,
}

impl StripeColumns {
    /// The columns of the stripe of `work`, none of them open. `coded` are read with their dictionaries.
    pub(super) fn new(
        scan: &Arc<Scan>,
        work: &ScanRange,
        layout: &Arc<StripeLayout>,
        (source, is_on_demand): (&Arc<ScanSource>, bool),
        coded: Vec<usize>,
        dictionaries: Arc<StripeDictionaries>,
    ) -> Self {
        Self {
            columns: (0..scan.table.fields().len()).map(|_| None).collect(),
            scan: Arc::clone(scan),
            work: work.clone(),
            layout: Arc::clone(layout),
            source: Arc::clone(source),
            is_on_demand,
            coded,
            dictionaries,
        }
    }

    /// Bytes of an array that are not counted with the stripe's dictionaries.
    pub(super) fn uncounted_bytes(&self, array: &ArrayRef) -> usize {
        self.dictionaries.uncounted_bytes(array)
    }

    /// The values of `rows` of an open column. If there are several rows, their text and list elements may take
    /// `array_bytes`.
    pub(super) async fn read(
        &mut self,
        column: usize,
        rows: &RowSelection,
        array_bytes: usize,
        metrics: &ScanMetrics,
    ) -> Result<ArrayRef> {
        match &mut self.columns[column] {
            Some(open) => open.read(rows, array_bytes, &self.source, &metrics.needed_bytes).await,
            None => datafusion::common::internal_err!("column {column} is read before it is opened"),
        }
    }

    /// Stored bytes per row of those of `columns` that are open.
    pub(super) fn bytes_per_row(&self, columns: &[usize]) -> f64 {
        let stored = columns.iter().filter_map(|&column| match &self.columns[column] {
            Some(StripeColumn::Stored(stored)) => Some(stored.bytes_per_row()),
            _ => None,
        });
        stored.sum()
    }

    /// Opens the columns that are not open yet. Reads all their row indexes at once.
    pub(super) async fn open(&mut self, wanted: &[usize], metrics: &ScanMetrics) -> Result<()> {
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
        let probe = self.is_on_demand;
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

    /// The byte ranges of open columns at `rows`.
    pub(super) fn ranges(&self, columns: &[usize], rows: &RowSelection) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        for &column in columns {
            if let Some(StripeColumn::Stored(stored)) = &self.columns[column] {
                ranges.extend(stored.ranges(rows)?);
            }
        }
        Ok(ranges)
    }
}
