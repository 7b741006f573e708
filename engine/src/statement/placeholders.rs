//! Placeholders of a statement: `number` gives each `?` a number, and [`fill`] puts values in their places.
//!
//! A value becomes a literal of the statement's tree, never of its text. So it has a type before the statement is
//! planned, and can stand wherever a literal can.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Value, ValueWithSpan, VisitorMut};
use datafusion::sql::sqlparser::tokenizer::Location;

use super::expressions;

/// Makes `$1`, `$2`, … of the `?` of a statement, in the order of its text.
///
/// # Errors
/// If the statement has `$1` or `$name` beside `?`.
pub(super) fn number(statement: &mut Statement) -> Result<()> {
    let mut places = Places::default();
    expressions::visit(statement, &mut places);
    if places.marks.is_empty() {
        return Ok(());
    }
    if let Some(other) = places.other {
        return plan_err!("the statement has the placeholders ? and {other}: use one kind");
    }
    for (number, name) in places.marks.values_mut().enumerate() {
        *name = format!("${}", number + 1);
    }
    expressions::visit(statement, &mut Numbers(places.marks));
    Ok(())
}

/// Replaces the placeholders of a statement by the expressions that `value` returns for their names, `1` for `$1`.
///
/// # Errors
/// Those of `value`.
pub fn fill(statement: &mut Statement, value: impl FnMut(&str) -> Result<Expr>) -> Result<()> {
    let mut values = Values { value, error: None };
    expressions::visit(statement, &mut values);
    values.error.map_or(Ok(()), Err)
}

/// The places of `?`, and one other placeholder.
#[derive(Default)]
struct Places {
    marks: BTreeMap<Location, String>,
    other: Option<String>,
}

impl VisitorMut for Places {
    type Break = ();

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        match &value.value {
            Value::Placeholder(name) if name == "?" => {
                self.marks.insert(value.span.start, String::new());
            }
            Value::Placeholder(name) => self.other = Some(name.clone()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The names of `?` by their places.
struct Numbers(BTreeMap<Location, String>);

impl VisitorMut for Numbers {
    type Break = ();

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        if let Value::Placeholder(name) = &mut value.value
            && let Some(number) = self.0.get(&value.span.start)
        {
            name.clone_from(number);
        }
        ControlFlow::Continue(())
    }
}

struct Values<F> {
    value: F,
    error: Option<DataFusionError>,
}

impl<F: FnMut(&str) -> Result<Expr>> VisitorMut for Values<F> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(value) = expr
            && let Value::Placeholder(name) = &value.value
        {
            match (self.value)(name.strip_prefix(['$', '?', ':', '@']).unwrap_or(name)) {
                Ok(found) => *expr = found,
                Err(error) => {
                    self.error.get_or_insert(error);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::super::parser::parse_statement;
    use super::*;

    fn statement(text: &str) -> Result<Statement> {
        parse_statement(&SessionContext::new().state(), text)
    }

    #[test]
    fn marks_have_numbers_in_the_order_of_the_text() {
        for (text, expected) in [
            (
                "FROM t SELECT a + ? WHERE b = ? AND c LIKE '?' -- ?\nLIMIT ?",
                "FROM t SELECT a + $1 WHERE b = $2 AND c LIKE '?' LIMIT $3",
            ),
            (
                "WITH x AS (SELECT ? AS a) SELECT ?, \"?\" FROM x ORDER BY ?",
                "WITH x AS (SELECT $1 AS a) SELECT $2, \"?\" FROM x ORDER BY $3",
            ),
            (
                "INSERT INTO t VALUES (?, ?), (?, ?)",
                "INSERT INTO t VALUES ($1, $2), ($3, $4)",
            ),
            ("SELECT $2, $name", "SELECT $2, $name"),
        ] {
            assert_eq!(statement(text).unwrap().to_string(), expected, "{text}");
        }
        let error = statement("SELECT ?, $1").unwrap_err().to_string();
        assert!(error.contains("use one kind"), "{error}");
    }

    #[test]
    fn values_are_literals_whatever_they_contain() {
        let mut statement = statement("SELECT $m, $n FROM t").unwrap();
        let literal = |name: &str| {
            let text = format!("{name}'); DROP TABLE t; --");
            Ok(Expr::Value(Value::SingleQuotedString(text).into()))
        };
        fill(&mut statement, literal).unwrap();
        let expected = "SELECT 'm''); DROP TABLE t; --', 'n''); DROP TABLE t; --' FROM t";
        assert_eq!(statement.to_string(), expected);
        let error = fill(&mut self::statement("SELECT $1").unwrap(), |_| plan_err!("no value")).unwrap_err();
        assert!(error.to_string().contains("no value"));
    }
}
