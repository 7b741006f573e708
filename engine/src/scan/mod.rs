//! The on-demand scan: skip what statistics exclude, filter, fetch the rest for the rows that passed.
//!
//! ```text
//! planner              files, filter and projection -> an OrcScanExec: prune stripes, order conjuncts, distribute ranges
//! orc_scan_exec        OrcScanExec, the DataFusion operator
//! partition_stream     one partition: stripe after stripe
//! stripe_scan          one stripe: tiles through the cascade, then the remaining columns for the survivors
//! stripe_column        one column of a stripe
//! predicate_cascade    conjuncts, costs, order
//! comparison_kernel    `column >= literal` where few rows pass
//! row_mask             which rows of a tile a conjunct lets through
//! column_locations     where the values of every stripe are, for operators that read them in another way
//! pruning              statistics and bloom filters
//! scan_ranges          which row groups each partition scans
//! work_stealing        an idle partition takes over ranges of the busiest one
//! metrics              needed and moved bytes, skipped and scanned rows
//! ```

pub(crate) mod column_locations;
mod comparison_kernel;
pub mod metrics;
pub mod orc_scan_exec;
mod partition_stream;
pub mod planner;
pub mod predicate_cascade;
pub mod pruning;
mod row_mask;
pub mod scan_ranges;
mod stripe_column;
mod stripe_scan;
mod work_stealing;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::config::GrampusOptions;
use crate::file::file_cache::FileCache;
use crate::table::files::TableFile;
use predicate_cascade::{ColumnCost, Conjunct};
use pruning::Pruner;

/// What all partitions of a scan share.
#[derive(Debug)]
pub struct Scan {
    /// The table's columns: those of files, then partition columns.
    pub table: SchemaRef,
    /// The files that may hold rows.
    pub files: Vec<TableFile>,
    /// Table columns that are emitted.
    pub projection: Vec<usize>,
    /// Their schema.
    pub projected: SchemaRef,
    /// The filter.
    pub conjuncts: Vec<Conjunct>,
    /// Positions in `conjuncts`, in the order to start with.
    pub order: Vec<usize>,
    /// How the columns that are used lie in the first stripe.
    pub costs: Vec<(usize, ColumnCost)>,
    /// The filter as statistics see it.
    pub pruner: Option<Pruner>,
    /// Settings when the query was planned.
    pub options: GrampusOptions,
    /// The session's open files.
    pub cache: Arc<FileCache>,
}

impl Scan {
    /// True if the filter reads this table column.
    fn is_filter_column(&self, column: usize) -> bool {
        self.conjuncts.iter().any(|conjunct| conjunct.columns.contains(&column))
    }

    /// The cost of reading `column`, as seen in the first stripe.
    fn cost(&self, column: usize) -> ColumnCost {
        let found = self.costs.iter().find(|(known, _)| *known == column);
        found.map_or(ColumnCost::Constant, |(_, cost)| *cost)
    }
}
