//! [`ScalarForms`]: expressions that DataFusion does not plan, or not as written, as expressions that it does.
//!
//! - The operators of [`operators`]: `a ** b` is the power of two doubles, `a GLOB 'x*'` a comparison with a regular
//!   expression, `a BETWEEN SYMMETRIC b AND c` a BETWEEN in either order of the bounds.
//! - `a ^@ b` is `starts_with(a, b)`, and `~a` is `bit_not(a)`.
//! - `a SIMILAR TO p`: the regular expression is to match all of `a`, and DataFusion looks for it anywhere.
//! - `try(CAST(a AS INT) + 1)` is `TRY_CAST(a AS INT) + 1`.
//! - `INTERVAL 7 DAYS` is `INTERVAL '7' DAYS`, also in frames of windows. `1_000` is `1000`.
//!
//! Items of select lists keep their text as name.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Select, UnaryOperator, Value, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};

use super::expressions::{has_call, name_by_text};
use super::operators::{self, call, glob_pattern};

/// The changes, as a visitor.
pub(super) struct ScalarForms;

impl VisitorMut for ScalarForms {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        name_by_text(&mut select.projection, |expr| {
            // Items of COLUMNS have the names of the columns.
            let has_choice = has_call(expr, |call| call.name.to_string().eq_ignore_ascii_case("columns"));
            !has_choice && Visit::visit(expr, &mut Search).is_break()
        });
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(form) = form(expr) {
            *expr = form;
        }
        ControlFlow::Continue(())
    }
}

/// Looks for an expression that gets another form, or that DataFusion names otherwise.
struct Search;

impl Visitor for Search {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let is_renamed = match expr {
            Expr::CompoundFieldAccess { access_chain, .. } => access_chain
                .iter()
                .any(|access| matches!(access, datafusion::sql::sqlparser::ast::AccessExpr::Subscript(_))),
            Expr::Interval(_) | Expr::Value(_) => false,
            other => form(other).is_some(),
        };
        match is_renamed {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// The other form of an expression, whose parts have theirs.
fn form(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } => binary(left, op, right),
        Expr::UnaryOp {
            op: UnaryOperator::BitwiseNot,
            expr,
        } => Some(call("bit_not", vec![expr.as_ref().clone()])),
        Expr::SimilarTo {
            negated,
            expr,
            pattern,
            escape_char: None,
        } => Some(similar(expr, pattern, *negated)),
        Expr::Interval(interval) => {
            let Expr::Value(ValueWithSpan {
                value: Value::Number(number, _),
                span,
            }) = interval.value.as_ref()
            else {
                return None;
            };
            let mut interval = interval.clone();
            let text = Value::SingleQuotedString(number.clone());
            interval.value = Box::new(Expr::Value(text.with_span(*span)));
            Some(Expr::Interval(interval))
        }
        Expr::Value(ValueWithSpan {
            value: Value::Number(number, is_long),
            span,
        }) if number.contains('_') => {
            let number = Value::Number(number.replace('_', ""), *is_long);
            Some(Expr::Value(number.with_span(*span)))
        }
        Expr::Function(call) => tried(call),
        _ => None,
    }
}

fn binary(left: &Expr, operator: &BinaryOperator, right: &Expr) -> Option<Expr> {
    let name = match operator {
        BinaryOperator::PGStartsWith => {
            return Some(call("starts_with", vec![left.clone(), right.clone()]));
        }
        BinaryOperator::Custom(name) => name.as_str(),
        _ => return None,
    };
    match (name, right) {
        (operators::POWER, _) => Some(call("power", vec![double(left.clone()), double(right.clone())])),
        (
            operators::GLOB,
            Expr::Value(ValueWithSpan {
                value: Value::SingleQuotedString(glob),
                span,
            }),
        ) => {
            let pattern = Value::SingleQuotedString(glob_pattern(glob)).with_span(*span);
            Some(Expr::BinaryOp {
                left: Box::new(left.clone()),
                op: BinaryOperator::PGRegexMatch,
                right: Box::new(Expr::Value(pattern)),
            })
        }
        (
            operators::SYMMETRIC | operators::NOT_SYMMETRIC,
            Expr::BinaryOp {
                left: low, right: high, ..
            },
        ) => Some(symmetric(left, low, high, name == operators::NOT_SYMMETRIC)),
        _ => None,
    }
}

