//! Names in statements: unquoted names of tables and columns match in any letter case.
//!
//! DataFusion reads an unquoted name in lower case and compares it exactly. Columns of real files are often named
//! `VendorID`. Therefore a statement is planned as follows:
//!
//! 1. A table that the catalog lacks is looked for in any letter case ([`match_tables`]).
//! 2. DataFusion plans the statement. A statement that it can plan keeps the meaning that DataFusion gives it.
//! 3. If DataFusion finds no column of a name, the columns that are valid at that place are compared in any letter
//!    case. If exactly one is alike, the name is replaced by its quoted spelling there, and step 2 follows
//!    ([`plan_with_matched_columns`]).
//! 4. If none is alike, the name may be an alias of the select list ([`aliases`]).
//!
//! Quoted names are never changed.

use std::ops::ControlFlow;

use datafusion::common::{Column, Location, SchemaError, TableReference, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, Select, SelectItem,
    Statement as SqlStatement, VisitorMut, WildcardAdditionalOptions,
};
use futures::future::BoxFuture;

use super::create_table_as::statement_to_plan;
use super::described::with_sql_types;
use super::expressions::visit;
use super::json_forms::JsonForms;
use super::scalar_forms::ScalarForms;
use super::select_forms::SelectForms;
use super::table_spellings::{RenameTable, is_name, is_relation, last, respell};
use super::{
    aliases, confinement, ignored_clauses, insert_by_name, macros, order_by_all, percent_limits, pivot_values,
    read_functions, refused_statements, user_macros, wildcards,
};
use crate::datafusion_repairs::written_numbers::keep_digits;

/// Replacements of names in one statement. Each of them needs one more planning.
const MAX_REPLACEMENTS: usize = 1000;

/// Gives tables the spelling that the catalog has, and queries the [`SelectForms`] that DataFusion plans. Functions of
/// [`macros`] become expressions. Returns the names that the catalog lacks.
///
/// # Errors
/// If a name matches several tables in other letter cases, and as [`macros::expand`].
pub(super) fn match_tables(state: &SessionState, statement: &mut Statement) -> Result<Vec<TableReference>> {
    let mut respelt = Vec::new();
    confinement::check_statement(state, statement)?;
    user_macros::expand(state, statement)?;
    refused_statements::refuse(statement)?;
    ignored_clauses::refuse(state, statement)?;
    insert_by_name::name_columns(statement)?;
    visit(statement, &mut ScalarForms);
    visit(statement, &mut SelectForms);
    visit(statement, &mut JsonForms);
    read_functions::name_calls(state, statement);
    macros::expand(state, statement)?;
    let mut named = state.resolve_table_references(statement)?;
    named.extend(dropped(state, statement)?);
    for reference in named {
        let Some(spelling) = catalog_spelling(state, &reference)? else {
            continue;
        };
        let mut rename = RenameTable {
            name: reference.table(),
            spelling: &spelling,
            ctes: Vec::new(),
        };
        rename.targets(statement);
        visit(statement, &mut rename);
        respelt.push(reference);
    }
    Ok(respelt)
}

/// As [`plan_with_matched_columns`].
pub(super) fn plan(state: &SessionState, statement: Statement) -> BoxFuture<'_, Result<LogicalPlan>> {
    Box::pin(plan_with_matched_columns(state, statement))
}

/// As [`match_tables`] and [`plan_with_matched_columns`].
pub(super) fn plan_all(state: &SessionState, mut statement: Statement) -> BoxFuture<'_, Result<LogicalPlan>> {
    Box::pin(async move {
        match_tables(state, &mut statement)?;
        plan_with_matched_columns(state, statement).await
    })
}

