//! `ScanRequest` and its planning: from files, filter and projection to an [`OrcScanExec`].
//!
//! 1. Partition values exclude files.
//! 2. Statistics exclude stripes of the other files.
//! 3. The encodings in the first stripe to scan give the conjuncts their first order.
//! 4. The row groups of the remaining stripes are distributed over the partitions.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{ScalarValue, Statistics};
use datafusion::error::Result;
use datafusion::physical_expr::utils::{collect_columns, split_conjunction};
use datafusion::physical_plan::PhysicalExpr;
use grampus_orc_layout::access::Access;

use super::Scan;
use super::orc_scan_exec::OrcScanExec;
use super::predicate_cascade::{ColumnCost, Conjunct, Seen, order};
use super::pruning::{ContainerStatistics, Containers, Pruner};
use super::scan_ranges::{PlannedStripe, Skipped, distribute};
use super::stripe_column::{cost, is_nested};
use crate::config::GrampusOptions;
use crate::error::layout;
use crate::file::IoCounters;
use crate::file::file_cache::FileCache;
use crate::table::files::TableFile;
use crate::table::statistics;

/// Conditions that must all hold.
type Filters = Vec<Arc<dyn PhysicalExpr>>;

/// A scan to plan.
pub(crate) struct ScanRequest {
    /// The table's columns: those of files, then partition columns.
    pub(crate) table: SchemaRef,
    /// The number of columns that come from files.
    pub(crate) file_columns: usize,
    /// All files of the table.
    pub(crate) files: Vec<TableFile>,
    /// Table columns to emit.
    pub(crate) projection: Vec<usize>,
    /// Filters over the table's columns, which must all hold.
    pub(crate) filters: Filters,
    /// Maximum rows to emit.
    pub(crate) limit: Option<usize>,
    /// Maximum partitions. Small scans get fewer.
    pub(crate) target_partitions: usize,
    /// Settings.
    pub(crate) options: GrampusOptions,
    /// The session's open files.
    pub(crate) cache: Arc<FileCache>,
}

/// Rows per row group of a file that has row indexes.
fn stride(file: &TableFile) -> Option<u64> {
    let stride = file.file.tail.row_index_stride.map(u64::from);
    stride.filter(|&stride| stride > 0)
}

/// Row groups of a stripe.
fn row_groups(rows: u64, stride: Option<u64>) -> usize {
    stride.map_or(usize::from(rows > 0), |stride| rows.div_ceil(stride) as usize)
}

/// Counts the stripes of a file that is not read.
fn exclude(file: &TableFile, skipped: &mut Skipped) {
    let stride = stride(file);
    for stripe in &file.file.tail.stripes {
        skipped.count(row_groups(stripe.rows, stride), false);
    }
}

