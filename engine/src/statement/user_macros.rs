//! [`expand`]: calls of the session's macros, as the expressions and queries that they stand for.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::{plan_datafusion_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, MacroDefinition, ObjectName, Query, Select,
    TableAlias, TableFactor, VisitMut, VisitorMut,
};

use super::definitions::{Macro, Macros};
use super::expressions::{self, has_call, name_by_text};

/// Macros within macros.
const MAX_DEPTH: usize = 32;

/// Expands the calls in a statement.
///
/// # Errors
/// If a call has other arguments than its macro, or a macro calls itself.
pub(super) fn expand(state: &SessionState, statement: &mut Statement) -> Result<()> {
    let Some(macros) = state
        .config()
        .get_extension::<Macros>()
        .filter(|macros| !macros.is_empty())
    else {
        return Ok(());
    };
    for _ in 0..MAX_DEPTH {
        let mut calls = Calls {
            macros: &macros,
            expanded: 0,
            error: None,
        };
        expressions::visit(statement, &mut calls);
        match (calls.error, calls.expanded) {
            (Some(error), _) => return Err(error),
            (None, 0) => return Ok(()),
            (None, _) => {}
        }
    }
    plan_err!("macros are nested more than {MAX_DEPTH} deep: does one of them call itself?")
}

struct Calls<'a> {
    macros: &'a Macros,
    expanded: usize,
    error: Option<DataFusionError>,
}

impl VisitorMut for Calls<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        name_by_text(&mut select.projection, |expr| {
            has_call(expr, |call| self.find(&call.name).is_some())
        });
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(call) = expr else {
            return ControlFlow::Continue(());
        };
        let Some((name, found)) = self.find(&call.name) else {
            return ControlFlow::Continue(());
        };
        let MacroDefinition::Expr(body) = &found.body else {
            return self.fail(plan_datafusion_err!("{name} is a table macro: call it in FROM"));
        };
        let given = match &call.args {
            FunctionArguments::List(list) if call.over.is_none() && call.filter.is_none() => list.args.as_slice(),
            FunctionArguments::None => &[],
            _ => {
                return self.fail(plan_datafusion_err!(
                    "{name} is a macro: it takes no FILTER and no OVER"
                ));
            }
        };
        match insertions(&name, &found, given) {
            Ok(arguments) => {
                let mut body = body.clone();
                let _ = VisitMut::visit(&mut body, &mut Insertion(arguments)); // which never stops early
                *expr = Expr::Nested(Box::new(body));
                self.expanded += 1;
                ControlFlow::Continue(())
            }
            Err(error) => self.fail(error),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let (name, given, alias, lateral) = match factor {
            TableFactor::Table {
                name,
                args: Some(args),
                alias,
                ..
            } => (&*name, args.args.as_slice(), alias.clone(), false),
            TableFactor::Function {
                name,
                args,
                alias,
                lateral,
                ..
            } => (&*name, args.as_slice(), alias.clone(), *lateral),
            _ => return ControlFlow::Continue(()),
        };
        let Some((name, found)) = self.find(name) else {
            return ControlFlow::Continue(());
        };
        let MacroDefinition::Table(body) = &found.body else {
            return self.fail(plan_datafusion_err!(
                "{name} is no table macro: call it in an expression"
            ));
        };
        match insertions(&name, &found, given) {
            Ok(arguments) => {
                let mut subquery: Box<Query> = body.clone();
                let _ = VisitMut::visit(&mut subquery, &mut Insertion(arguments)); // which never stops early
                let alias = alias.unwrap_or_else(|| TableAlias {
                    explicit: true,
                    name: Ident::with_quote('"', name),
                    columns: Vec::new(),
                    at: None,
                });
                *factor = TableFactor::Derived {
                    lateral,
                    subquery,
                    alias: Some(alias),
                    sample: None,
                };
                self.expanded += 1;
                ControlFlow::Continue(())
            }
            Err(error) => self.fail(error),
        }
    }
}

impl Calls<'_> {
    fn find(&self, name: &ObjectName) -> Option<(String, Arc<Macro>)> {
        let [part] = name.0.as_slice() else { return None };
        let name = part.as_ident()?.value.to_lowercase();
        let found = self.macros.find(&name)?;
        Some((name, found))
    }

    fn fail(&mut self, error: DataFusionError) -> ControlFlow<()> {
        self.error.get_or_insert(error);
        ControlFlow::Continue(())
    }
}

/// The value of each argument of a macro, by its name.
fn insertions(name: &str, found: &Macro, given: &[FunctionArg]) -> Result<HashMap<String, Expr>> {
    let mut values: HashMap<String, Expr> = HashMap::new();
    let mut places = found.arguments.iter();
    for argument in given {
        let (key, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => match places.next() {
                Some(place) => (place.name.value.to_lowercase(), value),
                None => return plan_err!("{name} takes {} arguments, not {}", found.arguments.len(), given.len()),
            },
            FunctionArg::Named {
                name: key,
                arg: FunctionArgExpr::Expr(value),
                ..
            } => (key.value.to_lowercase(), value),
            other => return plan_err!("{name} does not take {other}"),
        };
        if !found.arguments.iter().any(|one| one.name.value.to_lowercase() == key) {
            return plan_err!("{name} has no argument named {key}");
        }
        if values.insert(key.clone(), value.clone()).is_some() {
            return plan_err!("{name} gets the argument {key} twice");
        }
    }
    for argument in &found.arguments {
        let key = argument.name.value.to_lowercase();
        match (&argument.default_expr, values.contains_key(&key)) {
            (_, true) => {}
            (Some(default), false) => {
                values.insert(key, default.clone());
            }
            (None, false) => return plan_err!("{name} needs a value for its argument {key}"),
        }
    }
    Ok(values)
}

/// Puts arguments in the place of their names.
struct Insertion(HashMap<String, Expr>);

impl VisitorMut for Insertion {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && let Some(value) = self.0.get(&name.value.to_lowercase())
        {
            *expr = match value {
                Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) => value.clone(),
                other => Expr::Nested(Box::new(other.clone())),
            };
        }
        ControlFlow::Continue(())
    }
}