/// The plan of a statement, in which unquoted columns match in any letter case, and literals keep their digits.
///
/// # Errors
/// As [`SessionState::statement_to_plan`], and if a name matches several columns in other letter cases.
pub(super) async fn plan_with_matched_columns(state: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    pivot_values::list(state, &mut statement, plan).await?;
    wildcards::expand(state, &mut statement, plan).await?;
    order_by_all::number(state, &mut statement, plan).await?;
    visit(&mut statement, &mut keep_digits(state));
    let mut error = match statement_to_plan(state, statement.clone()).await {
        Err(error) if unknown_column(&error).is_some() => error,
        outcome => return outcome.and_then(|plan| finished(state, plan)),
    };
    // The place of the unknown name is known only to a planner that collects places.
    let mut state = state.clone();
    state.config_mut().options_mut().sql_parser.collect_spans = true;
    for _ in 0..MAX_REPLACEMENTS {
        let Some((field, valid)) = unknown_column(&error) else {
            return Err(error);
        };
        let elsewhere;
        let place = field
            .spans
            .first()
            .or_else(|| error.diagnostic().and_then(|found| found.span));
        let place = place.map(|span| span.start);
        let column = match only_match(field, valid)? {
            Some(column) => column,
            None if field.relation.is_none() && aliases::insert(&state, &mut statement, &field.name, place)? => {
                error = match statement_to_plan(&state, statement.clone()).await {
                    Err(error) => error,
                    planned => return planned.and_then(|plan| finished(&state, plan)),
                };
                continue;
            }
            // The column of an outer query is not among the valid ones.
            None => {
                elsewhere = columns_of_tables(&state, &statement).await?;
                match only_match(field, &elsewhere)? {
                    Some(column) => column,
                    None => return Err(error),
                }
            }
        };
        let mut rename = RenameColumn::new(field, column, place);
        visit(&mut statement, &mut rename);
        if rename.replaced == 0 {
            rename.place = None;
            rename.statement(&mut statement);
            visit(&mut statement, &mut rename);
        }
        if rename.replaced == 0 {
            return Err(error);
        }
        error = match statement_to_plan(&state, statement.clone()).await {
            Err(error) => error,
            planned => return planned.and_then(|plan| finished(&state, plan)),
        };
    }
    Err(error)
}

fn finished(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    confinement::check_plan(state, &plan)?;
    percent_limits::plan(with_sql_types(plan)?)
}

/// The table or view that a statement drops. DataFusion does not count it among the tables that a statement names.
fn dropped(state: &SessionState, statement: &Statement) -> Result<Option<TableReference>> {
    let Statement::Statement(statement) = statement else {
        return Ok(None);
    };
    match statement.as_ref() {
        SqlStatement::Drop { object_type, names, .. } if is_relation(object_type) => {
            let normalizes = state.config_options().sql_parser.enable_ident_normalization;
            let name = names.first().cloned();
            name.map(|name| object_name_to_table_reference(name, normalizes))
                .transpose()
        }
        _ => Ok(None),
    }
}

/// The catalog's spelling of a table that it has in another letter case only; `None`: it has the table, or none alike.
fn catalog_spelling(state: &SessionState, reference: &TableReference) -> Result<Option<String>> {
    let Ok(schema) = state.schema_for_ref(reference.clone()) else {
        return Ok(None);
    };
    if schema.table_exist(reference.table()) {
        return Ok(None);
    }
    let mut alike = schema.table_names();
    alike.retain(|name| name.to_lowercase() == reference.table());
    alike.sort();
    match alike.len() {
        0 | 1 => Ok(alike.pop()),
        _ => plan_err!(
            "table {} is one of {}: quote the name that you mean",
            reference.table(),
            quoted(&alike)
        ),
    }
}

/// The column that a planner does not know, and the columns that are valid in its place.
fn unknown_column(error: &DataFusionError) -> Option<(&Column, &[Column])> {
    match error.find_root() {
        DataFusionError::SchemaError(inner, _) => match inner.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => Some((field, valid_fields)),
            _ => None,
        },
        _ => None,
    }
}

/// The columns of all tables that a statement names, qualified as a query qualifies them if it gives no alias.
async fn columns_of_tables(state: &SessionState, statement: &Statement) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    for reference in state.resolve_table_references(statement)? {
        let Ok(schema) = state.schema_for_ref(reference.clone()) else {
            continue;
        };
        if let Some(table) = schema.table(reference.table()).await? {
            let relation = TableReference::bare(reference.table().to_lowercase());
            let schema = table.schema();
            let fields = schema.fields().iter();
            columns.extend(fields.map(|field| Column::new(Some(relation.clone()), field.name())));
        }
    }
    Ok(columns)
}