/// Plans the scan. Reads at most one stripe footer.
///
/// # Errors
/// If the footer is unreadable, or a filter does not fit the table.
pub(crate) async fn plan_scan(request: ScanRequest) -> Result<OrcScanExec> {
    let (file_filters, row_filters) = split_filters(&request);
    let mut conjuncts = Vec::with_capacity(row_filters.len());
    for filter in row_filters {
        conjuncts.push(Conjunct::new(filter, &request.table)?);
    }
    let pruner = match request.options.prune {
        true => Pruner::new(
            conjuncts.iter().map(|c| (&c.expr, c.columns.as_slice())),
            &request.table,
        ),
        false => None,
    };
    let mut skipped = Skipped::default();
    let mut files = Vec::with_capacity(request.files.len());
    let mut planned = Vec::new();
    let used = used_columns(&request.projection, &conjuncts);
    let all_rows = if conjuncts.is_empty() { request.limit } else { None };
    let mut planned_rows = 0;
    let mut held = Vec::with_capacity(request.files.len());
    for file in request.files {
        match holds(&file_filters, &file, request.file_columns)? {
            true => held.push(file),
            false => exclude(&file, &mut skipped),
        }
    }
    let keep = surviving_stripes(&held, &request.table, pruner.as_ref());
    for (file, keep) in held.into_iter().zip(keep) {
        let is_whole = used.iter().any(|&column| match file.place_of(column) {
            Ok(id) => is_nested(file.file.tail.schema.column(id).kind),
            Err(_) => false,
        });
        let stride = stride(&file);
        let mut is_used = false;
        for (stripe, keep) in file.file.tail.stripes.iter().zip(keep) {
            let groups = row_groups(stripe.rows, stride);
            skipped.count(groups, keep);
            if !keep {
                continue;
            }
            is_used = true;
            // Without a filter, the first stripes with enough rows answer a LIMIT.
            if all_rows.is_none_or(|limit| planned_rows < limit as u64) {
                planned.push(PlannedStripe {
                    file: files.len(),
                    stripe: stripe.index,
                    rows: stripe.rows,
                    stride: stride.filter(|_| !is_whole),
                    groups,
                });
                planned_rows += stripe.rows;
            }
        }
        if is_used {
            files.push(file);
        }
    }
    let costs = costs(&request.cache, &request.options, &files, planned.first(), &used).await?;
    let cost_of = |column| {
        costs
            .iter()
            .find(|(known, _)| *known == column)
            .map_or(ColumnCost::Constant, |(_, c)| *c)
    };
    let order = order(&conjuncts, &cost_of, &vec![Seen::default(); conjuncts.len()]);
    let statistics = scan_statistics(&request.table, &request.projection, &files, conjuncts.is_empty());
    let scan = Scan {
        projected: Arc::new(request.table.project(&request.projection)?),
        table: request.table,
        files,
        projection: request.projection,
        conjuncts,
        order,
        costs,
        pruner,
        options: request.options,
        cache: request.cache,
    };
    let work = distribute(&planned, request.target_partitions);
    Ok(OrcScanExec::new(scan, work, request.limit, skipped, statistics))
}

/// Splits the filters into conjuncts over partition columns alone, which are true or false for whole files, and the
/// others.
fn split_filters(request: &ScanRequest) -> (Filters, Filters) {
    let conjuncts = request
        .filters
        .iter()
        .flat_map(|filter| split_conjunction(filter))
        .cloned();
    conjuncts.partition(|expr| {
        collect_columns(expr)
            .iter()
            .all(|column| column.index() >= request.file_columns)
    })
}

