//! [`unnested`]: lists as rows, beside the rows that they belong to.

use datafusion::common::{Column, RecursionUnnestOption, Result, UnnestOptions, not_impl_err};
use datafusion::functions_nested::expr_fn::array_empty;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Unnest, ident, lit, not, when};

use super::names::Names;
use super::places::with_columns;

/// `plan` with the rows of `unnest` in place of each of its rows: the plan, the columns of `unnest`, and whether a row
/// is one of `unnest`. `columns` are those of its input. A row that is not `found`, or whose lists have no elements,
/// stays as one that is not found.
pub(super) fn unnested(
    plan: LogicalPlan,
    columns: Vec<Expr>,
    found: Expr,
    unnest: &Unnest,
    names: &Names,
) -> Result<(LogicalPlan, Vec<Expr>, Expr)> {
    let lists = &unnest.list_type_columns;
    if !unnest.struct_type_columns.is_empty() || lists.iter().any(|(_, list)| list.depth != 1) {
        return not_impl_err!("unnest of structs and of lists in lists in FROM: unnest them in a SELECT list");
    }
    let has_elements = |list: &Expr| when(array_empty(list.clone()).is_null(), lit(false));
    let mut has_any = lit(false);
    for (at, _) in lists {
        let list = &columns[*at];
        let has_elements = has_elements(list).otherwise(not(array_empty(list.clone())))?;
        has_any = has_any.or(has_elements);
    }
    let (plan, is_found) = with_columns(plan, vec![found.and(has_any)], names)?;
    let found = is_found[0].clone();
    let mut values = columns;
    for (at, _) in lists {
        values[*at] = when(found.clone(), values[*at].clone()).end()?;
    }
    let (plan, values) = with_columns(plan, values, names)?;
    let mut elements = Vec::new();
    let mut recursions = Vec::new();
    for (at, list) in lists {
        let Expr::Column(input_column) = values[*at].clone() else {
            return not_impl_err!("unnest of an expression without a name");
        };
        let output_column = Column::new_unqualified(names.fresh());
        elements.push((&list.output_column, ident(&output_column.name)));
        recursions.push(RecursionUnnestOption {
            input_column,
            output_column,
            depth: 1,
        });
    }
    let lists = recursions.iter().map(|list| list.input_column.clone()).collect();
    let options = UnnestOptions {
        recursions,
        ..UnnestOptions::default()
    };
    let plan = LogicalPlanBuilder::from(plan)
        .unnest_columns_with_options(lists, options)?
        .build()?;
    let outputs = unnest.schema.columns().into_iter().zip(&unnest.dependency_indices);
    let outputs = outputs.map(|(column, input)| {
        let element = elements.iter().find(|(list, _)| list.name == column.name);
        element.map_or_else(|| values[*input].clone(), |(_, element)| element.clone())
    });
    let outputs = outputs.collect();
    Ok((plan, outputs, found))
}
