//! [`statistics`]: estimates of the rows that pass a filter over Parquet files, for the order of joins.
//!
//! As of ORC files, bounds estimate and, below joins, a sample of a few thousand rows of local files. A sample is an
//! estimate: whatever is wrong with the files or the filter, the scan itself reports.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray};
use datafusion::common::Statistics;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::physical_plan::parquet::apply_file_schema_type_coercions;
use datafusion::datasource::source::DataSource;
use datafusion::error::Result;
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use datafusion::parquet::file::metadata::{PageIndexPolicy, RowGroupMetaData};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory, replace_columns_with_literals,
};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::filter::FilterExec;

use super::cascade_files::is_plain;
use super::group_columns::leaves;
use crate::scan::filter_sample::{FilterSample, MAX_PLACE_ROWS, MAX_PLACES, MAX_SAMPLE_BYTES};
use crate::scan::selectivity_estimate::{estimate_by_bounds, estimate_by_sample, with_rows};

/// Bytes that writers put into a page, about, before compression.
const PAGE_BYTES: f64 = (1 << 20) as f64;

/// The statistics of `files`, by columns of the table, after `filter` above them.
///
/// # Errors
/// If the filter does not fit the files' columns.
pub(super) fn statistics(files: &FileScanConfig, filter: &FilterExec, has_sample: bool) -> Result<Statistics> {
    let schema = filter.input().schema();
    let predicate = filter.predicate();
    let unfiltered = files.partition_statistics(None)?;
    let unfiltered = Statistics::clone(&unfiltered);
    let by_bounds = estimate_by_bounds(
        Arc::clone(&schema),
        Arc::clone(predicate),
        unfiltered.clone(),
        filter.default_selectivity(),
    )?;
    let sample = match (has_sample, unfiltered.num_rows.get_value()) {
        (true, Some(&rows)) => sample(files, predicate).map(|sample| (sample, rows as u64)),
        _ => None,
    };
    let filtered = match sample {
        Some((sample, scanned)) => {
            let bounds = by_bounds.num_rows.get_value().copied();
            let bounds = bounds.filter(|_| check_support(predicate, &schema));
            with_rows(by_bounds, &unfiltered, estimate_by_sample(sample, scanned, bounds))
        }
        None => by_bounds,
    };
    let mut of_table = files.statistics();
    of_table.num_rows = filtered.num_rows;
    of_table.total_byte_size = datafusion::common::stats::Precision::Absent;
    let Some(projection) = files.file_source().projection() else {
        return Ok(of_table.to_inexact());
    };
    for (expr, known) in projection.expr_iter().zip(filtered.column_statistics) {
        let column = expr.downcast_ref::<Column>();
        if let Some(place) = column.and_then(|column| of_table.column_statistics.get_mut(column.index())) {
            *place = known;
        }
    }
    Ok(of_table.to_inexact())
}

/// Evaluates the filter, which is over the scan's columns, at a few places. `None`: a sample costs too much, or fails.
fn sample(files: &FileScanConfig, filter: &Arc<dyn PhysicalExpr>) -> Option<FilterSample> {
    if files.object_store_url.as_str() != "file:///" {
        return None;
    }
    let source = files.file_source();
    let filter = source.projection()?.unproject_expr(filter).ok()?;
    let filter = reassign_expr_columns(filter, source.table_schema().table_schema()).ok()?;
    let all: Vec<&PartitionedFile> = files.file_groups.iter().flat_map(|group| group.files()).collect();
    let total: u64 = all.iter().map(|file| file.object_meta.size).sum();
    let mut sample = FilterSample::default();
    let mut budget = MAX_SAMPLE_BYTES;
    let mut before = 0;
    let mut middles = (0..MAX_PLACES)
        .map(|place| total * (2 * place + 1) / (2 * MAX_PLACES))
        .peekable();
    for file in all {
        let size = file.object_meta.size;
        let mut places = Vec::new();
        while let Some(middle) = middles.next_if(|&middle| middle < before + size) {
            places.push((middle - before) as f64 / size.max(1) as f64);
        }
        before += size;
        if !places.is_empty() {
            sample_file(files, file, &filter, &places, &mut sample, &mut budget)?;
        }
    }
    (sample.rows > 0).then_some(sample)
}

