//! [`visit`]: all expressions of a statement, also of one that is explained or copied. [`name_by_text`]: their names.

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, VisitMut, VisitorMut};

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
