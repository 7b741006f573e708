//! [`mend`]: `IS [NOT] DISTINCT FROM` binds tighter than NOT, AND and OR.
//!
//! The SQL parser takes all that follows as the right operand: it reads `a IS DISTINCT FROM b AND c` as
//! `a IS DISTINCT FROM (b AND c)` (apache/datafusion#23692). Parentheses stay in what it gives, so the order of
//! operands and operators does too. They are put together anew, by PostgreSQL's precedence.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, UnaryOperator, VisitorMut};

use super::expressions::visit;

/// Mends all expressions of a statement of this text.
pub(super) fn mend(text: &str, statement: &mut Statement) {
    if text.to_ascii_uppercase().contains("DISTINCT") {
        visit(statement, &mut Mending);
    }
}

struct Mending;

impl VisitorMut for Mending {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_of_these = matches!(
            expr,
            Expr::IsDistinctFrom(..)
                | Expr::IsNotDistinctFrom(..)
                | Expr::UnaryOp {
                    op: UnaryOperator::Not,
                    ..
                }
                | Expr::BinaryOp {
                    op: BinaryOperator::And | BinaryOperator::Or,
                    ..
                }
        );
        if is_of_these {
            let whole = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
            *expr = Items::of(whole).disjunction();
        }
        ControlFlow::Continue(())
    }
}

/// A part of an expression, in the order of the text.
enum Item {
    Operand(Box<Expr>),
    And,
    Or,
    Not,
    /// A left operand, and `IS DISTINCT FROM`.
    DistinctFrom(Box<Expr>),
    /// A left operand, and `IS NOT DISTINCT FROM`.
    NotDistinctFrom(Box<Expr>),
}

/// Parts that are not yet put together.
struct Items(std::iter::Peekable<std::vec::IntoIter<Item>>);

impl Items {
    fn of(expr: Expr) -> Self {
        enum Work {
            Expr(Box<Expr>),
            Item(Item),
        }
        let (mut items, mut work) = (Vec::new(), vec![Work::Expr(Box::new(expr))]);
        while let Some(next) = work.pop() {
            let expr = match next {
                Work::Item(item) => {
                    items.push(item);
                    continue;
                }
                Work::Expr(expr) => *expr,
            };
            match expr {
                Expr::BinaryOp { left, op, right } if matches!(op, BinaryOperator::And | BinaryOperator::Or) => {
                    let op = if op == BinaryOperator::And { Item::And } else { Item::Or };
                    work.extend([Work::Expr(right), Work::Item(op), Work::Expr(left)]);
                }
                Expr::UnaryOp {
                    op: UnaryOperator::Not,
                    expr,
                } => work.extend([Work::Expr(expr), Work::Item(Item::Not)]),
                Expr::IsDistinctFrom(left, right) => {
                    work.extend([Work::Expr(right), Work::Item(Item::DistinctFrom(left))]);
                }
                Expr::IsNotDistinctFrom(left, right) => {
                    work.extend([Work::Expr(right), Work::Item(Item::NotDistinctFrom(left))]);
                }
                operand => items.push(Item::Operand(Box::new(operand))),
            }
        }
        Self(items.into_iter().peekable())
    }

    fn disjunction(&mut self) -> Expr {
        let mut left = self.conjunction();
        while self.0.next_if(|item| matches!(item, Item::Or)).is_some() {
            left = binary(left, BinaryOperator::Or, self.conjunction());
        }
        left
    }

    fn conjunction(&mut self) -> Expr {
        let mut left = self.operand();
        while self.0.next_if(|item| matches!(item, Item::And)).is_some() {
            left = binary(left, BinaryOperator::And, self.operand());
        }
        left
    }

    fn operand(&mut self) -> Expr {
        match self.0.next() {
            Some(Item::Operand(operand)) => *operand,
            Some(Item::Not) => Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: Box::new(self.operand()),
            },
            Some(Item::DistinctFrom(left)) => Expr::IsDistinctFrom(left, Box::new(self.operand())),
            Some(Item::NotDistinctFrom(left)) => Expr::IsNotDistinctFrom(left, Box::new(self.operand())),
            // Each operator of an expression has its operands.
            Some(Item::And | Item::Or) | None => unreachable!("an operator without an operand"),
        }
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;
    use datafusion::sql::sqlparser::ast::{Expr, Visit, Visitor};

    use super::*;

    /// Parentheses around the operands of these operators.
    struct Shown(String);

    impl Visitor for Shown {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            fn show(expr: &Expr) -> String {
                match expr {
                    Expr::BinaryOp { left, op, right } => format!("({} {op} {})", show(left), show(right)),
                    Expr::UnaryOp { op, expr } => format!("({op} {})", show(expr)),
                    Expr::IsDistinctFrom(left, right) => format!("({} <> {})", show(left), show(right)),
                    Expr::IsNotDistinctFrom(left, right) => format!("({} = {})", show(left), show(right)),
                    Expr::Nested(inner) => format!("[{}]", show(inner)),
                    other => other.to_string(),
                }
            }
            self.0 = show(expr);
            ControlFlow::Break(())
        }
    }

    fn mended(condition: &str) -> String {
        let text = format!("EXPLAIN SELECT * FROM t WHERE {condition}");
        let mut statement = DFParser::parse_sql(&text).unwrap().pop_front().unwrap();
        mend(&text, &mut statement);
        let Statement::Explain(explain) = statement else {
            panic!()
        };
        let Statement::Statement(statement) = *explain.statement else {
            panic!()
        };
        let mut shown = Shown(String::new());
        let _ = statement.visit(&mut shown);
        shown.0
    }

    #[test]
    fn distinct_from_binds_tighter_than_logic() {
        for (text, expected) in [
            ("a IS DISTINCT FROM b AND c", "((a <> b) AND c)"),
            ("a IS NOT DISTINCT FROM b OR c AND d", "((a = b) OR (c AND d))"),
            ("p AND a IS DISTINCT FROM b OR c", "((p AND (a <> b)) OR c)"),
            ("NOT a IS DISTINCT FROM b AND c", "((NOT (a <> b)) AND c)"),
            (
                "a IS DISTINCT FROM b AND c IS NOT DISTINCT FROM d OR e",
                "(((a <> b) AND (c = d)) OR e)",
            ),
            ("a IS DISTINCT FROM (b AND c) AND d", "((a <> [(b AND c)]) AND d)"),
            ("(a IS DISTINCT FROM b AND c) OR d", "([((a <> b) AND c)] OR d)"),
            (
                "a + 1 IS DISTINCT FROM b * 2 = c AND d",
                "(((a + 1) <> ((b * 2) = c)) AND d)",
            ),
            ("a OR b AND NOT c", "(a OR (b AND (NOT c)))"),
        ] {
            assert_eq!(mended(text), expected, "{text}");
        }
    }
}