/// Adds rows at `places`, which are shares of the file's rows.
fn sample_file(
    files: &FileScanConfig,
    file: &PartitionedFile,
    filter: &Arc<dyn PhysicalExpr>,
    places: &[f64],
    sample: &mut FilterSample,
    budget: &mut u64,
) -> Option<()> {
    let table = files.file_source().table_schema();
    let path = PathBuf::from(format!("/{}", file.object_meta.location));
    let stored = File::open(path).ok()?;
    let mut options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Skip);
    let mut metadata = ArrowReaderMetadata::load(&stored, options.clone()).ok()?;
    if let Some(schema) = apply_file_schema_type_coercions(table.file_schema(), metadata.schema()) {
        options = options.with_schema(Arc::new(schema));
        metadata = ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options).ok()?;
    }
    let fields = table.table_partition_cols().iter();
    let constants = fields.map(|field| field.name().clone());
    let constants = constants.zip(file.partition_values.clone()).collect();
    let filter = replace_columns_with_literals(Arc::clone(filter), &constants).ok()?;
    let adapter =
        DefaultPhysicalExprAdapterFactory.create(Arc::clone(table.file_schema()), Arc::clone(metadata.schema()));
    let filter = adapter.ok()?.rewrite(filter).ok()?;
    let mut columns: Vec<usize> = collect_columns(&filter).iter().map(Column::index).collect();
    columns.sort_unstable();
    if columns.is_empty() || columns.iter().any(|&column| !is_plain(&metadata, column)) {
        return None;
    }
    let schema = metadata.schema().project(&columns).ok()?;
    let filter = reassign_expr_columns(filter, &schema).ok()?;
    let mut groups = Vec::new();
    let rows = metadata.metadata().file_metadata().num_rows() as f64;
    for place in places {
        groups.push(group_at(metadata.metadata().row_groups(), (place * rows) as u64)?);
    }
    groups.dedup_by_key(|(group, row)| (*group, *row));
    for (group, row) in groups {
        let row_group = metadata.metadata().row_group(group);
        let rows = u64::try_from(row_group.num_rows())
            .ok()?
            .saturating_sub(row)
            .min(MAX_PLACE_ROWS);
        for leaf in columns.iter().flat_map(|&column| leaves(&metadata, column)) {
            *budget = budget.checked_sub(place_bytes(row_group, leaf, rows))?;
        }
        let selection = vec![RowSelector::skip(row as usize), RowSelector::select(rows as usize)];
        let mask = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(stored.try_clone().ok()?, metadata.clone())
            .with_row_groups(vec![group])
            .with_projection(mask)
            .with_batch_size(rows as usize)
            .with_row_selection(RowSelection::from(selection))
            .build()
            .ok()?;
        let mut passed = 0;
        for batch in reader {
            let batch = batch.ok()?;
            let value = filter.evaluate(&batch).ok()?.into_array(batch.num_rows()).ok()?;
            passed += value.as_boolean_opt().map(BooleanArray::true_count)? as u64;
        }
        sample.add_place(rows, passed);
    }
    Some(())
}

/// The row group of the file's row `row`, and a row in it: the first one where there are many row groups.
fn group_at(groups: &[RowGroupMetaData], row: u64) -> Option<(usize, u64)> {
    let mut before = 0;
    for (at, group) in groups.iter().enumerate() {
        let rows = u64::try_from(group.num_rows()).ok()?;
        if row < before + rows {
            let is_one_of_many = groups.len() as u64 >= MAX_PLACES;
            return Some((at, if is_one_of_many { 0 } else { row - before }));
        }
        before += rows;
    }
    None
}

/// Stored bytes that some rows of a column take, about: its dictionary, and a page at least.
fn place_bytes(group: &RowGroupMetaData, leaf: usize, rows: u64) -> u64 {
    let chunk = group.column(leaf);
    let (start, length) = chunk.byte_range();
    let data = u64::try_from(chunk.data_page_offset()).unwrap_or(start);
    let dictionary = data.saturating_sub(start).min(length);
    let page = PAGE_BYTES / chunk.uncompressed_size().max(1) as f64;
    let share = page.max(rows as f64 / group.num_rows().max(1) as f64).min(1.0);
    dictionary + ((length - dictionary) as f64 * share) as u64
}