/// Whether all of `filters` are true for the partition values of `file`.
fn holds(filters: &[Arc<dyn PhysicalExpr>], file: &TableFile, file_columns: usize) -> Result<bool> {
    for filter in filters {
        let mut columns: Vec<_> = collect_columns(filter).into_iter().collect();
        columns.sort_by_key(|column| column.index());
        let fields = columns.iter().map(|column| {
            let value = &file.partition_values[column.index() - file_columns];
            arrow::datatypes::Field::new(column.name(), value.data_type(), true)
        });
        let schema = Arc::new(arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()));
        let mut arrays = Vec::with_capacity(columns.len());
        for column in &columns {
            arrays.push(file.partition_values[column.index() - file_columns].to_array()?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)?;
        let compact = datafusion::physical_expr::utils::reassign_expr_columns(Arc::clone(filter), &schema)?;
        let value = ScalarValue::try_from_array(&compact.evaluate(&batch)?.into_array(1)?, 0)?;
        if value != ScalarValue::Boolean(Some(true)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// For each stripe, by file, whether it may have rows that pass.
///
/// Adjacent files with the same column types are pruned by one call. The cost of a call hardly depends on its number of
/// stripes.
fn surviving_stripes(files: &[TableFile], table: &SchemaRef, pruner: Option<&Pruner>) -> Vec<Vec<bool>> {
    let Some(pruner) = pruner else {
        return files
            .iter()
            .map(|file| vec![true; file.file.tail.stripes.len()])
            .collect();
    };
    let mut keep = Vec::with_capacity(files.len());
    for alike in files.chunk_by(|one, next| pruner.columns().iter().all(|&column| is_alike(one, next, column))) {
        let columns = pruner.columns().iter().map(|&column| (column, known(alike, column)));
        let stripes = alike.iter().flat_map(|file| &file.file.tail.stripes);
        let passes = pruner.may_pass(&Containers {
            schema: table,
            rows: stripes.map(|stripe| stripe.rows).collect(),
            columns: columns.collect(),
        });
        let mut passes = passes.into_iter();
        keep.extend(
            alike
                .iter()
                .map(|file| passes.by_ref().take(file.file.tail.stripes.len()).collect()),
        );
    }
    keep
}

/// True if both files store the column with the same type, or both have the same value in place of the column.
fn is_alike(one: &TableFile, other: &TableFile, column: usize) -> bool {
    let kind = |file: &TableFile, id| file.file.tail.schema.column(id).kind;
    match (one.place_of(column), other.place_of(column)) {
        (Ok(here), Ok(there)) => kind(one, here) == kind(other, there),
        (Err(here), Err(there)) => here == there,
        _ => false,
    }
}

/// A column's statistics by stripe, from the footers of files with the same column types. There is at least one file.
fn known(alike: &[TableFile], column: usize) -> ContainerStatistics<'_> {
    let first = &alike[0];
    let id = match first.place_of(column) {
        Ok(id) => id,
        Err(value) => return ContainerStatistics::Constant(value),
    };
    let statistics = alike.iter().flat_map(|file| {
        let tail = &file.file.tail;
        let id = file.place_of(column).ok();
        (0..tail.stripes.len()).map(move |stripe| tail.stripe_statistics.get(stripe)?.get(id? as usize))
    });
    ContainerStatistics::Stored {
        kind: first.file.tail.schema.column(id).kind,
        statistics: statistics.collect(),
        bloom_filters: &[],
    }
}

/// Table columns that the scan reads, ascending.
fn used_columns(projection: &[usize], conjuncts: &[Conjunct]) -> Vec<usize> {
    let filtered = conjuncts.iter().flat_map(|conjunct| &conjunct.columns);
    let mut used: Vec<usize> = projection.iter().chain(filtered).copied().collect();
    used.sort_unstable();
    used.dedup();
    used
}

/// Costs of the used columns, from their encodings in the first stripe to scan.
async fn costs(
    cache: &FileCache,
    options: &GrampusOptions,
    files: &[TableFile],
    first: Option<&PlannedStripe>,
    used: &[usize],
) -> Result<Vec<(usize, ColumnCost)>> {
    let Some(first) = first.filter(|_| !used.is_empty()) else {
        return Ok(Vec::new());
    };
    let table_file = &files[first.file];
    let file = &table_file.file;
    let io = IoCounters::default();
    let stripe = cache.stripe(file, first.stripe, &io).await.map_err(layout)?;
    let handle = cache.handle(file).map_err(layout)?;
    let source = handle.source(options.local_io, io).map_err(layout)?;
    let mut costs = Vec::with_capacity(used.len());
    for &column in used {
        let Ok(id) = table_file.place_of(column) else {
            costs.push((column, ColumnCost::Constant));
            continue;
        };
        let probe = handle.is_on_demand();
        let access = Access::of(&file.tail, &stripe, id, None, source.as_ref(), probe).map_err(layout)?;
        costs.push((column, cost(&file.tail, &stripe, id, &access)));
    }
    Ok(costs)
}

fn scan_statistics(table: &SchemaRef, projection: &[usize], files: &[TableFile], is_exact: bool) -> Statistics {
    let columns: Vec<(usize, DataType)> = projection
        .iter()
        .map(|&column| (column, table.field(column).data_type().clone()))
        .collect();
    let statistics = statistics::of_files(files, &columns);
    match is_exact {
        true => statistics,
        false => statistics.to_inexact(),
    }
}
