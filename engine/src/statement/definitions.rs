//! [`Definitions`]: what statements define for the rest of a session: macros and variables.
//!
//! - `CREATE MACRO f(a, b := 2) AS a + b`: a call is the expression, with its arguments in the place of the names.
//! - `CREATE MACRO f(a) AS TABLE SELECT …`: a call in FROM is the query in parentheses.
//! - `SET VARIABLE v = e`: `getvariable('v')` is the value that `e` had.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, SetVariable, Statement as PlannedStatement};
use datafusion::physical_plan::collect;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, MacroArg, MacroDefinition, ObjectName, SelectItem, Set, SetExpr, Statement as SqlStatement,
};

use super::scope::{Planner, Scope, parsed_query};
use crate::sql_functions::variables::Variables;

/// A macro of a session.
#[derive(Debug, Clone)]
pub(super) struct Macro {
    pub(super) arguments: Vec<MacroArg>,
    pub(super) body: MacroDefinition,
}

/// The macros of a session by their names in lower case; an extension of the session's configuration.
#[derive(Debug, Default)]
pub(crate) struct Macros(RwLock<HashMap<String, Arc<Macro>>>);

impl Macros {
    /// The macro of a name.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Macro>> {
        let macros = self.0.read().unwrap_or_else(PoisonError::into_inner);
        macros.get(&name.to_lowercase()).cloned()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<String, Arc<Macro>>) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Executes a statement that defines something. `None`: it defines nothing.
///
/// # Errors
/// If `options` do not allow the statement, a name is taken or missing, or a value cannot be computed.
pub(super) async fn define(
    state: &SessionState,
    statement: &Statement,
    options: &SQLOptions,
    planner: Planner,
) -> Result<Option<LogicalPlan>> {
    let Statement::Statement(statement) = statement else {
        return Ok(None);
    };
    match statement.as_ref() {
        SqlStatement::CreateMacro {
            or_replace,
            name,
            args,
            definition,
            ..
        } => {
            allow(options, "CREATE MACRO")?;
            let found = Macro {
                arguments: args.clone().unwrap_or_default(),
                body: definition.clone(),
            };
            create_macro(state, name, found, *or_replace)?;
        }
        SqlStatement::DropFunction(drop) => {
            allow(options, "DROP MACRO")?;
            for described in &drop.func_desc {
                let name = described.name.to_string().to_lowercase();
                let is_known = macros(state)?.change(|macros| macros.remove(&name)).is_some();
                if !is_known && !drop.if_exists {
                    return plan_err!("there is no macro named {name}");
                }
            }
        }
        SqlStatement::Set(Set::SingleAssignment {
            hivevar: true,
            variable,
            values,
            ..
        }) => {
            allow(options, "SET VARIABLE")?;
            let Some(variables) = state.config().get_extension::<Variables>() else {
                return plan_err!("SET VARIABLE: this session keeps no variables");
            };
            let [value] = values.as_slice() else {
                return plan_err!("SET VARIABLE {variable}: one value is needed");
            };
            let value = value_of(state, value, planner).await?;
            variables.set(&variable.to_string(), value);
        }
        _ => return Ok(None),
    }
    Ok(Some(LogicalPlanBuilder::empty(false).build()?))
}

/// Refuses a statement where statements other than queries are refused.
fn allow(options: &SQLOptions, name: &str) -> Result<()> {
    options.verify_plan(&LogicalPlan::Statement(PlannedStatement::SetVariable(SetVariable {
        variable: name.to_owned(),
        value: String::new(),
    })))
}

fn macros(state: &SessionState) -> Result<Arc<Macros>> {
    match state.config().get_extension::<Macros>() {
        Some(macros) => Ok(macros),
        None => plan_err!("this session keeps no macros"),
    }
}

fn create_macro(state: &SessionState, name: &ObjectName, found: Macro, or_replace: bool) -> Result<()> {
    let name = match name.0.as_slice() {
        [part] => part.to_string().to_lowercase(),
        _ => return plan_err!("CREATE MACRO {name}: a macro has no schema; leave it out"),
    };
    let mut names: Vec<String> = found
        .arguments
        .iter()
        .map(|one| one.name.value.to_lowercase())
        .collect();
    names.sort();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return plan_err!("CREATE MACRO {name}: two arguments are named {}", pair[0]);
    }
    macros(state)?.change(|macros| {
        if !or_replace && macros.contains_key(&name) {
            return plan_err!("the macro {name} exists: CREATE OR REPLACE MACRO replaces it");
        }
        macros.insert(name, Arc::new(found));
        Ok(())
    })
}

/// The value of an expression without columns: also of a subquery.
async fn value_of(state: &SessionState, expr: &Expr, planner: Planner) -> Result<ScalarValue> {
    let mut query = parsed_query("SELECT 1 AS value")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = vec![SelectItem::UnnamedExpr(expr.clone())];
    }
    let plan = Scope::default().plan(state, query, planner).await?;
    let plan = state.create_physical_plan(&plan).await?;
    let data_type = plan.schema().field(0).data_type().clone();
    let batches = collect(plan, state.task_ctx()).await?;
    match batches.iter().find(|batch| batch.num_rows() > 0) {
        Some(batch) => ScalarValue::try_from_array(batch.column(0), 0),
        None => ScalarValue::try_new_null(&data_type),
    }
}
