//! Keys that an aggregation takes as places in dictionaries, as the files store them.
//!
//! A scan that expands a stripe's dictionary writes each string anew, and the aggregation compares all of them to find
//! the few that differ. Neither is needed for a column that is nothing but a key.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use crate::scan::coded_strings::expanded;
use crate::scan::orc_scan_exec::OrcScanExec;

/// The input of `aggregate` with dictionaries in the place of such keys. `None`: there is no such key.
///
/// # Errors
/// If the input cannot be planned anew.
pub(super) fn coded_input(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let mut used = Vec::new();
    let keys = aggregate.group_expr().expr().iter().map(|(key, _)| key);
    for key in keys.clone().filter(|key| !key.is::<Column>()) {
        used.extend(places(key));
    }
    for (function, filter) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
        function
            .expressions()
            .iter()
            .for_each(|argument| used.extend(places(argument)));
        let order = function.order_bys().iter();
        order.for_each(|sort| used.extend(places(&sort.expr)));
        filter.iter().for_each(|filter| used.extend(places(filter)));
    }
    let keys = keys.filter_map(|key| key.downcast_ref::<Column>().map(Column::index));
    let columns: Vec<usize> = keys.filter(|column| !used.contains(column)).collect();
    coded(aggregate.input(), columns)
}

/// The plan with dictionaries in those of its columns that may have them.
fn coded(plan: &Arc<dyn ExecutionPlan>, columns: Vec<usize>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<OrcScanExec>() {
        let columns: Vec<usize> = columns.into_iter().filter(|at| scan.may_be_coded(*at)).collect();
        return Ok(match columns.is_empty() {
            true => None,
            false => Some(Arc::new(scan.with_coded(&columns)?)),
        });
    }
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
        return Ok(None);
    };
    let exprs = projection.expr();
    let of_input = |at: &usize| exprs.get(*at)?.expr.downcast_ref::<Column>().map(Column::index);
    let is_wanted = |column: &usize| {
        let mut outputs = exprs.iter().enumerate();
        // Each output with this column is the column itself, and wanted.
        outputs.all(|(at, output)| {
            !places(&output.expr).contains(column) || columns.contains(&at) && of_input(&at).is_some()
        })
    };
    let mut inputs: Vec<usize> = columns.iter().filter_map(of_input).filter(is_wanted).collect();
    inputs.sort_unstable();
    inputs.dedup();
    let Some(input) = coded(projection.input(), inputs)? else {
        return Ok(None);
    };
    Ok(Some(Arc::new(ProjectionExec::try_new(exprs.iter().cloned(), input)?)))
}

/// The columns of an expression.
fn places(expr: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    collect_columns(expr).iter().map(Column::index).collect()
}

/// The batch with the columns of `schema`, which has strings in the place of dictionaries.
///
/// # Errors
/// If a dictionary's strings are too long together.
pub(super) fn without_codes(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let mut columns = batch.columns().to_vec();
    for (column, field) in columns.iter_mut().zip(schema.fields()) {
        if column.data_type() != field.data_type() {
            *column = expanded(column)?;
        }
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