/// The only valid column that `field` matches in another letter case.
fn only_match<'a>(field: &Column, valid: &'a [Column]) -> Result<Option<&'a Column>> {
    let is_alike = |column: &&Column| {
        let is_same_table = match (&field.relation, &column.relation) {
            (Some(wanted), Some(relation)) => wanted.table() == relation.table().to_lowercase(),
            (Some(_), None) => false,
            (None, _) => true,
        };
        is_same_table && column.name.to_lowercase() == field.name
    };
    let alike: Vec<&Column> = valid.iter().filter(is_alike).collect();
    let mut names: Vec<String> = alike.iter().map(|column| column.name.clone()).collect();
    names.sort();
    names.dedup();
    match names.len() {
        0 | 1 => Ok(alike.first().copied()),
        _ => plan_err!(
            "column {} is one of {}: quote the name that you mean",
            field.name,
            quoted(&names)
        ),
    }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}

/// Respells a column, and its table if that has another spelling too.
struct RenameColumn<'a> {
    /// Table, if the statement names it, and column, as DataFusion reads them.
    relation: Option<&'a str>,
    name: &'a str,
    /// The column meant.
    column: &'a Column,
    /// The place of the expression to respell; `None`: each one of the name.
    place: Option<Location>,
    /// Expressions respelt.
    replaced: usize,
}

impl<'a> RenameColumn<'a> {
    fn new(field: &'a Column, column: &'a Column, place: Option<Location>) -> Self {
        Self {
            relation: field.relation.as_ref().map(TableReference::table),
            name: &field.name,
            column,
            place,
            replaced: 0,
        }
    }

    fn is_here(&self, ident: &Ident) -> bool {
        let start = ident.span.start;
        self.place
            .is_none_or(|place| (place.line, place.column) == (start.line, start.column))
    }

    fn unqualified(&mut self, ident: &mut Ident) {
        if self.relation.is_none() && is_name(ident, self.name) && self.is_here(ident) {
            respell(ident, &self.column.name);
            self.replaced += 1;
        }
    }

    fn qualified(&mut self, idents: &mut [Ident]) {
        let is_here = idents.first().is_some_and(|first| self.is_here(first));
        let ([.., table, column], Some(relation)) = (idents, self.relation) else {
            return;
        };
        let is_table = is_name(table, relation) || table.value == relation;
        if !is_here || !is_table || !is_name(column, self.name) {
            return;
        }
        respell(column, &self.column.name);
        if let Some(spelling) = &self.column.relation
            && table.quote_style.is_none()
        {
            respell(table, spelling.table());
        }
        self.replaced += 1;
    }

    /// Respells the column in the places that have no expressions.
    fn statement(&mut self, statement: &mut Statement) {
        match statement {
            Statement::Statement(statement) => {
                if let SqlStatement::Insert(insert) = statement.as_mut() {
                    insert
                        .columns
                        .iter_mut()
                        .filter_map(last)
                        .for_each(|ident| self.unqualified(ident));
                }
            }
            Statement::Explain(explain) => self.statement(&mut explain.statement),
            Statement::CopyTo(_) | Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
        }
    }

    /// Respells the column in EXCEPT and EXCLUDE.
    fn wildcard(&mut self, options: &mut WildcardAdditionalOptions) {
        match &mut options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => {
                last(name).into_iter().for_each(|ident| self.unqualified(ident));
            }
            Some(ExcludeSelectItem::Multiple(names)) => {
                names
                    .iter_mut()
                    .filter_map(last)
                    .for_each(|ident| self.unqualified(ident));
            }
            None => {}
        }
        if let Some(ExceptSelectItem {
            first_element,
            additional_elements,
        }) = &mut options.opt_except
        {
            self.unqualified(first_element);
            additional_elements.iter_mut().for_each(|ident| self.unqualified(ident));
        }
    }
}

impl VisitorMut for RenameColumn<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => self.unqualified(ident),
            Expr::CompoundIdentifier(idents) => self.qualified(idents),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if self.place.is_some() {
            return ControlFlow::Continue(());
        }
        for item in &mut select.projection {
            if let SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) = item {
                self.wildcard(options);
            }
        }
        for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
            if let Some(JoinConstraint::Using(names)) = constraint(&mut join.join_operator) {
                names
                    .iter_mut()
                    .filter_map(last)
                    .for_each(|ident| self.unqualified(ident));
            }
        }
        ControlFlow::Continue(())
    }
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}
