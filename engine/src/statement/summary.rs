//! `SUMMARIZE`: a row of figures for each column of a table or query, by one pass over the rows.
//!
//! A statement `SUMMARIZE q` is the query `q` with a mark ([`mark`]). [`statement_to_plan`] plans `q` and puts the
//! figures on top:
//!
//! 1. one aggregation without groups, of all columns ([`ColumnSummaries`]): a list of structs, one for each column;
//! 2. the list unnested.
//!
//! Values of different types share the columns `min` to `q75`, which are text therefore.

use std::sync::Arc;

use datafusion::common::{Column, plan_err};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::functions::expr_fn::get_field;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, PlanType, ToStringifiedPlan, col};
use datafusion::sql::parser::Statement;

use super::column_summaries::{ColumnSummaries, FIGURES};
use super::query_mark;

/// The name of the mark.
const MARK: &str = "summarize";
/// The name of the list and its structs.
const SUMMARY: &str = "summary";

/// Marks a query, also one that is explained. Other statements stay as they are.
pub(super) fn mark(statement: &mut Statement) {
    query_mark::mark(statement, MARK, None);
}

/// The plan of a statement, which may be marked.
///
/// # Errors
/// As [`SessionState::statement_to_plan`].
pub(super) async fn statement_to_plan(state: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    let is_marked = query_mark::take(&mut statement, MARK).is_some();
    let plan = state.statement_to_plan(statement).await?;
    match is_marked {
        true => summarize_explained(plan),
        false => Ok(plan),
    }
}

/// The figures of the columns of a query's plan, which may be explained.
fn summarize_explained(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Explain(mut explain) => {
            let summary = summarize(Arc::unwrap_or_clone(explain.plan))?;
            explain.stringified_plans = vec![summary.to_stringified(PlanType::InitialLogicalPlan)];
            explain.plan = Arc::new(summary);
            Ok(LogicalPlan::Explain(explain))
        }
        LogicalPlan::Analyze(mut analyze) => {
            analyze.input = Arc::new(summarize(Arc::unwrap_or_clone(analyze.input))?);
            Ok(LogicalPlan::Analyze(analyze))
        }
        query => summarize(query),
    }
}

/// The figures of the columns of `input`.
fn summarize(input: LogicalPlan) -> Result<LogicalPlan> {
    let schema = input.schema();
    if schema.fields().is_empty() {
        return plan_err!("SUMMARIZE: there are no columns");
    }
    let names = schema.fields().iter().map(|field| field.name().clone()).collect();
    let columns = schema.iter().map(|field| Expr::Column(Column::from(field))).collect();
    let summary = ColumnSummaries::of(names).call(columns).alias(SUMMARY);
    LogicalPlanBuilder::from(input)
        .aggregate(Vec::<Expr>::new(), [summary])?
        .unnest_column(SUMMARY)?
        .project(FIGURES.map(|name| get_field(col(SUMMARY), name).alias(name)))?
        .build()
}
