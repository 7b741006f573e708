//! [`expand`]: functions that are short for expressions, as `year(d)` is for `date_part('year', d)`.
//!
//! The table below has the functions; `$1` stands for the first argument. A function of the session with such a name
//! comes before. A call keeps its text as heading.
//!
//! `FILTER` and `OVER` of a call become those of the aggregates in the expression.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::common::plan_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Select, Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::expressions::{self, has_call, name_by_text};

/// Functions by name: the expression for each number of arguments.
#[rustfmt::skip]
const MACROS: &[(&str, &str)] = &[
    // Parts of dates.
    ("century", "CAST(ceil(date_part('year', $1) / 100.0) AS BIGINT)"),
    ("datepart", "date_part($1, $2)"),
    ("day", "date_part('day', $1)"),
    ("dayname", "to_char($1, '%A')"),
    ("dayofmonth", "date_part('day', $1)"),
    ("dayofweek", "date_part('dow', $1)"),
    ("dayofyear", "date_part('doy', $1)"),
    ("decade", "date_part('year', $1) / 10"),
    ("hour", "date_part('hour', $1)"),
    ("isodow", "date_part('isodow', $1)"),
    ("last_day", "CAST(date_trunc('month', CAST($1 AS DATE)) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)"),
    ("minute", "date_part('minute', $1)"),
    ("month", "date_part('month', $1)"),
    ("monthname", "to_char($1, '%B')"),
    ("quarter", "date_part('quarter', $1)"),
    ("second", "date_part('second', $1)"),
    ("today", "current_date()"),
    ("week", "date_part('week', $1)"),
    ("weekday", "date_part('dow', $1)"),
    ("weekofyear", "date_part('week', $1)"),
    ("year", "date_part('year', $1)"),
    ("make_timestamp", "to_timestamp_micros($1)"),
    ("make_timestamp", "to_timestamp_micros(CAST(date_part('epoch', make_date($1, $2, $3)) AS BIGINT) * 1000000
        + CAST(arrow_cast(make_time($4, $5, CAST(floor($6) AS INT)), 'Time32(Second)') AS INT) * 1000000
        + CAST(round(($6 - floor($6)) * 1000000) AS BIGINT))"),
    // Conditions.
    ("if", "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("iif", "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("isfinite", "NOT isnan(CAST($1 AS DOUBLE)) AND abs(CAST($1 AS DOUBLE)) <> CAST('inf' AS DOUBLE)"),
    ("isinf", "abs(CAST($1 AS DOUBLE)) = CAST('inf' AS DOUBLE)"),
    ("xor", "$1 ^ $2"),
    // Text.
    ("base64", "encode($1, 'base64pad')"),
    ("decode", "CAST($1 AS VARCHAR)"),
    ("encode", "CAST($1 AS BYTEA)"),
    ("from_base64", "decode($1, 'base64')"),
    ("lcase", "lower($1)"),
    ("ord", "ascii($1)"),
    ("prefix", "starts_with($1, $2)"),
    ("regexp_extract", "CASE WHEN $1 IS NULL OR $2 IS NULL THEN NULL
        ELSE coalesce(array_element(regexp_match($1, '(' || $2 || ')'), 1), '') END"),
    ("regexp_extract", "CASE WHEN $1 IS NULL OR $2 IS NULL THEN NULL
        ELSE coalesce(array_element(regexp_match($1, '(' || $2 || ')'), 1 + $3), '') END"),
    ("regexp_full_match", "regexp_like($1, '^(?:' || $2 || ')$')"),
    ("regexp_matches", "regexp_like($1, $2)"),
    ("split", "string_to_array($1, CASE WHEN $2 <> '' THEN $2 END)"),
    ("str_split", "string_to_array($1, CASE WHEN $2 <> '' THEN $2 END)"),
    ("string_split", "string_to_array($1, CASE WHEN $2 <> '' THEN $2 END)"),
    ("strlen", "octet_length($1)"),
    ("suffix", "ends_with($1, $2)"),
    ("to_base64", "encode($1, 'base64pad')"),
    ("ucase", "upper($1)"),
    ("unicode", "ascii($1)"),
    // JSON.
    ("json_array_length", "json_length($1)"),
    ("json_keys", "json_object_keys($1)"),
    // Lists and structs.
    ("generate_subscripts", "unnest(range(1, coalesce(CAST(array_length($1, $2) AS BIGINT), 0) + 1))"),
    ("list_reverse_sort", "array_sort($1, 'DESC', 'NULLS LAST')"),
    ("struct_extract", "get_field($1, $2)"),
    // Aggregates.
    ("arg_max", "first_value($1 ORDER BY $2 DESC NULLS LAST) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)"),
    ("arg_min", "first_value($1 ORDER BY $2 NULLS LAST) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)"),
    ("argmax", "first_value($1 ORDER BY $2 DESC NULLS LAST) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)"),
    ("argmin", "first_value($1 ORDER BY $2 NULLS LAST) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)"),
    ("count_if", "count(CASE WHEN $1 THEN 1 END)"),
    ("countif", "count(CASE WHEN $1 THEN 1 END)"),
    ("geomean", "exp(avg(ln($1)))"),
    ("geometric_mean", "exp(avg(ln($1)))"),
    ("group_concat", "string_agg(CAST($1 AS VARCHAR), ',')"),
    ("group_concat", "string_agg(CAST($1 AS VARCHAR), $2)"),
    ("list", "array_agg($1)"),
    ("listagg", "string_agg(CAST($1 AS VARCHAR), ',')"),
    ("listagg", "string_agg(CAST($1 AS VARCHAR), $2)"),
    ("max_by", "first_value($1 ORDER BY $2 DESC NULLS LAST) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)"),
    ("min_by", "first_value($1 ORDER BY $2 NULLS LAST) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)"),
    ("quantile_disc", "array_element(array_agg($1 ORDER BY $1) FILTER (WHERE $1 IS NOT NULL),
        greatest(1, CAST(count($1) - floor(count($1) - $2 * count($1)) AS BIGINT)))"),
    ("sem", "stddev_pop($1) / sqrt(count($1))"),
];

/// Functions that are others by another name, with all clauses of a call.
const RENAMED: &[(&str, &str)] = &[
    ("approx_count_distinct", "approx_distinct"),
    ("first", "first_value"),
    ("gen_random_uuid", "uuid"),
    ("last", "last_value"),
];

/// Functions of DataFusion that get a form for another number of arguments.
const OVERLOADED: [(&str, usize); 2] = [("decode", 1), ("encode", 1)];

/// The expressions of each name, by their number of arguments.
static EXPRESSIONS: LazyLock<HashMap<&str, Vec<(usize, Expr)>>> = LazyLock::new(|| {
    let mut found: HashMap<&str, Vec<(usize, Expr)>> = HashMap::new();
    for (name, text) in MACROS {
        // A test reads all of them.
        if let Ok(expr) = Parser::new(&GenericDialect {})
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_expr())
        {
            let arguments = (1..).take_while(|n| text.contains(&format!("${n}"))).count();
            found.entry(name).or_default().push((arguments, expr));
        }
    }
    found
});

/// Replaces the calls in a statement.
///
/// # Errors
/// If a call has another number of arguments, or a clause that its expression cannot have.
pub(super) fn expand(state: &SessionState, statement: &mut Statement) -> Result<()> {
    let mut calls = Calls { state, error: None };
    expressions::visit(statement, &mut calls);
    calls.error.map_or(Ok(()), Err)
}

/// The calls of a session's statement, as a visitor.
struct Calls<'a> {
    state: &'a SessionState,
    error: Option<DataFusionError>,
}

impl VisitorMut for Calls<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        name_by_text(&mut select.projection, |expr| {
            has_call(expr, |call| {
                self.forms(call).is_some() || self.other_name(call).is_some()
            })
        });
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && let Some(name) = self.other_name(call)
        {
            call.name = ObjectName::from(vec![Ident::new(name)]);
        } else if let Expr::Function(call) = expr
            && let Some(forms) = self.forms(call)
        {
            match expanded(call, forms) {
                Ok(form) => *expr = form,
                Err(error) => {
                    self.error.get_or_insert(error);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

impl Calls<'_> {
    /// The expressions that a call may stand for.
    fn forms(&self, call: &Function) -> Option<&'static [(usize, Expr)]> {
        let name = name_of(call)?;
        let forms = EXPRESSIONS.get(name.as_str())?;
        let is_overloaded = |(other, count): &(&str, usize)| {
            *other == name && matches!(&call.args, FunctionArguments::List(list) if list.args.len() == *count)
        };
        (OVERLOADED.iter().any(is_overloaded) || !self.is_known(&name)).then_some(forms.as_slice())
    }

    /// The other name of a function.
    fn other_name(&self, call: &Function) -> Option<&'static str> {
        let name = name_of(call)?;
        let (_, other) = RENAMED.iter().find(|(renamed, _)| *renamed == name)?;
        (!self.is_known(&name)).then_some(other)
    }

    fn is_known(&self, name: &str) -> bool {
        let state = self.state;
        state.udf(name).is_ok() || state.udaf(name).is_ok() || state.udwf(name).is_ok()
    }
}

/// The name of a function without schema, in lower case.
fn name_of(call: &Function) -> Option<String> {
    match call.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(name.value.to_ascii_lowercase()),
        _ => None,
    }
}

