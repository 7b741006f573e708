//! [`SelectForms`]: forms of queries that DataFusion does not plan, as forms that it does.
//!
//! - `FROM t` without SELECT is `SELECT * FROM t`.
//! - `LIKE 'a!%' ESCAPE '!'` has backslashes in its pattern.
//! - `SELECT e, e::TEXT`: DataFusion names a column by its expression without casts, and refuses two of one name. The
//!   cast gets its text as alias.
//! - `(a, b) IN (SELECT x, y …)` is `EXISTS`.
//! - `CREATE TEMP TABLE` and `CREATE TEMP VIEW` are those without `TEMP`.
//! - `FETCH FIRST n ROWS ONLY` is `LIMIT n`. `USING SAMPLE` is a sample of the relation.
//! - `l ASOF JOIN r …` is `(l ASOF JOIN r …)`.
//! - `a EXCEPT ALL b` is `SELECT * FROM (a EXCEPT ALL b)`.
//! - `t SEMI JOIN u` is `t LEFT SEMI JOIN u`, `t ANTI JOIN u` is `t LEFT ANTI JOIN u`.
//! - `ORDER BY #2` is `ORDER BY 2`.
//! - `'text'.upper()` is `upper('text')`.
//! - `l[2:]` is `l[2:-1]`.
//! - `a // b` is `a / b`, which is whole for integers.
//! - `LATERAL unnest(list)` is `unnest(list)`. `WITH ORDINALITY` is a second list, of the elements' numbers.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Fetch, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Join,
    JoinOperator, LimitClause, ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectFlavor,
    SelectItem, SetExpr, Statement, Subscript, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, Value,
    VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::expressions::name_by_text;
use super::row_memberships::{Form, has_membership, replace_in_condition};
use super::{like_escapes, range_names, samples, set_operations};

/// The changes, as a visitor.
pub(super) struct SelectForms;

impl VisitorMut for SelectForms {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        // A session keeps its tables and views to itself.
        match statement {
            Statement::CreateTable(table) => table.temporary = false,
            Statement::CreateView(view) => view.temporary = false,
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        range_names::name_columns(query);
        number_all(query);
        if let Some(OrderBy {
            kind: OrderByKind::Expressions(keys),
            ..
        }) = &mut query.order_by
        {
            keys.iter_mut().for_each(|key| number(&mut key.expr));
        }
        if let Some(Fetch {
            with_ties: false,
            percent,
            quantity,
        }) = &query.fetch
        {
            let rows = match (percent, quantity) {
                (true, Some(quantity)) => parsed(&format!("'{quantity}%'")),
                (_, quantity) => quantity.clone().or_else(|| parsed("1")),
            };
            match &mut query.limit_clause {
                none @ None => {
                    let (offset, limit_by) = (None, Vec::new());
                    *none = Some(LimitClause::LimitOffset {
                        limit: rows,
                        offset,
                        limit_by,
                    });
                    query.fetch = None;
                }
                Some(LimitClause::LimitOffset {
                    limit: limit @ None, ..
                }) => {
                    *limit = rows;
                    query.fetch = None;
                }
                Some(_) => {} // DataFusion refuses FETCH
            }
        }
        ControlFlow::Continue(())
    }

    // After its parts, so that the new subqueries are not visited.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        set_operations::nest(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        samples::draw(select);
        select.from.iter_mut().for_each(nest_asof_joins);
        for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
            name_left_side(&mut join.join_operator);
        }
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            keys.iter_mut().for_each(number);
        }
        if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
            let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
            select.projection.push(all);
            select.flavor = SelectFlavor::Standard;
        }
        name_casts(&mut select.projection);
        name_by_text(&mut select.projection, has_membership);
        select.selection.iter_mut().for_each(replace_in_condition);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Function {
            lateral: true,
            name,
            args,
            with_ordinality,
            alias,
        } = factor
            && let [ObjectNamePart::Identifier(function)] = name.0.as_slice()
            && function.quote_style.is_none()
            && function.value.eq_ignore_ascii_case("unnest")
            && let Some(lists) = args.iter().map(unnamed).collect()
        {
            *factor = TableFactor::UNNEST {
                alias: alias.take(),
                array_exprs: lists,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality: *with_ordinality,
            };
        }
        if let TableFactor::UNNEST { array_exprs, .. } = factor {
            let _ = array_exprs.visit(&mut ArrayCalls); // which never stops early
        }
        if let TableFactor::UNNEST {
            alias,
            array_exprs,
            with_ordinality,
            ..
        } = factor
            && *with_ordinality
            && let [list] = array_exprs.as_slice()
            && let Some(numbers) = numbers(list)
        {
            array_exprs.push(numbers);
            *with_ordinality = false;
            name_ordinality(alias);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        Form::Value.replace_in(expr);
        call_chained(expr);
        bound_slices(expr);
        if let Expr::BinaryOp { op, .. } = expr
            && *op == BinaryOperator::DuckIntegerDivide
        {
            *op = BinaryOperator::Divide;
        }
        like_escapes::replace(expr);
        ControlFlow::Continue(())
    }
}

