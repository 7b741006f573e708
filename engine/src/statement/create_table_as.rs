//! `CREATE EXTERNAL TABLE t STORED AS ORC LOCATION 'folder/' AS SELECT …`: a table of a query's rows in new files.
//!
//! DataFusion's parser knows no query there. What comes before the query is the statement's head. The parser reads the
//! query alone, which is marked with its head afterwards ([`mark`]). [`statement_to_plan`] plans an insertion into a
//! [`NewTable`]. The catalog has the table when all its files are complete, and not before.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, DFSchema, plan_datafusion_err, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    CreateExternalTable, DdlStatement, DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, WriteOp, cast,
};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::new_table::NewTable;
use super::text::{Place, begins_query, is_keyword, offset};
use super::{confinement, query_mark, secrets, summary};
use crate::datafusion_repairs::using_keys::{QualifiedNames, merge_keys};
use crate::datafusion_repairs::written_numbers;
use crate::orc_table::OrcTable;
use crate::redaction::without_passwords;
use crate::table::listing::is_hidden_name;

/// The name of the mark.
const MARK: &str = "create_table_as";

/// The head of a statement of these tokens, and the place behind it, if the statement has a head.
pub(super) fn head(text: &str, tokens: &[&TokenWithSpan]) -> Option<(String, Place)> {
    let keyword = |at: usize, keyword| tokens.get(at).is_some_and(|token| is_keyword(&token.token, keyword));
    let create = tokens.first().filter(|_| keyword(0, Keyword::CREATE))?;
    let after = if keyword(1, Keyword::OR) && keyword(2, Keyword::REPLACE) {
        3
    } else {
        1
    };
    let is_external = keyword(after, Keyword::EXTERNAL);
    let table = after + usize::from(is_external);
    if !keyword(table, Keyword::TABLE) {
        return None;
    }
    let (mut depth, mut has_location) = (0, false);
    for at in table + 1..tokens.len() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ if depth > 0 => {}
            token if is_keyword(token, Keyword::LOCATION) => has_location = true,
            token if is_keyword(token, Keyword::AS) && !keyword(at - 1, Keyword::STORED) => {
                let query = tokens.get(at + 1).filter(|next| begins_query(&next.token))?;
                // Without a place for files, DataFusion makes a table in memory.
                if !has_location {
                    return None;
                }
                let [start, name, end] =
                    [create, tokens[table], tokens[at]].map(|token| offset(text, token.span.start));
                let word = if is_external { "" } else { "EXTERNAL " };
                let head = format!("{}{word}{}", &text[start..name], &text[name..end]);
                return Some((head, query.span.start));
            }
            _ => {}
        }
    }
    None
}

/// Marks a query with the head of its statement.
pub(super) fn mark(statement: &mut Statement, head: &str) {
    query_mark::mark(statement, MARK, Some(head));
}

/// The head of a marked query, which the mark is taken off.
fn take_head(statement: &mut Statement) -> Option<String> {
    query_mark::take(statement, MARK)?
}

/// Refuses a marked statement that `options` do not allow.
///
/// # Errors
/// If the options allow no statement that makes a table.
pub(super) async fn verify(state: &SessionState, statement: &Statement, options: &SQLOptions) -> Result<()> {
    let Some(head) = take_head(&mut statement.clone()) else {
        return Ok(());
    };
    let command = Box::new(command(state, &head).await?);
    options.verify_plan(&LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)))
}

/// The plan of a statement, which may be marked.
///
/// # Errors
/// As [`SessionState::statement_to_plan`]; if the table exists, its location has files, or its format has no type for a
/// column.
pub(super) async fn statement_to_plan(state: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    let head = take_head(&mut statement);
    let named = QualifiedNames::of(&statement);
    let mut query = summary::statement_to_plan(state, statement).await?;
    if written_numbers::is_repaired(state) {
        query = merge_keys(query, &named)?;
    }
    match head {
        Some(head) => creation(state, command(state, &head).await?, query).await,
        None => Ok(query),
    }
}

/// The command of a head.
async fn command(state: &SessionState, head: &str) -> Result<CreateExternalTable> {
    let dialect = state.config_options().sql_parser.dialect;
    let mut statement = state.sql_to_statement(head, &dialect)?;
    secrets::hide(state, &mut statement);
    let plan = state.statement_to_plan(statement).await?;
    confinement::check_plan(state, &plan)?;
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)) => Ok(*command),
        _ => plan_err!("CREATE EXTERNAL TABLE … AS: no table of files"),
    }
}

