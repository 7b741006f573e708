//! [`name_columns`]: the column of `FROM range(10)` is `range`, and that of `generate_series(1, 10)` is
//! `generate_series`, where a query names it. DataFusion calls both `value`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, Visit, Visitor,
};

const FUNCTIONS: [&str; 2] = ["range", "generate_series"];

/// Names the columns of such functions in the FROM of a query that names them.
pub(super) fn name_columns(query: &mut Query) {
    for column in FUNCTIONS {
        if !has_call(query, column) || query.visit(&mut Names(column)).is_continue() {
            continue;
        }
        let SetExpr::Select(select) = query.body.as_mut() else {
            continue;
        };
        for relation in select.from.iter_mut().flat_map(|from| {
            let joined = from.joins.iter_mut().map(|join| &mut join.relation);
            std::iter::once(&mut from.relation).chain(joined)
        }) {
            if is_call(relation, column)
                && let TableFactor::Table { alias, .. } = relation
            {
                name_column(alias, column);
            }
        }
    }
}

fn has_call(query: &Query, function: &str) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    let mut relations = select.from.iter().flat_map(|from| {
        let joined = from.joins.iter().map(|join| &join.relation);
        std::iter::once(&from.relation).chain(joined)
    });
    relations.any(|relation| is_call(relation, function))
}

fn is_call(relation: &TableFactor, function: &str) -> bool {
    match relation {
        TableFactor::Table {
            name, args: Some(_), ..
        } => name.to_string().eq_ignore_ascii_case(function),
        _ => false,
    }
}

fn name_column(alias: &mut Option<TableAlias>, column: &str) {
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::new(column),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef {
            name: Ident::new(column),
            data_type: None,
        });
    }
}

/// Looks for a column of a name.
struct Names(&'static str);

impl Visitor for Names {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let last = match expr {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        match last.is_some_and(|name| name.value.eq_ignore_ascii_case(self.0)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