/// The expression for a call.
fn expanded(call: &Function, forms: &[(usize, Expr)]) -> Result<Expr> {
    let arguments = arguments(call)?;
    let Some((_, form)) = forms.iter().find(|(count, _)| *count == arguments.len()) else {
        let counts: Vec<String> = forms.iter().map(|(count, _)| count.to_string()).collect();
        let counts = counts.join(" or ");
        return Err(plan_datafusion_err!(
            "{} takes {counts} arguments, not {}",
            call.name,
            arguments.len()
        ));
    };
    let mut expr = form.clone();
    let mut insertion = Insertion {
        arguments: &arguments,
        call,
        error: None,
    };
    let _ = VisitMut::visit(&mut expr, &mut insertion); // which never stops early
    match insertion.error {
        Some(error) => Err(error),
        None => Ok(Expr::Nested(Box::new(expr))),
    }
}

/// The arguments of a call that has nothing else between its parentheses.
fn arguments(call: &Function) -> Result<Vec<Expr>> {
    let FunctionArguments::List(list) = &call.args else {
        return Err(plan_datafusion_err!("{} takes expressions", call.name));
    };
    let is_plain = list.duplicate_treatment.is_none() && list.clauses.is_empty();
    let expression = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let arguments: Option<Vec<Expr>> = list.args.iter().map(expression).collect();
    match arguments.filter(|_| is_plain && call.within_group.is_empty() && call.null_treatment.is_none()) {
        Some(arguments) => Ok(arguments),
        None => Err(plan_datafusion_err!(
            "{} takes expressions alone: no DISTINCT, ORDER BY, * or names",
            call.name
        )),
    }
}

