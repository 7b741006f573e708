//! `ParquetBounds` and `ParquetFilters`: bounds of floats in Parquet files are not trusted.
//!
//! Writers leave NaN out of the bounds of FLOAT and DOUBLE columns, as the format's specification asks. DataFusion
//! takes the bounds as those of all values:
//!
//! - it skips row groups and pages whose NaN pass a filter, and counts row groups as passing whose NaN do not;
//! - `max` is answered without NaN, and a column of one number and NaN is read as that number alone.
//!
//! [`ParquetBounds`] runs first and removes the bounds from the statistics of files. [`ParquetFilters`] runs last, when
//! all filters are there, and hides those that name columns of floats from pruning. They are evaluated row by row as
//! before.
//!
//! Bloom filters are hidden too: they hold one of the two zeros.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{CaseExpr, Column, lit};
use datafusion::physical_expr::utils::{collect_columns, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use crate::named_files::named_source::NamedSource;
use crate::parquet_scan::cascade_source::CascadeSource;

/// Removes bounds of floats from the statistics of Parquet files.
#[derive(Debug)]
pub(crate) struct ParquetBounds;

impl ParquetBounds {
    /// Inserts the rule before all others, which read statistics.
    pub(crate) fn insert_into(optimizer: &mut PhysicalOptimizer) {
        optimizer.rules.insert(0, Arc::new(Self));
    }
}

impl PhysicalOptimizerRule for ParquetBounds {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|plan| match parquet_scan(&plan) {
            Some((config, _)) if !has_float(config.file_source().table_schema().table_schema()) => {
                Ok(Transformed::no(plan))
            }
            Some((config, _)) => Ok(Transformed::yes(DataSourceExec::from_data_source(without_bounds(
                config,
            )))),
            None => Ok(Transformed::no(plan)),
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &'static str {
        "parquet_bounds"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Hides filters over floats from the pruning of Parquet files.
#[derive(Debug)]
pub(crate) struct ParquetFilters;

impl PhysicalOptimizerRule for ParquetFilters {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|plan| {
            let Some((config, parquet)) = parquet_scan(&plan) else {
                return Ok(Transformed::no(plan));
            };
            let schema = config.file_source().table_schema().table_schema();
            let filter = config.file_source().filter();
            let Some(filter) = filter.filter(|filter| names_float(filter, schema)) else {
                return Ok(Transformed::no(plan));
            };
            let parts = split_conjunction(&filter).into_iter();
            let hidden = parts.map(|part| match names_float(part, schema) {
                true => hide(part),
                false => Ok(Arc::clone(part)),
            });
            let hidden = parquet.with_predicate(conjunction(hidden.collect::<Result<Vec<_>>>()?));
            let source = CascadeSource::in_place_of(NamedSource::inner(config.file_source()), Arc::new(hidden));
            let source = NamedSource::in_place_of(config.file_source(), source);
            let config = FileScanConfigBuilder::from(config.clone()).with_source(source).build();
            Ok(Transformed::yes(DataSourceExec::from_data_source(config)))
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &'static str {
        "parquet_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan of a Parquet file, and DataFusion's source in it.
fn parquet_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<(&FileScanConfig, &ParquetSource)> {
    let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
    let config = source.downcast_ref::<FileScanConfig>()?;
    let source = CascadeSource::inner(NamedSource::inner(config.file_source()));
    Some((config, source.downcast_ref::<ParquetSource>()?))
}

fn has_float(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| is_float(field.data_type()))
}

/// True for floats, also below a dictionary or in nested values.
fn is_float(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_float(values),
        DataType::Struct(fields) => fields.iter().any(|field| is_float(field.data_type())),
        data_type => data_type.is_floating(),
    }
}

fn without_bounds(config: &FileScanConfig) -> FileScanConfig {
    let schema = config.file_source().table_schema().table_schema();
    let groups = config.file_groups.iter().map(|group| {
        let files = group.files().iter().cloned().map(|mut file| {
            file.statistics = file.statistics.map(|known| Arc::new(unbounded(&known, schema)));
            file
        });
        let files = FileGroup::new(files.collect());
        match group.file_statistics(None) {
            Some(known) => files.with_statistics(Arc::new(unbounded(known, schema))),
            None => files,
        }
    });
    let groups = groups.collect();
    // A scan with a filter states inexact figures, which the builder takes for its own.
    let statistics = unbounded(&config.statistics(), schema);
    FileScanConfigBuilder::from(config.clone())
        .with_file_groups(groups)
        .with_statistics(statistics)
        .build()
}

/// Statistics of a table's columns without the bounds of floats.
fn unbounded(known: &Statistics, schema: &Schema) -> Statistics {
    let mut known = known.clone();
    for (column, field) in known.column_statistics.iter_mut().zip(schema.fields()) {
        if is_float(field.data_type()) {
            column.min_value = Precision::Absent;
            column.max_value = Precision::Absent;
        }
    }
    known
}

/// True if a filter names a column of floats. The columns of `schema` include those of partitions.
fn names_float(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let is_of_float = |column: &Column| {
        let field = schema.field_with_name(column.name());
        field.map_or(true, |field| is_float(field.data_type()))
    };
    collect_columns(filter).iter().any(is_of_float)
}

/// The filter in a form that statistics cannot decide: `CASE WHEN filter THEN true ELSE false END`. DataFusion knows
/// the form, so plans with it can be sent to other machines.
fn hide(filter: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let branches = vec![(Arc::clone(filter), lit(true))];
    Ok(Arc::new(CaseExpr::try_new(None, branches, Some(lit(false)))?))
}
