//! [`expand`]: wildcards that DataFusion does not plan, as columns.
//!
//! - `COLUMNS(…)` in an expression: the expression once for each column. In WHERE, all of them are to be true.
//! - `* RENAME (a AS b)` and `* ILIKE 'a%'`, also with EXCLUDE and REPLACE.
//! - `s.*` of a struct: its fields.

use std::collections::HashMap;
use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, plan_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr as PlannedExpr;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, ExprWithAlias, Ident, ObjectName, Query, RenameSelectItem, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, Value, Visit, VisitMut, Visitor, VisitorMut,
    WildcardAdditionalOptions,
};

use super::expressions;
use super::operators::call;
use super::scope::{Planner, Scope, Scopes};
use crate::relations::chosen_columns::{Choice, excluded};

/// Select lists of one statement. Each of them needs one more planning.
const MAX_EXPANSIONS: usize = 1000;

/// Expands the wildcards of a statement.
///
/// # Errors
/// If FROM cannot be planned, or a wildcard names a column that is not there.
pub(super) async fn expand(state: &SessionState, statement: &mut Statement, planner: Planner) -> Result<()> {
    for _ in 0..MAX_EXPANSIONS {
        let mut search = Search::default();
        expressions::visit(statement, &mut search);
        let Some((scope, select)) = search.found else {
            return Ok(());
        };
        let columns = scope.columns(state, select.from.clone(), planner).await?;
        let expanded = expanded(state, &select, &columns)?;
        let (select, expanded) = (*select, Some(expanded));
        expressions::visit(statement, &mut Replacement { select, expanded });
    }
    plan_err!("the statement has more than {MAX_EXPANSIONS} wildcards to expand")
}

/// Looks for the first select list to expand, the inner ones first.
#[derive(Default)]
struct Search {
    scopes: Scopes,
    found: Option<(Scope, Box<Select>)>,
}

impl VisitorMut for Search {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_new = self.found.is_none() && !select.from.is_empty();
        if is_new
            && (select.projection.iter().any(|item| is_wildcard(item, &select.from)) || has_choice(&select.selection))
        {
            self.found = Some((self.scopes.here(), Box::new(select.clone())));
        }
        ControlFlow::Continue(())
    }
}

/// Puts the expanded select in the place of the first that is alike.
struct Replacement {
    select: Select,
    expanded: Option<Select>,
}

impl VisitorMut for Replacement {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if *select == self.select
            && let Some(expanded) = self.expanded.take()
        {
            *select = expanded;
        }
        ControlFlow::Continue(())
    }
}

/// Whether an item is a wildcard that DataFusion does not plan, or has one.
fn is_wildcard(item: &SelectItem, from: &[TableWithJoins]) -> bool {
    match item {
        SelectItem::Wildcard(options) => has_options(options),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
            has_options(options) || !is_relation(name, from)
        }
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => has_choice(expr),
        _ => false,
    }
}

fn has_options(options: &WildcardAdditionalOptions) -> bool {
    options.opt_rename.is_some() || options.opt_ilike.is_some()
}

/// Whether `COLUMNS(…)` is in an expression, its subqueries aside.
fn has_choice(expr: &impl Visit) -> bool {
    choice_in(expr).is_some()
}

