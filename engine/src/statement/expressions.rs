//! [`visit`]: all expressions of a statement, also of one that is explained or copied. [`name_by_text`]: their names.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Function, Ident, SelectItem, Visit, VisitMut, Visitor, VisitorMut};

/// Passes the expressions to a visitor that never stops early.
pub(super) fn visit(statement: &mut Statement, visitor: &mut impl VisitorMut<Break = ()>) {
    let _ = match statement {
        Statement::Statement(statement) => statement.visit(visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(visitor),
            CopyToSource::Relation(_) => return,
        },
        Statement::Explain(explain) => return visit(&mut explain.statement, visitor),
        _ => return,
    };
}

/// Names the items of a select list by their text, where they are about to become other expressions.
pub(super) fn name_by_text(items: &mut [SelectItem], is_changed: impl Fn(&Expr) -> bool) {
    for item in items {
        if let SelectItem::UnnamedExpr(expr) = item
            && is_changed(expr)
        {
            let alias = Ident::with_quote('"', expr.to_string());
            let expr = expr.clone();
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// Whether an expression has such a call in it.
pub(super) fn has_call(expr: &Expr, is_one: impl Fn(&Function) -> bool) -> bool {
    struct Search<F>(F);
    impl<F: Fn(&Function) -> bool> Visitor for Search<F> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(call) if (self.0)(call) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    Visit::visit(expr, &mut Search(is_one)).is_break()
}
