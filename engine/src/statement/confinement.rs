//! [`Confined`]: a session whose statements open no files but those of its tables, and write none.
//!
//! Paths and functions that read files become tables in one place, the catalog of `path_tables`, which asks
//! [`check_path`]. What writes, or names files for later, is a statement ([`check_statement`]) or a node of a plan
//! ([`check_plan`]). Tables in memory may change, and queries may spill into the session's folder.

use datafusion::catalog::TableProvider;
use datafusion::common::{plan_err, tree_node::TreeNodeRecursion};
use datafusion::datasource::{MemTable, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement as PlannedStatement};
use datafusion::sql::parser::Statement;

/// The mark of such a session; an extension of the session's configuration.
#[derive(Debug)]
pub(crate) struct Confined;

/// Settings whose values are paths or URLs.
const PATHS: [&str; 3] = [
    "datafusion.runtime.temp_directory",
    "datafusion.catalog.location",
    "grampus.cache_folder",
];

fn is_confined(state: &SessionState) -> bool {
    state.config().get_extension::<Confined>().is_some()
}

/// Refuses a table that is named by a path, or by a call of a function that reads files.
///
/// # Errors
/// If the session is confined.
pub(crate) fn check_path(state: &SessionState, name: &str) -> Result<()> {
    match is_confined(state) {
        true => plan_err!(
            "{}: this session is confined: its statements open no files but those of its tables",
            crate::redaction::without_passwords(name)
        ),
        false => Ok(()),
    }
}

/// Refuses a statement that writes files, or names files for later, before it is planned.
///
/// # Errors
/// If the session is confined and the statement is one of these.
pub(super) fn check_statement(state: &SessionState, statement: &Statement) -> Result<()> {
    match statement {
        _ if !is_confined(state) => Ok(()),
        Statement::CopyTo(_) => refused("COPY … TO"),
        Statement::CreateExternalTable(_) => refused("CREATE EXTERNAL TABLE"),
        Statement::Explain(explain) => check_statement(state, &explain.statement),
        Statement::Statement(_) | Statement::Reset(_) => Ok(()),
    }
}

fn refused(what: &str) -> Result<()> {
    plan_err!("{what}: this session is confined: its statements write no files, and open none but those of its tables")
}

/// Refuses a plan that would do so.
///
/// # Errors
/// As [`check_statement`].
pub(crate) fn check_plan(state: &SessionState, plan: &LogicalPlan) -> Result<()> {
    if !is_confined(state) {
        return Ok(());
    }
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Copy(_) => refused("COPY … TO")?,
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(_)) => refused("CREATE EXTERNAL TABLE")?,
            LogicalPlan::Dml(change) => {
                let provider = source_as_provider(&change.target)?;
                let provider: &(dyn TableProvider + 'static) = provider.as_ref();
                if !(provider as &dyn std::any::Any).is::<MemTable>() {
                    refused(&format!("{} of a table of files", change.op))?;
                }
            }
            LogicalPlan::Statement(PlannedStatement::SetVariable(set)) if is_path(&set.variable) => {
                refused(&format!("SET {}", set.variable))?;
            }
            LogicalPlan::Statement(PlannedStatement::ResetVariable(reset)) if is_path(&reset.variable) => {
                refused(&format!("RESET {}", reset.variable))?;
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn is_path(setting: &str) -> bool {
    PATHS.iter().any(|path| path.eq_ignore_ascii_case(setting))
}
