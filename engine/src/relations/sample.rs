//! `t TABLESAMPLE (10 PERCENT)` and `t TABLESAMPLE (100 ROWS)`: rows that are drawn anew for each query.
//!
//! Of a part, each row is drawn by itself (`BERNOULLI`; `SYSTEM`, which may draw whole pages, draws rows too). Of a
//! number of rows, each set of so many rows is as likely.

use datafusion::common::{Column, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::functions::expr_fn::random;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlannerContext};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleUnit};

/// The name of a row's lot, which no query names.
const LOT: &str = "__lot";

/// Takes the sample off a relation.
pub(super) fn take(relation: &mut TableFactor) -> Option<TableSample> {
    match relation {
        TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. } => match sample.take()? {
            TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample) => Some(*sample),
        },
        _ => None,
    }
}

/// The plan of a sample of a relation.
///
/// # Errors
/// If the sample is no part and no number of rows, or is to be the same each time.
pub(super) fn plan(
    relation: TableFactor,
    sample: TableSample,
    context: &mut dyn RelationPlannerContext,
) -> Result<PlannedRelation> {
    let text = sample.to_string();
    let text = text.trim();
    if sample.seed.is_some() {
        return plan_err!("{text}: samples are drawn anew for each query; leave REPEATABLE and SEED out");
    }
    let (Some(quantity), None, None) = (sample.quantity, sample.bucket, sample.offset) else {
        return plan_err!("{text}: write TABLESAMPLE (10 PERCENT) or TABLESAMPLE (100 ROWS)");
    };
    let is_part = match (quantity.unit, sample.name) {
        (Some(unit), _) => unit == TableSampleUnit::Percent,
        (None, Some(TableSampleMethod::Bernoulli | TableSampleMethod::System)) => true,
        _ => {
            return plan_err!(
                "{text}: is it PERCENT or ROWS? Write TABLESAMPLE (10 PERCENT) or TABLESAMPLE (100 ROWS)"
            );
        }
    };
    let input = context.plan(relation)?;
    let number = context.sql_to_expr(quantity.value, &datafusion::common::DFSchema::empty())?;
    let simplifier = ExprSimplifier::new(SimplifyContext::default());
    let number = cast(number, arrow::datatypes::DataType::Float64);
    let Expr::Literal(ScalarValue::Float64(Some(number)), _) = simplifier.simplify(number)? else {
        return plan_err!("{text}: the size is to be a number");
    };
    let rows = LogicalPlanBuilder::from(input);
    let plan = match is_part {
        true if (0.0..=100.0).contains(&number) => rows.filter(random().lt(lit(number / 100.0)))?,
        true => return plan_err!("{text}: the percentage is to lie between 0 and 100"),
        false if number >= 0.0 && number.fract() == 0.0 => {
            // The lot is a column: a batch of rows without columns cannot be sorted.
            let columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
            let with_lot = columns.iter().cloned().chain([random().alias(LOT)]);
            let lot = Expr::Column(Column::new_unqualified(LOT));
            let with_lot: Vec<Expr> = with_lot.collect();
            rows.project(with_lot)?
                .sort([lot.sort(true, false)])?
                .limit(0, Some(number as usize))?
                .project(columns)?
        }
        false => return plan_err!("{text}: the number of rows is to be whole and not negative"),
    };
    Ok(PlannedRelation::new(plan.build()?, None))
}
