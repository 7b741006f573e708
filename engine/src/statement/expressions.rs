//! [`visit`]: all expressions of a statement, also of one that is explained or copied.

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{VisitMut, VisitorMut};

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