/// Inserts the rows of a query into a new table.
async fn creation(state: &SessionState, mut command: CreateExternalTable, query: LogicalPlan) -> Result<LogicalPlan> {
    let catalog = state.schema_for_ref(command.name.clone())?;
    let exists = catalog.table_exist(command.name.table());
    if exists && command.if_not_exists {
        return LogicalPlanBuilder::empty(false).build();
    }
    if exists && !command.or_replace {
        return plan_err!("the table {} exists: CREATE OR REPLACE replaces it", command.name);
    }
    if !command.schema.fields().is_empty() {
        return plan_err!("CREATE EXTERNAL TABLE … AS: the columns are those of the query; leave out the column list");
    }
    for name in &mut command.table_partition_cols {
        // DataFusion keeps the letter case of unquoted names here.
        if query.schema().field_with_unqualified_name(name).is_err() {
            *name = name.to_lowercase();
        }
    }
    command.schema = Arc::new(DFSchema::try_from(columns(&command, &query)?)?);
    let format = command.file_type.to_uppercase();
    let factory = state.table_factories().get(&format);
    let factory = factory.ok_or_else(|| plan_datafusion_err!("STORED AS {format}: there is no such format"))?;
    let table = factory.create(state, &command).await?;
    refuse_files(state, &command, table.as_ref()).await?;
    let mut rows = Vec::with_capacity(table.schema().fields().len());
    for field in table.schema().fields() {
        let (relation, found) = query.schema().qualified_field_with_unqualified_name(field.name())?;
        let column = Expr::Column(Column::from((relation, found)));
        // Writers convert the others.
        rows.push(match command.table_partition_cols.contains(field.name()) {
            true => cast(column, field.data_type().clone()).alias(field.name()),
            false => column.alias(field.name()),
        });
    }
    let rows = LogicalPlanBuilder::from(query).project(rows)?.build()?;
    let new = NewTable {
        name: command.name.table().to_owned(),
        catalog,
        table,
    };
    Ok(LogicalPlan::Dml(DmlStatement::new(
        command.name,
        provider_as_source(Arc::new(new)),
        WriteOp::Insert(InsertOp::Append),
        Arc::new(rows),
    )))
}

/// The query's columns. Those of folders come last.
fn columns(command: &CreateExternalTable, query: &LogicalPlan) -> Result<Schema> {
    let mut names = HashSet::new();
    for field in query.schema().fields() {
        if !names.insert(field.name()) {
            return plan_err!(
                "two columns of the query are named {}: give one another name",
                field.name()
            );
        }
    }
    if let Some(name) = command.table_partition_cols.iter().find(|name| !names.contains(name)) {
        return plan_err!("PARTITIONED BY ({name}): the query has no such column");
    }
    let of_folders = |name: &String| command.table_partition_cols.iter().position(|column| column == name);
    let mut fields: Vec<&Arc<Field>> = query.schema().fields().iter().collect();
    fields.sort_by_key(|field| of_folders(field.name()).map_or(0, |at| at + 1));
    let nullable = |field: &&Arc<Field>| field.as_ref().clone().with_nullable(true);
    Ok(Schema::new(fields.iter().map(nullable).collect::<Vec<_>>()))
}

/// Refuses a location with files: their rows would be in the table.
async fn refuse_files(state: &SessionState, command: &CreateExternalTable, table: &dyn TableProvider) -> Result<()> {
    let location = command.locations.join(", ");
    let has_files = match table.downcast_ref::<OrcTable>() {
        Some(table) => !table.files(state).await?.is_empty(),
        None => std::fs::read_dir(Path::new(&location)).is_ok_and(|mut entries| {
            entries.any(|entry| entry.is_ok_and(|entry| !is_hidden_name(&entry.file_name().to_string_lossy())))
        }),
    };
    match has_files {
        true => plan_err!(
            "{} has files: CREATE EXTERNAL TABLE … AS needs a new or empty folder; INSERT INTO adds rows to a table",
            without_passwords(&location)
        ),
        false => Ok(()),
    }
}