/// Puts the arguments in the place of `$1`, `$2` …, and the clauses of the call after the aggregates.
struct Insertion<'a> {
    arguments: &'a [Expr],
    call: &'a Function,
    error: Option<DataFusionError>,
}

impl VisitorMut for Insertion<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Value(value) => {
                if let Value::Placeholder(name) = &value.value
                    && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok())
                    && let Some(argument) = number.checked_sub(1).and_then(|at| self.arguments.get(at))
                {
                    *expr = Expr::Nested(Box::new(argument.clone()));
                }
            }
            Expr::Function(function) if is_aggregate(function) => {
                if let Some(condition) = &self.call.filter {
                    function.filter = Some(match function.filter.take() {
                        Some(own) => Box::new(Expr::BinaryOp {
                            left: own,
                            op: BinaryOperator::And,
                            right: Box::new(Expr::Nested(condition.clone())),
                        }),
                        None => condition.clone(),
                    });
                }
                if self.call.over.is_some() && function.name.to_string() == "first_value" {
                    let name = &self.call.name;
                    self.error = Some(plan_datafusion_err!("{name} is no window function: use it in GROUP BY"));
                }
                function.over.clone_from(&self.call.over);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Whether a function of the table above is an aggregate.
fn is_aggregate(function: &Function) -> bool {
    let aggregates = ["array_agg", "avg", "count", "first_value", "stddev_pop", "string_agg"];
    aggregates.contains(&function.name.to_string().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_expressions_are_read() {
        let read: usize = EXPRESSIONS.values().map(Vec::len).sum();
        assert_eq!(read, MACROS.len());
        for (name, forms) in EXPRESSIONS.iter() {
            let mut counts: Vec<usize> = forms.iter().map(|(count, _)| *count).collect();
            counts.dedup();
            assert_eq!(
                counts.len(),
                forms.len(),
                "{name} has two forms of a number of arguments"
            );
        }
    }
}
