//! [`Choice`]: the columns that `COLUMNS(…)` chooses.

use std::ops::ControlFlow;

use datafusion::common::{Column, DFSchema, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr as SqlExpr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    ObjectName, OneOrManyWithParens, Value, ValueWithSpan, VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use regex::Regex;

/// What is in the parentheses.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// `*`, `t.*`, and `* EXCLUDE (a)`.
    All {
        table: Option<String>,
        exclude: Vec<String>,
    },
    /// Columns in whose names a regular expression matches.
    Pattern(Regex),
    /// Columns of these names.
    Names(Vec<String>),
    /// Columns for whose names a condition is true.
    Condition { name: Ident, condition: Box<SqlExpr> },
}

/// Plans an expression without columns.
pub(crate) type PlanExpr<'a> = dyn FnMut(SqlExpr) -> Result<Expr> + 'a;

impl Choice {
    /// The choice of a call. `None`: it is no call of `COLUMNS`.
    ///
    /// # Errors
    /// If the argument is none of these.
    pub(crate) fn of(expr: &SqlExpr) -> Result<Option<Self>> {
        let SqlExpr::Function(call) = expr else {
            return Ok(None);
        };
        if !is_columns(&call.name) {
            return Ok(None);
        }
        let FunctionArguments::List(list) = &call.args else {
            return Err(misused(expr));
        };
        let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else {
            return Err(misused(expr));
        };
        Ok(Some(match argument {
            FunctionArgExpr::Wildcard => Self::all(None),
            FunctionArgExpr::QualifiedWildcard(table) => Self::all(Some(last(table))),
            FunctionArgExpr::WildcardWithOptions(options) => Self::All {
                table: None,
                exclude: excluded(options).ok_or_else(|| misused(expr))?,
            },
            FunctionArgExpr::Expr(argument) => Self::of_argument(argument).unwrap_or_else(|| Err(misused(expr)))?,
        }))
    }

    fn all(table: Option<String>) -> Self {
        let exclude = Vec::new();
        Self::All { table, exclude }
    }

    fn of_argument(argument: &SqlExpr) -> Option<Result<Self>> {
        Some(match argument {
            SqlExpr::Wildcard(_) => Ok(Self::all(None)),
            SqlExpr::QualifiedWildcard(table, _) => Ok(Self::all(Some(last(table)))),
            SqlExpr::Array(array) => {
                let names = array.elem.iter().map(text).collect::<Option<Vec<_>>>()?;
                Ok(Self::Names(names))
            }
            SqlExpr::Lambda(LambdaFunction { params, body, .. }) => {
                let name = match params {
                    OneOrManyWithParens::One(parameter) => &parameter.name,
                    OneOrManyWithParens::Many(parameters) => match parameters.as_slice() {
                        [parameter] => &parameter.name,
                        _ => return None,
                    },
                };
                let (name, condition) = (name.clone(), body.clone());
                Ok(Self::Condition { name, condition })
            }
            other => {
                let pattern = text(other)?;
                let found = Regex::new(&pattern);
                found
                    .map(Self::Pattern)
                    .map_err(|error| plan_datafusion_err!("COLUMNS('{pattern}'): {error}"))
            }
        })
    }

    /// The columns of a relation, in its order. `plan` plans conditions on names.
    ///
    /// # Errors
    /// If none is chosen, or a name is missing.
    pub(crate) fn columns(&self, schema: &DFSchema, plan: &mut PlanExpr<'_>) -> Result<Vec<Column>> {
        let mut chosen = Vec::new();
        let all = schema.columns();
        if let Self::Names(names) = self {
            for name in names {
                let column = all.iter().find(|column| column.name.eq_ignore_ascii_case(name));
                let column = column.ok_or_else(|| plan_datafusion_err!("COLUMNS: no column named {name}"))?;
                chosen.push(column.clone());
            }
            return Ok(chosen);
        }
        for column in all {
            let is_chosen = match self {
                Self::All { table, exclude } => {
                    let is_named = |name: &String| name.eq_ignore_ascii_case(&column.name);
                    let of = column.relation.as_ref();
                    let is_of = |table: &String| of.is_some_and(|of| of.table().eq_ignore_ascii_case(table));
                    table.as_ref().is_none_or(is_of) && !exclude.iter().any(is_named)
                }
                Self::Pattern(pattern) => pattern.is_match(&column.name),
                Self::Condition { name, condition } => is_true(plan(about(name, condition, &column.name))?)?,
                Self::Names(_) => false,
            };
            if is_chosen {
                chosen.push(column);
            }
        }
        match chosen.is_empty() {
            true => {
                let names = schema.field_names().join(", ");
                plan_err!("COLUMNS: no column is chosen; there are {names}")
            }
            false => Ok(chosen),
        }
    }

