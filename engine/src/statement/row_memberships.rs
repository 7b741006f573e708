//! [`Form`]: `(a, b) IN (SELECT x, y …)` as `EXISTS`, which DataFusion knows.
//!
//! ```sql
//! CASE WHEN EXISTS (SELECT 1 FROM (SELECT x, y …) AS t(x, y) WHERE x = a AND y = b) THEN true
//!      WHEN EXISTS (SELECT 1 FROM (SELECT x, y …) AS t(x, y) WHERE (x = a AND y = b) IS NULL) THEN NULL
//!      ELSE false END
//! ```
//!
//! Where all conditions must hold, the first EXISTS is enough.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, TableFactor, Visit, VisitMut, Visitor, VisitorMut};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// Names that no statement has.
const ROWS: &str = "__rows";
const VALUE: &str = "__value_";
const LISTED: &str = "__listed_";

/// What the membership has to tell apart.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// True from the rest.
    Truth,
    /// True, false and unknown.
    Value,
}

impl Form {
    /// Puts the form in the place of a membership of a row.
    pub(super) fn replace_in(self, expr: &mut Expr) {
        let Expr::InSubquery {
            expr: row,
            subquery,
            negated,
        } = &*expr
        else {
            return;
        };
        let Expr::Tuple(values) = row.as_ref() else {
            return;
        };
        if values.len() < 2 || (*negated && matches!(self, Self::Truth)) {
            return;
        }
        if let Some(form) = self.of(values, subquery, *negated) {
            *expr = form;
        }
    }

    fn of(self, values: &[Expr], subquery: &Query, is_negated: bool) -> Option<Expr> {
        let each = |text: &dyn Fn(usize) -> String, between: &str| {
            let parts: Vec<String> = (0..values.len()).map(text).collect();
            parts.join(between)
        };
        let names = each(&|at| format!("{LISTED}{at}"), ", ");
        let equal = each(&|at| format!("{LISTED}{at} = {VALUE}{at}"), " AND ");
        let exists =
            |condition: &str| format!("EXISTS (SELECT 1 FROM (SELECT 1) AS {ROWS}({names}) WHERE {condition})");
        let text = match self {
            Self::Truth => exists(&equal),
            Self::Value => format!(
                "CASE WHEN {} THEN {} WHEN {} THEN NULL ELSE {} END",
                exists(&equal),
                !is_negated,
                exists(&format!("({equal}) IS NULL")),
                is_negated
            ),
        };
        let mut form = Parser::new(&GenericDialect {})
            .try_with_sql(&text)
            .and_then(|mut parser| parser.parse_expr())
            .ok()?;
        let _ = VisitMut::visit(&mut form, &mut Filled { values, subquery }); // which never stops early
        Some(form)
    }
}

/// Whether a membership of a row is part of the expression.
pub(super) fn has_membership(expr: &Expr) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::InSubquery { expr, .. } if matches!(**expr, Expr::Tuple(_)) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    Visit::visit(expr, &mut Search).is_break()
}

/// Replaces the conditions of rows that all must hold.
pub(super) fn replace_in_condition(condition: &mut Expr) {
    match condition {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            replace_in_condition(left);
            replace_in_condition(right);
        }
        Expr::Nested(inner) => replace_in_condition(inner),
        other => Form::Truth.replace_in(other),
    }
}

/// Puts the operands in the places of their names.
struct Filled<'a> {
    values: &'a [Expr],
    subquery: &'a Query,
}

impl VisitorMut for Filled<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && let Some(number) = name.value.strip_prefix(VALUE)
            && let Some(value) = number.parse().ok().and_then(|number: usize| self.values.get(number))
        {
            *expr = Expr::Nested(Box::new(value.clone()));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived {
            subquery,
            alias: Some(alias),
            ..
        } = factor
            && alias.name.value == ROWS
        {
            **subquery = self.subquery.clone();
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memberships_of_rows_are_exists() {
        let expr = |sql| {
            Parser::new(&GenericDialect {})
                .try_with_sql(sql)
                .unwrap()
                .parse_expr()
                .unwrap()
        };
        let mut condition = expr("p AND ((a, b + 1) IN (SELECT x, y FROM t)) AND (a, b) NOT IN (SELECT 1, 2)");
        assert!(has_membership(&condition));
        replace_in_condition(&mut condition);
        assert_eq!(
            condition.to_string(),
            "p AND (EXISTS (SELECT 1 FROM (SELECT x, y FROM t) AS __rows (__listed_0, __listed_1) \
             WHERE __listed_0 = (a) AND __listed_1 = (b + 1))) AND (a, b) NOT IN (SELECT 1, 2)"
        );
        let mut value = expr("(a, b) NOT IN (SELECT 1, 2)");
        Form::Value.replace_in(&mut value);
        assert_eq!(
            value.to_string(),
            "CASE WHEN EXISTS (SELECT 1 FROM (SELECT 1, 2) AS __rows (__listed_0, __listed_1) \
             WHERE __listed_0 = (a) AND __listed_1 = (b)) THEN false \
             WHEN EXISTS (SELECT 1 FROM (SELECT 1, 2) AS __rows (__listed_0, __listed_1) \
             WHERE (__listed_0 = (a) AND __listed_1 = (b)) IS NULL) THEN NULL ELSE true END"
        );
        let mut other = expr("a IN (SELECT 1)");
        Form::Value.replace_in(&mut other);
        assert_eq!(other.to_string(), "a IN (SELECT 1)");
    }
}
