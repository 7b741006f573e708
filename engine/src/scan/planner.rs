//! `ScanRequest` and its planning: from files, filter and projection to an [`OrcScanExec`].
//!
//! 1. Statistics exclude stripes.
//! 2. The encodings in the first stripe to scan give the conjuncts their first order.
//! 3. The row groups of the remaining stripes are distributed over the partitions.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use grampus_orc_layout::access::Access;
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::stripe::StripeLayout;

use super::conjunct::Conjunct;
use super::orc_scan_exec::OrcScanExec;
use super::predicate_cascade::{ColumnCost, Seen, order};
use super::scan_ranges::{PlannedStripe, Skipped};
use super::selectivity_estimate::{scan_statistics, used_columns};
use super::stripe_column::{cost, is_nested};
use super::table_pruning::{pruner_of, surviving_stripes};
use super::{Scan, cost_of};
use crate::config::GrampusOptions;
use crate::error::layout;
use crate::file::IoCounters;
use crate::file::file_cache::FileCache;
use crate::table::files::TableFile;
use crate::table::partition_filter::Filters;

/// Rows of a stripe per entry of a dictionary, from which on other stripes are expected to have the same entries.
const FEW_ENTRIES_ROWS: u64 = 16;

/// A scan to plan.
pub(crate) struct ScanRequest {
    /// The table's columns: those of files, then partition columns.
    pub(crate) table: SchemaRef,
    /// The files of the table that may hold rows.
    pub(crate) files: Vec<TableFile>,
    /// Files of the table that their partition values exclude.
    pub(crate) excluded_files: usize,
    /// The bytes of the files whose stripes are scanned: those that begin there. `None`: all.
    pub(crate) part: Option<Range<u64>>,
    /// Table columns to emit.
    pub(crate) projection: Vec<usize>,
    /// Conjuncts of the filter over the table's columns, other than those over partition columns alone.
    pub(crate) filters: Filters,
    /// Maximum rows to emit.
    pub(crate) limit: Option<usize>,
    /// Maximum partitions. Small scans get fewer.
    pub(crate) target_partitions: usize,
    /// The share of rows, in percent, that pass a filter of which nothing is known.
    pub(crate) default_selectivity: u8,
    /// Settings.
    pub(crate) options: GrampusOptions,
    /// The session's open files.
    pub(crate) cache: Arc<FileCache>,
}

/// Row groups of a stripe.
fn row_groups(rows: u64, stride: Option<u64>) -> usize {
    stride.map_or(usize::from(rows > 0), |stride| rows.div_ceil(stride) as usize)
}

/// Plans the scan. Reads at most one stripe footer.
///
/// # Errors
/// If the footer is unreadable, or a filter does not fit the table.
pub(crate) async fn plan_scan(request: ScanRequest) -> Result<OrcScanExec> {
    let mut conjuncts = Vec::with_capacity(request.filters.len());
    for filter in request.filters {
        conjuncts.push(Conjunct::new(filter, &request.table)?);
    }
    let pruner = pruner_of(&conjuncts, &request.table, &request.options);
    let mut skipped = Skipped {
        files_total: request.files.len() + request.excluded_files,
        files: request.excluded_files,
        ..Skipped::default()
    };
    let mut files = Vec::with_capacity(request.files.len());
    let mut planned = Vec::new();
    let used = used_columns(&request.projection, &conjuncts);
    let invalid_utf8 = request.options.invalid_utf8;
    let keep = surviving_stripes(&request.files, &request.table, pruner.as_ref(), invalid_utf8);
    for (file, keep) in request.files.into_iter().zip(keep) {
        let is_whole = used.iter().any(|&column| match file.place_of(column) {
            Ok(id) => is_nested(file.file.tail.schema.column(id).kind),
            Err(_) => false,
        });
        let mut is_used = false;
        for (stripe, keep) in file.file.tail.stripes.iter().zip(keep) {
            if request.part.as_ref().is_some_and(|part| !part.contains(&stripe.offset)) {
                continue;
            }
            let stride = file.file.tail.row_group_stride(stripe).map(u64::from);
            let groups = row_groups(stripe.rows, stride);
            skipped.count(groups, keep);
            if !keep {
                continue;
            }
            is_used = true;
            planned.push(PlannedStripe {
                file: files.len(),
                stripe: stripe.index,
                rows: stripe.rows,
                stride: stride.filter(|_| !is_whole),
                groups,
            });
        }
        if is_used {
            files.push(file);
        }
    }
    let (costs, distinct) = first_stripe(&request.cache, &request.options, &files, planned.first(), &used).await?;
    let order = order(
        conjuncts.iter().enumerate().collect(),
        &|column| cost_of(&costs, column),
        &vec![Seen::default(); conjuncts.len()],
    );
    let scan = Scan {
        projected: Arc::new(request.table.project(&request.projection)?),
        coded: Vec::new(),
        table: request.table,
        files,
        projection: request.projection,
        conjuncts,
        order,
        costs,
        distinct,
        pruner,
        options: request.options,
        cache: request.cache,
        dictionaries: Arc::default(),
    };
    let statistics = scan_statistics(&scan, &planned, request.default_selectivity, None)?;
    let partitions = request.target_partitions;
    Ok(OrcScanExec::new(
        scan,
        planned,
        partitions,
        request.limit,
        skipped,
        statistics,
    ))
}

/// What the first stripe to scan says of the used columns: costs by their encodings, and distinct values by their
/// dictionaries.
async fn first_stripe(
    cache: &FileCache,
    options: &GrampusOptions,
    files: &[TableFile],
    first: Option<&PlannedStripe>,
    used: &[usize],
) -> Result<(Vec<(usize, ColumnCost)>, Vec<(usize, u64)>)> {
    let Some(first) = first.filter(|_| !used.is_empty()) else {
        return Ok(Default::default());
    };
    let table_file = &files[first.file];
    let file = &table_file.file;
    let io = IoCounters::default();
    let stripe = cache.stripe(file, first.stripe, &io).await.map_err(layout)?;
    let handle = cache.handle(file).map_err(layout)?;
    let source = handle.source(options.local_io, io);
    let all_rows: u64 = files.iter().map(|file| file.file.tail.rows).sum();
    let mut costs = Vec::with_capacity(used.len());
    let mut distinct = Vec::new();
    for &column in used {
        let Ok(id) = table_file.place_of(column) else {
            costs.push((column, ColumnCost::Constant));
            continue;
        };
        let probe = handle.is_on_demand();
        let access = Access::of(&file.tail, &stripe, id, None, source.as_ref(), probe);
        if access.is_err() {
            source.check().map_err(layout)?;
        }
        let access = access.map_err(layout)?;
        costs.push((column, cost(&file.tail, &stripe, id, &access)));
        if let Some(values) = distinct_values(&stripe, id, all_rows) {
            distinct.push((column, values));
        }
    }
    source.check().map_err(layout)?;
    Ok((costs, distinct))
}

/// Distinct values of a column in a table of `all_rows`, by the dictionary of one stripe. A dictionary of few entries
/// has all of them. In the other stripes, a larger one has as many others.
fn distinct_values(stripe: &StripeLayout, column: ColumnId, all_rows: u64) -> Option<u64> {
    let entries = u64::from(stripe.encodings.get(column as usize)?.dictionary_size);
    let rows = stripe.info.rows.max(1);
    let values = match entries.saturating_mul(FEW_ENTRIES_ROWS) <= rows {
        true => entries,
        false => (u128::from(entries) * u128::from(all_rows) / u128::from(rows)) as u64,
    };
    (entries > 0).then_some(values.min(all_rows))
}