    /// The alias that a template gives to a column: `\1` is what the first parentheses of the pattern match.
    pub(crate) fn alias(&self, template: &str, column: &str) -> String {
        let Self::Pattern(pattern) = self else {
            return template.to_owned();
        };
        let Some(found) = pattern.captures(column) else {
            return template.to_owned();
        };
        let mut out = String::new();
        let mut rest = template.chars();
        while let Some(letter) = rest.next() {
            let group = rest.clone().next().and_then(|digit| digit.to_digit(10));
            match group.filter(|_| letter == '\\') {
                Some(group) => {
                    out.push_str(found.get(group as usize).map_or("", |part| part.as_str()));
                    rest.next();
                }
                None => out.push(letter),
            }
        }
        out
    }
}

/// Whether a function is `COLUMNS`.
fn is_columns(name: &ObjectName) -> bool {
    let [part] = name.0.as_slice() else { return false };
    part.as_ident()
        .is_some_and(|name| name.quote_style.is_none() && name.value.eq_ignore_ascii_case("columns"))
}

/// The name of an expression without an alias.
pub(crate) fn name_of(expr: &SqlExpr) -> String {
    match expr {
        SqlExpr::Identifier(name) => name.value.clone(),
        SqlExpr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, |name| name.value.clone()),
        other => other.to_string(),
    }
}

/// The names that a wildcard leaves out. `None`: it has other options.
pub(crate) fn excluded(options: &WildcardAdditionalOptions) -> Option<Vec<String>> {
    if options.opt_replace.is_some() || options.opt_rename.is_some() || options.opt_ilike.is_some() {
        return None;
    }
    let mut names = Vec::new();
    match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => names.push(last(name)),
        Some(ExcludeSelectItem::Multiple(several)) => names.extend(several.iter().map(last)),
        None => {}
    }
    if let Some(except) = &options.opt_except {
        names.push(except.first_element.value.clone());
        names.extend(except.additional_elements.iter().map(|name| name.value.clone()));
    }
    Some(names)
}

fn last(name: &ObjectName) -> String {
    let part = name.0.last().and_then(|part| part.as_ident());
    part.map_or_else(String::new, |name| name.value.clone())
}

fn misused(call: &SqlExpr) -> datafusion::error::DataFusionError {
    plan_datafusion_err!(
        "{call}: COLUMNS takes *, t.*, * EXCLUDE (a), a regular expression in quotes, a list of names, or a lambda"
    )
}

fn text(expr: &SqlExpr) -> Option<String> {
    match expr {
        SqlExpr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text),
            ..
        }) => Some(text.clone()),
        _ => None,
    }
}

/// A condition on a name, of one name.
fn about(parameter: &Ident, condition: &SqlExpr, column: &str) -> SqlExpr {
    struct Named<'a> {
        parameter: &'a Ident,
        column: &'a str,
    }
    impl VisitorMut for Named<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
            if matches!(expr, SqlExpr::Identifier(name) if name.value.eq_ignore_ascii_case(&self.parameter.value)) {
                *expr = SqlExpr::Value(Value::SingleQuotedString(self.column.to_owned()).into());
            }
            ControlFlow::Continue(())
        }
    }
    let mut condition = condition.clone();
    let _ = condition.visit(&mut Named { parameter, column }); // which never stops early
    condition
}

/// Whether a constant condition is true.
fn is_true(condition: Expr) -> Result<bool> {
    let simplifier = ExprSimplifier::new(SimplifyContext::default());
    let condition = simplifier.coerce(condition, &DFSchema::empty())?;
    match simplifier.simplify(condition)? {
        Expr::Literal(ScalarValue::Boolean(value), _) => Ok(value.unwrap_or_default()),
        other => plan_err!("COLUMNS: the condition {other} is not true or false"),
    }
}