/// Makes calls of `make_array` of array literals, in which DataFusion finds no columns of other tables.
struct ArrayCalls;

impl VisitorMut for ArrayCalls {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Array(array) = expr
            && let Some(Expr::Function(mut call)) = parsed("make_array()")
            && let FunctionArguments::List(list) = &mut call.args
        {
            let items = std::mem::take(&mut array.elem).into_iter();
            list.args = items
                .map(|item| FunctionArg::Unnamed(FunctionArgExpr::Expr(item)))
                .collect();
            *expr = Expr::Function(call);
        }
        ControlFlow::Continue(())
    }
}

/// Makes `ORDER BY 1, 2 …` of `ORDER BY ALL`, where the columns can be counted.
fn number_all(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return;
    };
    let is_counted = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    if let Some(order) = &mut query.order_by
        && let OrderByKind::All(options) = &order.kind
        && select.projection.iter().all(is_counted)
    {
        let key = |number: usize| OrderByExpr {
            expr: Expr::Value(Value::Number(number.to_string(), false).into()),
            options: *options,
            with_fill: None,
        };
        order.kind = OrderByKind::Expressions((1..=select.projection.len()).map(key).collect());
    }
}

/// Makes `2` of `#2`.
fn number(key: &mut Expr) {
    if let Expr::Identifier(name) = key
        && name.quote_style.is_none()
        && let Some(digits) = name.value.strip_prefix('#')
        && digits.parse::<u32>().is_ok()
    {
        *key = Expr::Value(Value::Number(digits.to_owned(), false).into());
    }
}

/// Puts each ASOF JOIN into parentheses with what is joined before it, so that a planner of relations sees it.
fn nest_asof_joins(from: &mut TableWithJoins) {
    let is_asof = |join: &Join| matches!(join.join_operator, JoinOperator::AsOf { .. });
    while let Some(place) = from.joins.iter().position(is_asof) {
        let after = from.joins.split_off(place + 1);
        let nested = TableFactor::NestedJoin {
            table_with_joins: Box::new(from.clone()),
            alias: None,
        };
        *from = TableWithJoins {
            relation: nested,
            joins: after,
        };
    }
}

/// A SEMI or ANTI JOIN keeps rows of its left side.
fn name_left_side(operator: &mut JoinOperator) {
    *operator = match std::mem::replace(operator, JoinOperator::CrossApply) {
        JoinOperator::Semi(constraint) => JoinOperator::LeftSemi(constraint),
        JoinOperator::Anti(constraint) => JoinOperator::LeftAnti(constraint),
        other => other,
    };
}

/// Gives `l[:2]` and `l[2:]` the bounds 1 and -1, which stands for the last element.
fn bound_slices(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { access_chain, .. } = expr else {
        return;
    };
    for access in access_chain {
        if let AccessExpr::Subscript(Subscript::Slice {
            lower_bound,
            upper_bound,
            stride: None,
        }) = access
        {
            *lower_bound = lower_bound.take().or_else(|| parsed("1"));
            *upper_bound = upper_bound.take().or_else(|| parsed("-1"));
        }
    }
}

/// Makes a call of a function behind a dot.
fn call_chained(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else {
        return;
    };
    if !access_chain
        .iter()
        .any(|access| matches!(access, AccessExpr::Dot(Expr::Function(_))))
    {
        return;
    }
    let mut value = root.as_ref().clone();
    for access in std::mem::take(access_chain) {
        value = match access {
            AccessExpr::Dot(Expr::Function(mut call)) => {
                if let FunctionArguments::List(list) = &mut call.args {
                    list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(value)));
                }
                Expr::Function(call)
            }
            access => match value {
                Expr::CompoundFieldAccess { root, mut access_chain } => {
                    access_chain.push(access);
                    Expr::CompoundFieldAccess { root, access_chain }
                }
                value => Expr::CompoundFieldAccess {
                    root: Box::new(value),
                    access_chain: vec![access],
                },
            },
        };
    }
    *expr = value;
}

fn parsed(text: &str) -> Option<Expr> {
    let parser = Parser::new(&GenericDialect {}).try_with_sql(text);
    parser.and_then(|mut parser| parser.parse_expr()).ok()
}

fn unnamed(argument: &FunctionArg) -> Option<Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    }
}

/// The numbers of a list's elements, from 1.
fn numbers(list: &Expr) -> Option<Expr> {
    struct Inserted<'a>(&'a Expr);
    impl VisitorMut for Inserted<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if matches!(expr, Expr::Identifier(_)) {
                *expr = self.0.clone();
            }
            ControlFlow::Continue(())
        }
    }
    let mut numbers = parsed("range(1, coalesce(CAST(array_length(list) AS BIGINT), 0) + 1)")?;
    let _ = numbers.visit(&mut Inserted(list)); // which never stops early
    Some(numbers)
}

/// Names the column of WITH ORDINALITY, if the alias does not.
fn name_ordinality(alias: &mut Option<TableAlias>) {
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::new("unnest"),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(column_named(alias.name.clone()));
    }
    if alias.columns.len() == 1 {
        alias.columns.push(column_named(Ident::new("ordinality")));
    }
}

