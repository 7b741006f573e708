//! The estimate of the rows that a filter leaves: the one of DataFusion's own filter operator.
//!
//! The scan evaluates its filter itself. With the same estimate, the optimizer orders and builds joins as it does over
//! a table whose filter is an operator of its own.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use super::conjunct::Conjunct;

/// Statistics of the rows that pass `conjuncts`, all inexact.
///
/// `statistics` describes all rows of the table columns `used`, ascending, among which are the columns of the filter.
/// `default_selectivity` is the share of rows, in percent, that pass a filter which the bounds of its columns say
/// nothing about.
///
/// # Errors
/// If the session's default selectivity is above 100.
pub(super) fn estimate_filtered(
    table: &Schema,
    used: &[usize],
    statistics: Statistics,
    conjuncts: &[Conjunct],
    default_selectivity: u8,
) -> Result<Statistics> {
    let schema = Arc::new(table.project(used)?);
    let filter = conjunction(conjuncts.iter().map(|conjunct| Arc::clone(&conjunct.expr)));
    let filter: Arc<dyn PhysicalExpr> = reassign_expr_columns(filter, &schema)?;
    let filter = FilterExecBuilder::new(filter, Arc::new(EmptyExec::new(schema)))
        .with_default_selectivity(default_selectivity)
        .build()?;
    let filtered = filter.statistics_from_inputs(&[Arc::new(statistics)], &StatisticsArgs::new())?;
    Ok(Arc::unwrap_or_clone(filtered).to_inexact())
}
