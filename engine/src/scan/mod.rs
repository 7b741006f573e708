//! The on-demand scan: skip what statistics exclude, filter, fetch the rest for the rows that passed.
//!
//! ```text
//! plan        files, filter and projection -> an OrcScanExec: prune stripes, order conjuncts, share out work
//! exec        OrcScanExec, the DataFusion operator
//! stream      one partition: stripe after stripe
//! stripe      one stripe: tiles through the cascade, then the remaining columns for the survivors
//! column      one column of a stripe
//! conjunct    the cascade: conjuncts, costs, order
//! compare     `column >= literal` where few rows pass
//! passing     which rows of a tile a conjunct lets through
//! survey      where the values of every stripe are, for who reads them in another way
//! prune       statistics and bloom filters
//! work        who scans what
//! sharing     who is done takes over from who is not
//! accounting  what it cost
//! ```

pub mod accounting;
mod column;
mod compare;
pub mod conjunct;
pub mod exec;
mod passing;
pub mod plan;
pub mod prune;
mod sharing;
mod stream;
mod stripe;
pub(crate) mod survey;
pub mod work;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::config::GrampusOptions;
use crate::file::cache::FileCache;
use crate::table::TableFile;
use conjunct::{ColumnCost, Conjunct};
use prune::Pruner;

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
}
