//! [`insert`]: an alias of the select list, in the place of a column that is not there.
//!
//! `SELECT a + 1 AS b, b * 2 FROM t WHERE b > 3` means `(a + 1) * 2` and `(a + 1) > 3`. A column of the name comes
//! first: DataFusion has found none. In the select list, an alias is valid behind its item. Subqueries do not see
//! aliases: the columns of an alias could be others there.

use std::ops::ControlFlow;

use datafusion::common::{Location, plan_err};
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::Volatility;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, Select, SelectItem, Visit, VisitMut, Visitor, VisitorMut,
};

use super::expressions;

/// Puts the expression of the alias `name` in the place of the name. False: there is no such alias.
///
/// # Errors
/// If the expression has another value each time.
pub(super) fn insert(
    state: &SessionState,
    statement: &mut Statement,
    name: &str,
    place: Option<Location>,
) -> Result<bool> {
    let mut insertion = Insertion {
        name,
        place,
        inserted: None,
    };
    expressions::visit(statement, &mut insertion);
    match &insertion.inserted {
        Some(expr) if is_volatile(state, expr) => {
            plan_err!("the alias {name} has another value each time it is computed: compute it in a subquery")
        }
        inserted => Ok(inserted.is_some()),
    }
}

/// Whether a function in an expression has another value each time.
fn is_volatile(state: &SessionState, expr: &Expr) -> bool {
    struct Volatile<'a>(&'a SessionState);
    impl Visitor for Volatile<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(call) => {
                    let function = self.0.udf(&call.name.to_string().to_lowercase());
                    match function.is_ok_and(|function| function.signature().volatility == Volatility::Volatile) {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Volatile(state)).is_break()
}

/// The insertion, as a visitor. The innermost select that has the name and the alias gets it.
struct Insertion<'a> {
    /// As DataFusion reads it.
    name: &'a str,
    /// Where the name is; `None`: wherever it is.
    place: Option<Location>,
    inserted: Option<Expr>,
}

impl VisitorMut for Insertion<'_> {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if self.inserted.is_some() {
            return ControlFlow::Continue(());
        }
        let alias = select
            .projection
            .iter()
            .enumerate()
            .find_map(|(place, item)| match item {
                SelectItem::ExprWithAlias { expr, alias } if self.is_alias(alias) => Some((place, expr.clone())),
                _ => None,
            });
        let Some((item, expr)) = alias else {
            return ControlFlow::Continue(());
        };
        let mut names = Names {
            name: self.name,
            place: self.place,
            expr: &expr,
            inserted: 0,
            depth: 0,
        };
        for item in &mut select.projection[item + 1..] {
            insert_into_item(item, &mut names);
        }
        let _ = VisitMut::visit(&mut select.selection, &mut names); // none of which stops early
        let _ = VisitMut::visit(&mut select.having, &mut names);
        let _ = VisitMut::visit(&mut select.qualify, &mut names);
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            let _ = VisitMut::visit(keys, &mut names);
        }
        self.inserted = (names.inserted > 0).then_some(expr);
        ControlFlow::Continue(())
    }
}

impl Insertion<'_> {
    fn is_alias(&self, alias: &Ident) -> bool {
        match alias.quote_style {
            Some(_) => alias.value == self.name,
            None => alias.value.to_lowercase() == self.name,
        }
    }
}

/// Inserts into an item of the select list, which keeps its heading.
fn insert_into_item(item: &mut SelectItem, names: &mut Names<'_>) {
    let before = names.inserted;
    let heading = match &*item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.value.clone()),
        SelectItem::UnnamedExpr(expr) => Some(expr.to_string()),
        _ => None,
    };
    let _ = VisitMut::visit(item, names); // which never stops early
    if let (SelectItem::UnnamedExpr(expr), Some(heading), true) = (&*item, heading, names.inserted > before) {
        let (expr, alias) = (expr.clone(), Ident::with_quote('"', heading));
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

/// The names in a clause, as a visitor.
struct Names<'a> {
    name: &'a str,
    place: Option<Location>,
    expr: &'a Expr,
    inserted: usize,
    /// Subqueries around the place.
    depth: usize,
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Identifier(ident) = expr else {
            return ControlFlow::Continue(());
        };
        let is_named = match ident.quote_style {
            Some(_) => ident.value == self.name,
            None => ident.value.to_lowercase() == self.name,
        };
        let start = ident.span.start;
        let is_here = |place: Location| (place.line, place.column) == (start.line, start.column);
        if self.depth == 0 && is_named && self.place.is_none_or(is_here) {
            *expr = Expr::Nested(Box::new(self.expr.clone()));
            self.inserted += 1;
        }
        ControlFlow::Continue(())
    }
}
