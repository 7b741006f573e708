//! `a EXCEPT ALL b` and `a INTERSECT ALL b`: rows with how often they occur.
//!
//! A row that `a` has m times and `b` n times is max(m − n, 0) times in the difference, and min(m, n) times in the
//! intersection (ISO/IEC 9075-2, query expressions). DataFusion 55 plans an anti-join and a semi-join: a row of `a`
//! that `b` has is dropped or kept with all of its copies.
//!
//! Here both sides number the copies of each row. The difference and the intersection of numbered rows hold each once.

use datafusion::common::{Column, plan_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlannerContext};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, cast};
use datafusion::sql::sqlparser::ast::{Query, SetExpr, SetOperator, SetQuantifier, TableFactor};

/// The column of the numbers.
const NUMBER: &str = "bag.number";

/// Whether a query is one of these operations.
pub(crate) fn is_operation(query: &SetExpr) -> bool {
    matches!(
        query,
        SetExpr::SetOperation {
            op: SetOperator::Except | SetOperator::Intersect,
            set_quantifier: SetQuantifier::All,
            ..
        }
    )
}

/// Whether a relation is a subquery of only such an operation.
pub(super) fn is_one(relation: &TableFactor) -> bool {
    match relation {
        TableFactor::Derived { subquery, sample, .. } => {
            let is_bare = subquery.with.is_none() && subquery.order_by.is_none() && subquery.limit_clause.is_none();
            sample.is_none() && is_bare && subquery.fetch.is_none() && is_operation(&subquery.body)
        }
        _ => false,
    }
}

/// The plan of such a subquery.
///
/// # Errors
/// If the sides have other numbers of columns, or columns that do not compare.
pub(super) fn plan(relation: TableFactor, context: &mut dyn RelationPlannerContext) -> Result<PlannedRelation> {
    let TableFactor::Derived {
        lateral,
        subquery,
        alias,
        ..
    } = relation
    else {
        return plan_err!("this is no subquery");
    };
    let of_body = |body: SetExpr| TableFactor::Derived {
        lateral,
        subquery: Box::new(Query {
            body: Box::new(body),
            ..subquery.as_ref().clone()
        }),
        alias: None,
        sample: None,
    };
    let SetExpr::SetOperation { op, left, right, .. } = subquery.body.as_ref().clone() else {
        return plan_err!("this is no set operation");
    };
    let (left, right) = (context.plan(of_body(*left))?, context.plan(of_body(*right))?);
    let names = left.schema().columns();
    let [left, right] = numbered(left, right, &op.to_string())?;
    let plan = match op {
        SetOperator::Except => LogicalPlanBuilder::except(left, right, false)?,
        _ => LogicalPlanBuilder::intersect(left, right, false)?,
    };
    let named = names.into_iter().enumerate().map(|(place, column)| {
        let value = Expr::Column(Column::new_unqualified(place_name(place)));
        value.alias_qualified(column.relation, column.name)
    });
    let plan = LogicalPlanBuilder::from(plan)
        .project(named.collect::<Vec<_>>())?
        .build()?;
    Ok(PlannedRelation::new(plan, alias))
}

/// Both sides with columns named by their places, of the types in which they compare, and with numbers of equal rows.
fn numbered(left: LogicalPlan, right: LogicalPlan, operation: &str) -> Result<[LogicalPlan; 2]> {
    let types = |side: &LogicalPlan| -> Vec<_> {
        let fields = side.schema().fields().iter();
        fields.map(|field| field.data_type().clone()).collect()
    };
    let (one, other) = (types(&left), types(&right));
    if one.len() != other.len() {
        return plan_err!(
            "{operation} ALL: the queries have {} and {} columns; they are to have the same number",
            one.len(),
            other.len()
        );
    }
    let mut coerced = Vec::new();
    for (place, (one, other)) in one.iter().zip(&other).enumerate() {
        coerced.push(comparison_coercion(one, other).ok_or_else(|| {
            plan_datafusion_err!(
                "{operation} ALL: column {} is {one} in one query and {other} in the other, which do not compare",
                place + 1
            )
        })?);
    }
    let number = |side: LogicalPlan| -> Result<LogicalPlan> {
        let found = types(&side);
        let values = side.schema().columns().into_iter().enumerate().map(|(place, column)| {
            let value = Expr::Column(column);
            let value = match found[place] == coerced[place] {
                true => value,
                false => cast(value, coerced[place].clone()),
            };
            value.alias(place_name(place))
        });
        let values: Vec<_> = values.collect();
        let row = (0..values.len()).map(|place| Expr::Column(Column::new_unqualified(place_name(place))));
        let copy = row_number().partition_by(row.collect()).build()?.alias(NUMBER);
        LogicalPlanBuilder::from(side).project(values)?.window([copy])?.build()
    };
    Ok([number(left)?, number(right)?])
}

fn place_name(place: usize) -> String {
    format!("bag.column{place}")
}