fn column_named(name: Ident) -> TableAliasColumnDef {
    TableAliasColumnDef { name, data_type: None }
}

/// Gives aliases to casts that are other items without their casts. Beside `*`, casts of columns may be that.
fn name_casts(items: &mut [SelectItem]) {
    let is_wildcard = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let has_wildcard = items.iter().any(is_wildcard);
    if items.len() < 2 {
        return;
    }
    // The text as written, and without casts.
    let texts: Vec<Option<(String, String)>> = (items.iter())
        .map(|item| match item {
            SelectItem::UnnamedExpr(expr) => Some((expr.to_string(), without_casts(expr))),
            _ => None,
        })
        .collect();
    for (item, text) in items.iter_mut().zip(&texts) {
        let (SelectItem::UnnamedExpr(expr), Some((written, bare))) = (&*item, text) else {
            continue;
        };
        let is_twin = |other: &(String, String)| other.1 == *bare && other.0 != *written;
        let may_be_column = has_wildcard && matches!(expr, Expr::Cast { expr, .. } if is_column(expr));
        if written != bare && (may_be_column || texts.iter().flatten().any(is_twin)) {
            let (expr, alias) = (expr.clone(), Ident::with_quote('"', written));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// The expression's text as if nothing in it were cast.
fn without_casts(expr: &Expr) -> String {
    struct Uncast;
    impl VisitorMut for Uncast {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Cast { expr: inner, .. } = expr {
                *expr = inner.as_ref().clone();
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    let _ = expr.visit(&mut Uncast); // which never stops early
    expr.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(sql: &str) -> String {
        let mut statements = Parser::parse_sql(&GenericDialect {}, sql).unwrap();
        let _ = statements.visit(&mut SelectForms);
        statements[0].to_string()
    }

    #[test]
    fn patterns_have_no_other_escapes() {
        assert_eq!(
            changed("SELECT a NOT ILIKE 'x!_' ESCAPE '!'"),
            r"SELECT a NOT ILIKE 'x\_'"
        );
        assert_eq!(changed("SELECT a LIKE b ESCAPE '!'"), "SELECT a LIKE b ESCAPE '!'");
    }

    #[test]
    fn casts_of_other_items_get_their_text_as_alias() {
        for (sql, expected) in [
            ("SELECT e, e::INT FROM t", r#"SELECT e, e::INT AS "e::INT" FROM t"#),
            (
                "SELECT e::INT, CAST(e AS BIGINT) FROM t",
                r#"SELECT e::INT AS "e::INT", CAST(e AS BIGINT) AS "CAST(e AS BIGINT)" FROM t"#,
            ),
            (
                "SELECT sum(y), sum(y::INT) FROM t",
                r#"SELECT sum(y), sum(y::INT) AS "sum(y::INT)" FROM t"#,
            ),
            ("SELECT *, e::INT FROM t", r#"SELECT *, e::INT AS "e::INT" FROM t"#),
            ("SELECT e::INT, f FROM t", "SELECT e::INT, f FROM t"),
            ("SELECT e, e FROM t", "SELECT e, e FROM t"),
            ("SELECT e::INT AS a, e::INT FROM t", "SELECT e::INT AS a, e::INT FROM t"),
            (
                "SELECT 1 FROM (SELECT a, a::TEXT FROM t)",
                r#"SELECT 1 FROM (SELECT a, a::TEXT AS "a::TEXT" FROM t)"#,
            ),
        ] {
            assert_eq!(changed(sql), expected);
        }
    }
    #[test]
    fn unnest_is_a_table_with_numbered_elements() {
        for (sql, expected) in [
            (
                "SELECT u FROM t CROSS JOIN LATERAL Unnest(l) AS x(u)",
                "SELECT u FROM t CROSS JOIN UNNEST(l) AS x (u)",
            ),
            (
                "SELECT u FROM t, unnest([t.a, 7]) AS x(u)",
                "SELECT u FROM t, UNNEST(make_array(t.a, 7)) AS x (u)",
            ),
            (
                "SELECT 1 FROM t, LATERAL other(l) AS x(u)",
                "SELECT 1 FROM t, LATERAL other(l) AS x (u)",
            ),
            (
                "SELECT n FROM unnest(t.l) WITH ORDINALITY AS x(u, n)",
                "SELECT n FROM UNNEST(t.l, range(1, coalesce(CAST(array_length(t.l) AS BIGINT), 0) + 1)) AS x (u, n)",
            ),
            (
                "SELECT 1 FROM unnest(l) WITH ORDINALITY",
                "SELECT 1 FROM UNNEST(l, range(1, coalesce(CAST(array_length(l) AS BIGINT), 0) + 1)) AS unnest \
                 (unnest, ordinality)",
            ),
            (
                "SELECT 1 FROM unnest(l, m) WITH ORDINALITY",
                "SELECT 1 FROM UNNEST(l, m) WITH ORDINALITY",
            ),
        ] {
            assert_eq!(changed(sql), expected);
        }
    }
}
