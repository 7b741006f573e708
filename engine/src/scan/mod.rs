//! The on-demand scan: skip rows that statistics exclude, filter, read the other columns for the rows that passed.
//!
//! ```text
//! planner              files, filter, projection -> an OrcScanExec: prune stripes, order conjuncts, distribute ranges
//! orc_scan_exec        OrcScanExec, the DataFusion operator
//! execution_listener   told of each execution of a scan
//! partition_stream     one partition: stripe after stripe
//! stripe_scan          one stripe: tiles through the cascade, then the remaining columns for the survivors
//! stripe_columns       the columns of a stripe, and their bytes
//! stripe_column        one column of a stripe
//! stripe_dictionaries  the dictionaries of a stripe, once for all partitions
//! table_pruning        stripes of a table that statistics do not exclude
//! stripe_pruning       row groups of a stripe that statistics do not exclude
//! kept_columns         values of filter columns, kept for rows that passed
//! scan_memory          what a partition holds in memory
//! predicate_cascade    the order of conjuncts, by their costs
//! conjunct             a part of the filter
//! fallible             whether a conjunct may fail on a row
//! dynamic_filters      filters of joins and sorts above the scan
//! equal_zeros          filters that take both zeros of floats as one value
//! comparison_kernel    `column >= literal` where few rows pass
//! fetched_windows      how far a remote stripe is fetched
//! load_ahead           what of a cold file is loaded before it is read
//! row_division         tiles, and the rows that batches are taken from
//! coded_strings        strings as places in a dictionary
//! row_mask             which rows of a tile a conjunct lets through
//! column_locations     the places of column values in a file, for operators that read them in another way
//! pruning              statistics and bloom filters
//! filter_sample        how many rows of a few places pass the filter
//! selectivity_estimate how many rows a filter may leave, for the optimizer
//! scan_ranges          which row groups each partition scans
//! work_stealing        an idle partition takes over ranges of the busiest one
//! metrics              needed and moved bytes, skipped and scanned rows
//! ```

pub(crate) mod coded_strings;
pub(crate) mod column_locations;
mod comparison_kernel;
pub(crate) mod conjunct;
pub(crate) mod dynamic_filters;
mod equal_zeros;
pub(crate) mod execution_listener;
pub(crate) mod fallible;
mod fetched_windows;
pub(crate) mod filter_sample;
mod kept_columns;
mod load_ahead;
pub(crate) mod metrics;
pub(crate) mod orc_scan_exec;
mod partition_stream;
pub(crate) mod planner;
pub(crate) mod predicate_cascade;
pub(crate) mod pruning;
mod row_division;
mod row_mask;
mod scan_memory;
pub(crate) mod scan_ranges;
pub(crate) mod selectivity_estimate;
mod stripe_column;
mod stripe_columns;
pub(crate) mod stripe_dictionaries;
mod stripe_pruning;
mod stripe_scan;
mod table_pruning;
mod work_stealing;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use grampus_orc_layout::read_options::{ReadOptions, TimestampUnit};

use crate::config::{GrampusOptions, InvalidUtf8};
use crate::file::Place;
use crate::file::file_cache::FileCache;
use crate::table::files::TableFile;
use conjunct::Conjunct;
use predicate_cascade::ColumnCost;
use pruning::Pruner;
use stripe_dictionaries::ScanDictionaries;

/// The plan of a scan, which all its partitions share.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    /// The table's columns: those of files, then partition columns.
    pub(crate) table: SchemaRef,
    /// The files that may hold rows.
    pub(crate) files: Vec<TableFile>,
    /// Table columns that are emitted.
    pub(crate) projection: Vec<usize>,
    /// The schema of the emitted columns.
    pub(crate) projected: SchemaRef,
    /// Table columns that are emitted as dictionaries: stripes that store them so need not expand them.
    pub(crate) coded: Vec<usize>,
    /// The filter.
    pub(crate) conjuncts: Vec<Conjunct>,
    /// The first evaluation order, as positions in `conjuncts`.
    pub(crate) order: Vec<usize>,
    /// Costs of the used columns, from their encodings in the first stripe; by column, ascending.
    pub(crate) costs: Vec<(usize, ColumnCost)>,
    /// Distinct values of the used columns, by the first stripe's dictionaries; by column, ascending.
    pub(crate) distinct: Vec<(usize, u64)>,
    /// The filter's form for statistics.
    pub(crate) pruner: Option<Pruner>,
    /// The settings at the time of planning.
    pub(crate) options: GrampusOptions,
    /// The session's open files.
    pub(crate) cache: Arc<FileCache>,
    /// The dictionaries in memory.
    pub(crate) dictionaries: Arc<ScanDictionaries>,
}

impl Scan {
    /// Whether all files are local.
    pub(crate) fn is_local(&self) -> bool {
        let mut files = self.files.iter();
        files.all(|file| matches!(file.file.place, Place::Local(_)))
    }

    /// Whether all files can be read without fetches: local ones, and those of NVMe namespaces.
    pub(crate) fn is_read_at_once(&self) -> bool {
        self.files.iter().all(|file| match &file.file.place {
            Place::Local(_) => true,
            place @ Place::Remote { .. } => place.namespace_file(&file.file.identity).is_some(),
        })
    }

    /// The way in which the values of a table column are read.
    pub(crate) fn read_options(&self, column: usize) -> ReadOptions {
        let invalid_utf8 = match self.options.invalid_utf8 {
            InvalidUtf8::Error => grampus_orc_layout::read_options::InvalidUtf8::Error,
            InvalidUtf8::Replace => grampus_orc_layout::read_options::InvalidUtf8::Replace,
        };
        ReadOptions::new()
            .with_timestamp_unit(TimestampUnit::of(self.table.field(column).data_type()))
            .with_invalid_utf8(invalid_utf8)
    }

    /// The cost of reading `column`, as seen in the first stripe.
    fn cost(&self, column: usize) -> ColumnCost {
        cost_of(&self.costs, column)
    }
}

/// The cost of `column` among `costs`, which are sorted by column.
fn cost_of(costs: &[(usize, ColumnCost)], column: usize) -> ColumnCost {
    match costs.binary_search_by_key(&column, |(known, _)| *known) {
        Ok(at) => costs[at].1,
        Err(_) => ColumnCost::Constant,
    }
}
