//! [`name_columns`]: `INSERT INTO t BY NAME SELECT …`, whose columns are those of the query.
//!
//! The parser reads [`BY_NAME`] as the only column.

use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Query, SelectItem, SetExpr, Statement as SqlStatement};

/// What stands in the place of the columns.
pub(super) const BY_NAME: &str = "BY NAME";

/// Names the columns of such a statement.
///
/// # Errors
/// If an item of the query has no name.
pub(super) fn name_columns(statement: &mut Statement) -> Result<()> {
    let insert = match statement {
        Statement::Statement(statement) => match statement.as_mut() {
            SqlStatement::Insert(insert) => insert,
            _ => return Ok(()),
        },
        Statement::Explain(explain) => return name_columns(&mut explain.statement),
        _ => return Ok(()),
    };
    let is_by_name = |name: &ObjectName| {
        let parts = name.0.as_slice();
        matches!(parts, [part] if part.as_ident().is_some_and(|ident| ident.value == BY_NAME))
    };
    if !matches!(insert.columns.as_slice(), [name] if is_by_name(name)) {
        return Ok(());
    }
    let names = insert.source.as_ref().and_then(|query| names(query));
    let Some(names) = names else {
        return plan_err!("INSERT … BY NAME: name each column of the query, as in SELECT a, b + 1 AS c");
    };
    insert.columns = names.into_iter().map(|name| ObjectName::from(vec![name])).collect();
    Ok(())
}

/// The names of a query's columns, if all of them are written.
fn names(query: &Query) -> Option<Vec<Ident>> {
    names_of(&query.body)
}

fn names_of(body: &SetExpr) -> Option<Vec<Ident>> {
    match body {
        SetExpr::Select(select) => select.projection.iter().map(name).collect(),
        SetExpr::Query(query) => names(query),
        SetExpr::SetOperation { left, .. } => names_of(left),
        _ => None,
    }
}

fn name(item: &SelectItem) -> Option<Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
        _ => None,
    }
}