fn double(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    }
}

/// The range of `BETWEEN SYMMETRIC`.
fn symmetric(value: &Expr, low: &Expr, high: &Expr, negated: bool) -> Expr {
    let bounds = [(low, high), (high, low)];
    let [one, other] = bounds.map(|(low, high)| Expr::Between {
        expr: Box::new(value.clone()),
        negated: false,
        low: Box::new(low.clone()),
        high: Box::new(high.clone()),
    });
    let either = Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(one),
        op: BinaryOperator::Or,
        right: Box::new(other),
    }));
    match negated {
        true => Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(either),
        },
        false => either,
    }
}

/// The comparison of `SIMILAR TO`, with all of the text.
fn similar(text: &Expr, pattern: &Expr, negated: bool) -> Expr {
    let quoted = |text: String| Expr::Value(Value::SingleQuotedString(text).into());
    let pattern = match pattern {
        Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(pattern),
            ..
        }) => quoted(format!("^(?:{pattern})$")),
        pattern => {
            let concatenated = |left: Expr, right: Expr| Expr::BinaryOp {
                left: Box::new(left),
                op: BinaryOperator::StringConcat,
                right: Box::new(right),
            };
            let begun = concatenated(quoted("^(?:".to_owned()), Expr::Nested(Box::new(pattern.clone())));
            Expr::Nested(Box::new(concatenated(begun, quoted(")$".to_owned()))))
        }
    };
    let op = match negated {
        true => BinaryOperator::PGRegexNotMatch,
        false => BinaryOperator::PGRegexMatch,
    };
    Expr::BinaryOp {
        left: Box::new(text.clone()),
        op,
        right: Box::new(pattern),
    }
}

/// The expression of a call of `try`, whose casts give NULL where a value does not fit.
fn tried(function: &Function) -> Option<Expr> {
    struct Casts;
    impl VisitorMut for Casts {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Cast {
                kind: kind @ (CastKind::Cast | CastKind::DoubleColon),
                ..
            } = expr
            {
                *kind = CastKind::TryCast;
            }
            ControlFlow::Continue(())
        }
    }
    if !function.name.to_string().eq_ignore_ascii_case("try") {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice() else {
        return None;
    };
    let mut argument = argument.clone();
    let _ = VisitMut::visit(&mut argument, &mut Casts); // which never stops early
    Some(Expr::Nested(Box::new(argument)))
}

#[cfg(test)]
mod tests {
    use super::super::dialect;
    use super::*;
    use datafusion::sql::sqlparser::parser::Parser;

    #[test]
    fn expressions_get_their_forms_and_keep_their_names() {
        let state = datafusion::prelude::SessionContext::new().state();
        let dialect = dialect::of_session(&state).unwrap();
        for (sql, expected) in [
            (
                "SELECT 2 ** 3",
                "SELECT power(CAST(2 AS DOUBLE), CAST(3 AS DOUBLE)) AS \"2 ** 3\"",
            ),
            ("SELECT a ^@ b", "SELECT starts_with(a, b) AS \"a ^@ b\""),
            ("SELECT 1 WHERE a GLOB 'x*'", "SELECT 1 WHERE a ~ '(?s)^x.*$'"),
            (
                "SELECT 1 WHERE a NOT BETWEEN SYMMETRIC 2 AND b",
                "SELECT 1 WHERE NOT (a BETWEEN 2 AND b OR a BETWEEN b AND 2)",
            ),
            ("SELECT 1 WHERE a SIMILAR TO 'x|y'", "SELECT 1 WHERE a ~ '^(?:x|y)$'"),
            (
                "SELECT 1 WHERE try(a::INT) = 1_000",
                "SELECT 1 WHERE (TRY_CAST(a AS INT)) = 1000",
            ),
            ("SELECT l[1:2]", "SELECT l[1:2] AS \"l[1:2]\""),
        ] {
            let mut statements = Parser::parse_sql(dialect.as_ref(), sql).unwrap();
            let _ = VisitMut::visit(&mut statements, &mut ScalarForms);
            assert_eq!(statements[0].to_string(), expected);
        }
    }
}
