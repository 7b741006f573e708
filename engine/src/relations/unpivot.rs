//! `t UNPIVOT (v FOR n IN (a, b))`: a row for each of the columns `a` and `b`, with the column's name in `n`, and its
//! value in `v`.
//!
//! The rows are those of two lists side by side, so that the table is read once. Without `INCLUDE NULLS`, rows whose
//! value is NULL are left out.

use std::collections::HashSet;

use datafusion::common::{Column, plan_err};
use datafusion::error::Result;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlannerContext};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias, NullInclusion, TableFactor};

use super::chosen_columns::{Choice, name_of};

/// The plan of an unpivot.
///
/// # Errors
/// If a column is unknown, or the columns have no common type.
pub(super) fn plan(unpivot: TableFactor, context: &mut dyn RelationPlannerContext) -> Result<PlannedRelation> {
    let TableFactor::Unpivot {
        table,
        value,
        name,
        columns,
        null_inclusion,
        alias,
    } = unpivot
    else {
        return plan_err!("this is no UNPIVOT");
    };
    let SqlExpr::Identifier(value) = value else {
        return plan_err!("UNPIVOT: {value} is to be one name; several values of a row are not supported");
    };
    let (name, value) = (context.normalize_ident(name), context.normalize_ident(value));
    let input = context.plan(*table)?;
    let schema = input.schema().clone();
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for ExprWithAlias { expr, alias } in columns {
        if let Some(choice) = Choice::of(&expr)? {
            for column in choice.columns(&schema, &mut |expr| context.sql_to_expr(expr, &schema))? {
                names.push(column.name.clone());
                values.push(Expr::Column(column));
            }
            continue;
        }
        let text = name_of(&expr);
        let planned = context.sql_to_expr(expr, &schema)?;
        names.push(match (alias, &planned) {
            (Some(alias), _) => alias.value,
            (None, Expr::Column(column)) => column.name.clone(),
            (None, _) => text,
        });
        values.push(planned);
    }
    let named: HashSet<Column> = (values.iter())
        .flat_map(|expr| expr.column_refs().into_iter().cloned())
        .collect();
    let others = schema.columns().into_iter().filter(|column| !named.contains(column));
    let mut outputs: Vec<Expr> = others.map(Expr::Column).collect();
    outputs.push(make_array(names.into_iter().map(lit).collect()).alias(&name));
    outputs.push(make_array(values).alias(&value));
    let lists = [&name, &value].map(Column::new_unqualified);
    let mut rows = LogicalPlanBuilder::from(input)
        .project(outputs)?
        .unnest_columns_with_options(lists.to_vec(), Default::default())?;
    if !matches!(null_inclusion, Some(NullInclusion::IncludeNulls)) {
        rows = rows.filter(Expr::Column(Column::new_unqualified(&value)).is_not_null())?;
    }
    Ok(PlannedRelation::new(rows.build()?, alias))
}
