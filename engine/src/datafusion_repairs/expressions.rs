//! [`rewrite_expressions`]: each expression of a plan, rewritten under the names that it has.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// `plan`, with `rewrite` applied to each expression and its parts, from the leaves up. The names of columns stay.
/// `rewrite` gets the columns of the node's inputs.
pub(super) fn rewrite_expressions<F>(plan: LogicalPlan, mut rewrite: F) -> Result<LogicalPlan>
where
    F: FnMut(Expr, &DFSchema) -> Result<Transformed<Expr>>,
{
    let rewritten = plan.transform_up_with_subqueries(|plan| {
        let schema = columns_of(&plan)?;
        let names = NamePreserver::new(&plan);
        let rewritten = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|expr| rewrite(expr, &schema))?;
            Ok(match rewritten.transformed {
                true => rewritten.update_data(|expr| name.restore(expr)),
                false => rewritten,
            })
        })?;
        match rewritten.transformed {
            true => rewritten.map_data(LogicalPlan::recompute_schema),
            false => Ok(rewritten),
        }
    })?;
    Ok(rewritten.data)
}

/// The columns that the expressions of a node may name.
pub(super) fn columns_of(plan: &LogicalPlan) -> Result<DFSchema> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = plan {
        let table = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&table);
    }
    Ok(schema)
}
