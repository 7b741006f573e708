//! `t UNPIVOT (v FOR n IN (a, b))`: a row for each of the columns `a` and `b`, with the column's name in `n`, and its
//! value in `v`.
//!
//! `UNPIVOT ((v, w) FOR n IN ((a, b), (c, d)))` gives a row for each pair of columns, with two values.
//!
//! The rows are those of lists side by side, so that the table is read once. Without `INCLUDE NULLS`, rows with
//! a value of NULL are left out.

use std::collections::HashSet;

use datafusion::common::{Column, plan_err};
use datafusion::error::Result;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlannerContext};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias, Ident, NullInclusion, TableFactor};

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
    let identifier = |expr| match expr {
        SqlExpr::Identifier(name) => Ok(name),
        other => plan_err!("UNPIVOT: {other} is to be a name"),
    };
    let values = match value {
        SqlExpr::Tuple(values) => values,
        value => vec![value],
    };
    let values: Vec<Ident> = values.into_iter().map(identifier).collect::<Result<_>>()?;
    let value_names: Vec<String> = values.into_iter().map(|value| context.normalize_ident(value)).collect();
    let name = context.normalize_ident(name);
    let input = context.plan(*table)?;
    let schema = input.schema().clone();
    // For each name of a value, the values of the rows.
    let mut values = vec![Vec::new(); value_names.len()];
    let mut names = Vec::new();
    for ExprWithAlias { expr, alias } in columns {
        if let Some(choice) = Choice::of(&expr)? {
            let [values] = values.as_mut_slice() else {
                return plan_err!("UNPIVOT: COLUMNS gives one value a row; list the columns: ON (a, b), (c, d)");
            };
            for column in choice.columns(&schema, &mut |expr| context.sql_to_expr(expr, &schema))? {
                names.push(column.name.clone());
                values.push(Expr::Column(column));
            }
            continue;
        }
        let parts = match expr {
            SqlExpr::Tuple(parts) => parts,
            part => vec![part],
        };
        if parts.len() != values.len() {
            let (columns, values) = (parts.len(), values.len());
            return plan_err!("UNPIVOT: a row has {values} values, and {columns} columns are given for one");
        }
        let mut texts = Vec::new();
        for (part, values) in parts.into_iter().zip(&mut values) {
            let text = name_of(&part);
            let planned = context.sql_to_expr(part, &schema)?;
            texts.push(match &planned {
                Expr::Column(column) => column.name.clone(),
                _ => text,
            });
            values.push(planned);
        }
        names.push(alias.map_or_else(|| texts.join("_"), |alias| alias.value));
    }
    let named: HashSet<Column> = (values.iter().flatten())
        .flat_map(|expr| expr.column_refs().into_iter().cloned())
        .collect();
    let others = schema.columns().into_iter().filter(|column| !named.contains(column));
    let mut outputs: Vec<Expr> = others.map(Expr::Column).collect();
    outputs.push(make_array(names.into_iter().map(lit).collect()).alias(&name));
    for (values, name) in values.into_iter().zip(&value_names) {
        outputs.push(make_array(values).alias(name));
    }
    let lists = std::iter::once(&name).chain(&value_names).map(Column::new_unqualified);
    let mut rows = LogicalPlanBuilder::from(input)
        .project(outputs)?
        .unnest_columns_with_options(lists.collect(), Default::default())?;
    if !matches!(null_inclusion, Some(NullInclusion::IncludeNulls)) {
        for value in &value_names {
            rows = rows.filter(Expr::Column(Column::new_unqualified(value)).is_not_null())?;
        }
    }
    Ok(PlannedRelation::new(rows.build()?, alias))
}