/// The first call of `COLUMNS` in an expression.
fn choice_in(expr: &impl Visit) -> Option<Expr> {
    #[derive(Default)]
    struct Calls {
        depth: usize,
    }
    impl Visitor for Calls {
        type Break = Expr;

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Expr> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Expr> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Expr> {
            match self.depth == 0 && !matches!(Choice::of(expr), Ok(None)) {
                true => ControlFlow::Break(expr.clone()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    match expr.visit(&mut Calls::default()) {
        ControlFlow::Break(call) => Some(call),
        ControlFlow::Continue(()) => None,
    }
}

/// Whether FROM has a relation of a name.
fn is_relation(name: &ObjectName, from: &[TableWithJoins]) -> bool {
    let Some(name) = name.0.last().and_then(|part| part.as_ident()) else {
        return true;
    };
    let is_named = |ident: &Ident| ident.value.eq_ignore_ascii_case(&name.value);
    let relations = from.iter().flat_map(|from| {
        let joined = from.joins.iter().map(|join| &join.relation);
        std::iter::once(&from.relation).chain(joined)
    });
    let mut relations = relations.peekable();
    relations.any(|relation| match relation {
        TableFactor::Table { name, alias, .. } => match alias {
            Some(alias) => is_named(&alias.name),
            None => name.0.last().and_then(|part| part.as_ident()).is_some_and(is_named),
        },
        TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::UNNEST { alias, .. } => alias.as_ref().is_some_and(|alias| is_named(&alias.name)),
        // Relations in parentheses and others are left to DataFusion.
        _ => true,
    })
}

/// The select with columns in the place of wildcards.
fn expanded(state: &SessionState, select: &Select, columns: &DFSchema) -> Result<Select> {
    let mut plan = |expr: Expr| {
        let expr = ExprWithAlias { expr, alias: None };
        state.create_logical_expr_from_sql_expr(expr, &DFSchema::empty())
    };
    let mut select = select.clone();
    let mut items = Vec::new();
    for item in std::mem::take(&mut select.projection) {
        if !is_wildcard(&item, &select.from) {
            items.push(item);
            continue;
        }
        match item {
            SelectItem::Wildcard(options) => items.extend(with_options(None, &options, columns, &mut plan)?),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                match is_relation(&name, &select.from) {
                    true => items.extend(with_options(Some(&name), &options, columns, &mut plan)?),
                    false => items.extend(fields(&name, &options, columns)?),
                }
            }
            SelectItem::UnnamedExpr(expr) => items.extend(each(&expr, None, columns, &mut plan)?),
            SelectItem::ExprWithAlias { expr, alias } => {
                // The heading of an expression without an alias is none.
                let alias = Some(&alias).filter(|alias| alias.value != expr.to_string());
                items.extend(each(&expr, alias, columns, &mut plan)?);
            }
            other => items.push(other),
        }
    }
    select.projection = items;
    if let Some(condition) = &select.selection
        && has_choice(condition)
    {
        let mut all: Option<Expr> = None;
        for item in each(condition, None, columns, &mut plan)? {
            if let SelectItem::ExprWithAlias { expr, .. } = item {
                let right = Expr::Nested(Box::new(expr));
                all = Some(match all {
                    Some(left) => Expr::BinaryOp {
                        left: Box::new(left),
                        op: BinaryOperator::And,
                        right: Box::new(right),
                    },
                    None => right,
                });
            }
        }
        select.selection = all;
    }
    Ok(select)
}

type Plan<'a> = dyn FnMut(Expr) -> Result<PlannedExpr> + 'a;

/// An expression once for each column that its `COLUMNS(…)` chooses.
fn each(expr: &Expr, alias: Option<&Ident>, columns: &DFSchema, plan: &mut Plan<'_>) -> Result<Vec<SelectItem>> {
    struct Insertion<'a> {
        call: &'a Expr,
        column: &'a Column,
        other: Option<Expr>,
    }
    impl VisitorMut for Insertion<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if expr == self.call {
                *expr = named(self.column);
            } else if matches!(Choice::of(expr), Ok(Some(_))) {
                self.other = Some(expr.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let Some(call) = choice_in(expr) else {
        return Ok(Vec::new());
    };
    let choice = Choice::of(&call)?.ok_or_else(|| plan_datafusion_err!("{call} chooses no columns"))?;
    let mut items = Vec::new();
    for column in choice.columns(columns, plan)? {
        let mut expr = expr.clone();
        let mut insertion = Insertion {
            call: &call,
            column: &column,
            other: None,
        };
        let _ = VisitMut::visit(&mut expr, &mut insertion); // which never stops early
        if let Some(other) = insertion.other {
            return plan_err!("{call} and {other} in one expression choose different columns");
        }
        let alias = match alias {
            Some(alias) => choice.alias(&alias.value, &column.name),
            None => column.name.clone(),
        };
        let alias = Ident::with_quote('"', alias);
        items.push(SelectItem::ExprWithAlias { expr, alias });
    }
    Ok(items)
}

/// The columns of a wildcard with options.
fn with_options(
    table: Option<&ObjectName>,
    options: &WildcardAdditionalOptions,
    columns: &DFSchema,
    plan: &mut Plan<'_>,
) -> Result<Vec<SelectItem>> {
    let mut names: HashMap<String, &Ident> = HashMap::new();
    match &options.opt_rename {
        Some(RenameSelectItem::Single(one)) => {
            names.insert(one.ident.value.to_lowercase(), &one.alias);
        }
        Some(RenameSelectItem::Multiple(several)) => {
            names.extend(several.iter().map(|one| (one.ident.value.to_lowercase(), &one.alias)));
        }
        None => {}
    }
    let mut values: HashMap<String, &Expr> = HashMap::new();
    for element in options.opt_replace.iter().flat_map(|replace| &replace.items) {
        values.insert(element.column_name.value.to_lowercase(), &element.expr);
    }
    let others = WildcardAdditionalOptions {
        opt_rename: None,
        opt_replace: None,
        opt_ilike: None,
        ..options.clone()
    };
    let table = table
        .and_then(|name| name.0.last()?.as_ident())
        .map(|name| name.value.clone());
    let exclude = excluded(&others).unwrap_or_default();
    let mut chosen = Choice::All { table, exclude }.columns(columns, plan)?;
    if let Some(ilike) = &options.opt_ilike {
        let alike = alike(&ilike.pattern).columns(columns, plan)?;
        chosen.retain(|column| alike.contains(column));
    }
    let items = chosen.iter().map(|column| {
        let key = column.name.to_lowercase();
        let expr = values.remove(&key).cloned().unwrap_or_else(|| named(column));
        let alias = names.remove(&key).cloned();
        let alias = alias.unwrap_or_else(|| Ident::with_quote('"', &column.name));
        SelectItem::ExprWithAlias { expr, alias }
    });
    let items = items.collect();
    if let Some(name) = names.keys().chain(values.keys()).next() {
        return plan_err!("* RENAME and REPLACE: no column named {name}");
    }
    Ok(items)
}

/// The choice of `* ILIKE 'pattern'`.
fn alike(pattern: &str) -> Choice {
    let name = Ident::new("name");
    let condition = Expr::ILike {
        negated: false,
        any: false,
        expr: Box::new(Expr::Identifier(name.clone())),
        pattern: Box::new(Expr::Value(Value::SingleQuotedString(pattern.to_owned()).into())),
        escape_char: None,
    };
    let condition = Box::new(condition);
    Choice::Condition { name, condition }
}

/// The fields of a struct: of a column, or of a field of one.
fn fields(name: &ObjectName, options: &WildcardAdditionalOptions, columns: &DFSchema) -> Result<Vec<SelectItem>> {
    let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
    let all = columns.columns();
    let is = |part: &Ident, name: &str| part.value.eq_ignore_ascii_case(name);
    let found = all.iter().find_map(|column| {
        let of = column.relation.as_ref();
        match parts.as_slice() {
            [first, rest @ ..] if is(first, &column.name) => Some((column, rest)),
            [table, first, rest @ ..] if is(first, &column.name) && of.is_some_and(|of| is(table, of.table())) => {
                Some((column, rest))
            }
            _ => None,
        }
    });
    let Some((column, path)) = found else {
        return plan_err!("{name}.*: there is no table and no struct of this name");
    };
    let mut value = named(column);
    let mut data_type = columns.qualified_field_from_column(column)?.1.data_type();
    for part in path {
        let DataType::Struct(fields) = data_type else { break };
        let Some(field) = fields.iter().find(|field| is(part, field.name())) else {
            return plan_err!("{name}.*: there is no field named {part}");
        };
        value = field_of(value, field.name());
        data_type = field.data_type();
    }
    let DataType::Struct(fields) = data_type else {
        return plan_err!("{name}.*: {name} is no table and no struct, but {data_type}");
    };
    let exclude = excluded(options).unwrap_or_default();
    let fields = fields
        .iter()
        .filter(|field| !exclude.iter().any(|name| name.eq_ignore_ascii_case(field.name())));
    Ok(fields
        .map(|field| SelectItem::ExprWithAlias {
            expr: field_of(value.clone(), field.name()),
            alias: Ident::with_quote('"', field.name()),
        })
        .collect())
}

fn field_of(value: Expr, field: &str) -> Expr {
    let field = Expr::Value(Value::SingleQuotedString(field.to_owned()).into());
    call("get_field", vec![value, field])
}

/// The name of a column.
fn named(column: &Column) -> Expr {
    let name = Ident::with_quote('"', &column.name);
    match &column.relation {
        Some(relation) => {
            let mut parts: Vec<Ident> = relation
                .to_vec()
                .into_iter()
                .map(|part| Ident::with_quote('"', part))
                .collect();
            parts.push(name);
            Expr::CompoundIdentifier(parts)
        }
        None => Expr::Identifier(name),
    }
}
