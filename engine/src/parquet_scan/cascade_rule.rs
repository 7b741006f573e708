//! `ParquetCascade`: an optimizer rule that lets the cascade read Parquet files.
//!
//! The filter above a scan moves into the scan. The rule runs before the order of joins is chosen.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::error::Result;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::{conjunction_opt, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::filter_pushdown::PushedDown;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;

use super::cascade_source::CascadeSource;
use super::filter_estimate;
use crate::config::GrampusOptions;
use crate::named_files::named_source::NamedSource;

/// The rule that reads estimates.
const JOIN_SELECTION: &str = "join_selection";

/// Puts [`CascadeSource`] in the place of DataFusion's sources of Parquet files.
#[derive(Debug)]
pub(crate) struct ParquetCascade {
    /// Whether filters below joins are tried on a few rows.
    pub(crate) has_samples: bool,
}

impl ParquetCascade {
    /// Inserts the rule before the one that chooses the sides of joins; first if there is none.
    pub(crate) fn insert_into(self, optimizer: &mut PhysicalOptimizer) {
        let selection = optimizer.rules.iter().position(|rule| rule.name() == JOIN_SELECTION);
        optimizer.rules.insert(selection.unwrap_or(0), Arc::new(self));
    }
}

impl PhysicalOptimizerRule for ParquetCascade {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = config.extensions.get::<GrampusOptions>();
        if options.is_some_and(|options| !options.parquet_cascade) {
            return Ok(plan);
        }
        let has_sample = self.has_samples && plan.exists(|plan| Ok(is_join(plan.as_ref())))?;
        let changed = plan.transform_up(|plan| {
            if let Some(scan) = cascade_scan(&plan) {
                return Ok(Transformed::yes(
                    DataSourceExec::from_data_source(scan) as Arc<dyn ExecutionPlan>
                ));
            }
            let Some(filter) = plan.downcast_ref::<FilterExec>() else {
                return Ok(Transformed::no(plan));
            };
            Ok(match filtered_scan(filter, config, has_sample)? {
                Some(scan) => Transformed::yes(scan),
                None => Transformed::no(plan),
            })
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &'static str {
        "parquet_cascade"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan with the cascade in the place of DataFusion's source.
fn cascade_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<FileScanConfig> {
    let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
    let config = source.downcast_ref::<FileScanConfig>()?;
    let parquet = NamedSource::inner(config.file_source()).downcast_ref::<ParquetSource>()?;
    let cascade = Arc::new(CascadeSource::of(parquet)?);
    let source = NamedSource::in_place_of(config.file_source(), cascade);
    Some(FileScanConfigBuilder::from(config.clone()).with_source(source).build())
}

/// The filter's scan with the filter inside. `None`: it is no scan of the cascade, or takes no part of the filter.
fn filtered_scan(
    filter: &FilterExec,
    config: &ConfigOptions,
    has_sample: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(scan) = filter.input().downcast_ref::<DataSourceExec>() else {
        return Ok(None);
    };
    let Some(files) = scan.data_source().downcast_ref::<FileScanConfig>() else {
        return Ok(None);
    };
    if !NamedSource::inner(files.file_source()).is::<CascadeSource>() || filter.fetch().is_some() {
        return Ok(None);
    }
    let parts: Vec<_> = split_conjunction(filter.predicate()).into_iter().cloned().collect();
    let pushed = files.try_pushdown_filters(parts.clone(), config)?;
    let Some(source) = pushed.updated_node else {
        return Ok(None);
    };
    let Some(pushed_files) = source.downcast_ref::<FileScanConfig>() else {
        return Ok(None);
    };
    let statistics = filter_estimate::statistics(files, filter, has_sample)?;
    let pushed_files = FileScanConfigBuilder::from(pushed_files.clone()).with_statistics(statistics);
    let scan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(pushed_files.build());
    let left = parts.into_iter().zip(pushed.filters);
    let left = left.filter_map(|(part, pushed)| matches!(pushed, PushedDown::No).then_some(part));
    if let Some(left) = conjunction_opt(left) {
        let above = FilterExecBuilder::from(filter)
            .with_predicate(left)
            .with_input(scan)
            .build()?;
        return Ok(Some(Arc::new(above)));
    }
    Ok(Some(match filter.projection() {
        Some(columns) => {
            let columns = ProjectionExprs::from_indices(columns, &scan.schema());
            Arc::new(ProjectionExec::try_new(columns.as_ref().to_vec(), scan)?)
        }
        None => scan,
    }))
}

fn is_join(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<SortMergeJoinExec>()
}
