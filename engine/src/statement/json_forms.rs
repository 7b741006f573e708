//! [`JsonForms`]: `j -> 'key'`, `j ->> 'key'` and DuckDB's functions of JSON, as those of `datafusion-functions-json`.
//!
//! `->` and `->>` bind tighter than comparisons. The parser binds them less tightly, and reads `j -> 'key' = 'x'` as a
//! lambda of the parameter `j`. Such a lambda does not use its parameter and begins with a constant.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, OneOrManyWithParens, Value, Visit,
    Visitor, VisitorMut,
};

use super::operators::call;

/// Functions with a path, and the functions that they become.
const WITH_PATHS: [(&str, &str); 4] = [
    ("json_extract", "json_get_json"),
    ("json_extract_path", "json_get_json"),
    ("json_extract_path_text", "json_as_text"),
    ("json_extract_string", "json_as_text"),
];

/// The changes, as a visitor.
pub(super) struct JsonForms;

impl VisitorMut for JsonForms {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        while let Some(bound) = tightly_bound(expr) {
            *expr = bound;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp { left, op, right } => {
                let function = match op {
                    BinaryOperator::Arrow => "json_get_json",
                    BinaryOperator::LongArrow => "json_as_text",
                    _ => return ControlFlow::Continue(()),
                };
                let value = left.as_ref().clone();
                *expr = call(function, std::iter::once(value).chain(path(right)).collect());
            }
            Expr::Function(function) => {
                let name = function.name.to_string().to_ascii_lowercase();
                if let Some((_, own)) = WITH_PATHS.iter().find(|(known, _)| *known == name)
                    && let FunctionArguments::List(list) = &function.args
                    && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value)), keys @ ..] = list.args.as_slice()
                {
                    let keys = keys.iter().filter_map(|key| match key {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(key)) => Some(path(key)),
                        _ => None,
                    });
                    *expr = call(own, std::iter::once(value.clone()).chain(keys.flatten()).collect());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The expression whose first arrow binds tighter than what follows its key. `None`: it does.
fn tightly_bound(expr: &Expr) -> Option<Expr> {
    let (op, value, rest) = match expr {
        Expr::Lambda(lambda) => match &lambda.params {
            OneOrManyWithParens::One(parameter)
                if parameter.data_type.is_none() && !uses(&lambda.body, &parameter.name) =>
            {
                (
                    BinaryOperator::Arrow,
                    Expr::Identifier(parameter.name.clone()),
                    &lambda.body,
                )
            }
            _ => return None,
        },
        Expr::BinaryOp {
            left,
            op: op @ (BinaryOperator::Arrow | BinaryOperator::LongArrow),
            right,
        } if !is_constant(right) => (op.clone(), left.as_ref().clone(), right),
        _ => return None,
    };
    let mut rest = rest.as_ref().clone();
    let key = first_mut(&mut rest);
    if !is_constant(key) {
        return None;
    }
    *key = access(op, value, key.clone());
    Some(rest)
}

fn access(op: BinaryOperator, left: Expr, right: Expr) -> Expr {
    let (left, right) = (Box::new(left), Box::new(right));
    Expr::BinaryOp { left, op, right }
}

/// The operand that is written first.
fn first_mut(expr: &mut Expr) -> &mut Expr {
    match expr {
        Expr::BinaryOp { left: inner, .. }
        | Expr::Cast { expr: inner, .. }
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::Between { expr: inner, .. }
        | Expr::InList { expr: inner, .. }
        | Expr::Like { expr: inner, .. }
        | Expr::ILike { expr: inner, .. } => first_mut(inner),
        expr => expr,
    }
}

fn is_constant(expr: &Expr) -> bool {
    let Expr::Value(value) = expr else {
        return false;
    };
    matches!(value.value, Value::SingleQuotedString(_) | Value::Number(..))
}

/// Whether an expression has a name.
fn uses(expr: &Expr, name: &Ident) -> bool {
    struct Search<'a>(&'a Ident);
    impl Visitor for Search<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(found) if found.value.eq_ignore_ascii_case(&self.0.value) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Search(name)).is_break()
}

/// The keys of a path: `'$.a.b[0]'` has three, and another text or number is a key itself.
fn path(key: &Expr) -> Vec<Expr> {
    if let Expr::Value(value) = key
        && let Value::SingleQuotedString(text) = &value.value
        && let Some(rest) = text.strip_prefix('$')
        && let Some(keys) = keys(rest)
    {
        return keys;
    }
    vec![key.clone()]
}

fn keys(mut rest: &str) -> Option<Vec<Expr>> {
    let mut keys = Vec::new();
    while !rest.is_empty() {
        let value = if let Some(after) = rest.strip_prefix('[') {
            let (number, after) = after.split_once(']')?;
            rest = after;
            number.parse::<u32>().ok()?;
            Value::Number(number.to_owned(), false)
        } else {
            let after = rest.strip_prefix('.')?;
            let (name, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_at(after.find(['.', '[']).unwrap_or(after.len())),
            };
            rest = after;
            Value::SingleQuotedString((!name.is_empty()).then(|| name.to_owned())?)
        };
        keys.push(Expr::Value(value.into()));
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::VisitMut;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::statement::dialect::GrampusDialect;

    #[test]
    fn arrows_are_functions_or_lambdas() {
        for (sql, expected) in [
            ("j -> 'a'", "json_get_json(j, 'a')"),
            ("j ->> '$.a.b[0]'", "json_as_text(j, 'a', 'b', 0)"),
            ("j -> 'a' = 'x'", "json_get_json(j, 'a') = 'x'"),
            (
                "j -> 'a' -> 1 ->> 'c'",
                "json_as_text(json_get_json(json_get_json(j, 'a'), 1), 'c')",
            ),
            ("t.j ->> 'a' = 'x' OR b", "json_as_text(t.j, 'a') = 'x' OR b"),
            (
                "j -> 'a' ->> 'b' LIKE 'x%'",
                "json_as_text(json_get_json(j, 'a'), 'b') LIKE 'x%'",
            ),
            ("t.j ->> 'a' IS NULL", "json_as_text(t.j, 'a') IS NULL"),
            ("json_extract_string(j, '$.\"a b\"')", "json_as_text(j, 'a b')"),
            ("json_extract(j, '$')", "json_get_json(j)"),
            ("list_transform(l, x -> x + 1)", "list_transform(l, x -> x + 1)"),
            ("list_filter(l, x -> 1 < x)", "list_filter(l, x -> 1 < x)"),
        ] {
            let mut expr = Parser::new(&GrampusDialect)
                .try_with_sql(sql)
                .unwrap()
                .parse_expr()
                .unwrap();
            let _ = VisitMut::visit(&mut expr, &mut JsonForms);
            assert_eq!(expr.to_string(), expected, "{sql}");
        }
    }
}
