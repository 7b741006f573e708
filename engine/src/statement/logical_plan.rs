//! [`logical_plan`]: the plan of a statement that is not executed yet.

use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;

use super::names::{match_tables, plan_with_matched_columns};

/// Binds `statement` to the tables and functions of the session. Nothing is executed, and no plan is cached.
///
/// Names match as in [`plan_statement`](super::plan_cache::plan_statement). Placeholders (`$1`, `$name`) stay in the
/// plan: [`LogicalPlan::with_param_values`] gives them values.
///
/// # Errors
/// As [`SessionState::statement_to_plan`](datafusion::execution::SessionState::statement_to_plan).
pub async fn logical_plan(context: &SessionContext, mut statement: Statement) -> Result<LogicalPlan> {
    let state = context.state();
    match_tables(&state, &mut statement)?;
    plan_with_matched_columns(&state, statement).await
}
