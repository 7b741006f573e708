//! Tables: [`TableSpec`], a table that the command line names, and the tables that a session has.

use std::sync::Arc;

use clap::CommandFactory;
use datafusion::catalog::TableProvider;
use datafusion::common::utils::quote_identifier;
use datafusion::common::{TableReference, plan_err};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use futures::FutureExt;
use grampus::error::without_secrets;
use grampus::sql_type_name;

use crate::args::Cli;
use crate::exit_error::{ErrorReport, ExitError};
use crate::wording::nearest;

/// A table to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableSpec {
    pub(crate) name: String,
    pub(crate) location: String,
}

/// The tables of plain paths and of `--table`.
pub(crate) fn specs(paths: &[String], tables: &[String]) -> std::result::Result<Vec<TableSpec>, ExitError> {
    let mut specs = Vec::with_capacity(paths.len() + tables.len());
    for path in paths {
        if is_statement(path) {
            return Err(statement_as_path(path));
        }
        let exists = path.contains(['*', '?', '[']) || path.contains("://") || std::path::Path::new(path).exists();
        if !exists {
            return Err(missing(path));
        }
        specs.push(TableSpec {
            name: name_of(path)?,
            location: path.clone(),
        });
    }
    for table in tables {
        let (name, location) = match table.split_once('=') {
            Some((name, location)) if !name.contains(['/', '*']) => (name.to_owned(), location.to_owned()),
            _ => (name_of(table)?, table.clone()),
        };
        if name.is_empty() || location.is_empty() {
            let report = ErrorReport::new(format!("--table {table} names no table or no path"));
            return Err(ExitError::Usage(report.hint("write --table name=PATH")));
        }
        specs.push(TableSpec { name, location });
    }
    for (place, spec) in specs.iter().enumerate() {
        if specs[..place].iter().any(|other| other.name == spec.name) {
            let report = ErrorReport::new(format!("two tables would be called {}", spec.name));
            return Err(ExitError::Usage(report.hint("name them: --table name=PATH")));
        }
    }
    Ok(specs)
}

/// Whether a path is a statement whose `-c` was left out.
fn is_statement(path: &str) -> bool {
    const BEGINNINGS: [&str; 21] = [
        "SELECT",
        "WITH",
        "FROM",
        "VALUES",
        "SUMMARIZE",
        "DESCRIBE",
        "DESC",
        "SHOW",
        "EXPLAIN",
        "CREATE",
        "DROP",
        "INSERT",
        "UPDATE",
        "DELETE",
        "COPY",
        "SET",
        "RESET",
        "PRAGMA",
        "PIVOT",
        "TABLE",
        "ATTACH",
    ];
    let Some((first, _)) = path.trim().split_once(char::is_whitespace) else {
        return false;
    };
    BEGINNINGS.iter().any(|word| word.eq_ignore_ascii_case(first)) && !std::path::Path::new(path).exists()
}

fn statement_as_path(path: &str) -> ExitError {
    let path = without_secrets(path.trim());
    let report = ErrorReport::new(format!("a statement is no file: {path}"));
    ExitError::Usage(match path.contains(['"', '$', '`', '!']) {
        true => report.hint("write -c before it"),
        false => report.hint(format!("write -c before it: grampus -c \"{path}\"")),
    })
}

fn missing(path: &str) -> ExitError {
    let commands = Cli::command();
    let names: Vec<&str> = commands.get_subcommands().map(|command| command.get_name()).collect();
    if path.contains(['.', '/']) {
        return ExitError::Usage(ErrorReport::new(format!("no such file: {path}")));
    }
    let report = ErrorReport::new(format!("no such file or command: {path}"));
    ExitError::Usage(match nearest(path, names.into_iter()) {
        Some(near) => report.hint(format!("did you mean grampus {near}?")),
        None => report.hint("grampus --help lists the commands"),
    })
}

/// A table name made of a path: `data/Trips-2019.orc` is `trips_2019`.
fn name_of(path: &str) -> std::result::Result<String, ExitError> {
    let trimmed = path.trim_end_matches('/');
    let named = trimmed
        .rsplit('/')
        .find(|part| !part.is_empty() && !part.contains(['*', '?', '[', '=', ':']));
    let stem = named
        .map(|part| part.split('.').find(|part| !part.is_empty()).unwrap_or(part))
        .unwrap_or("");
    let mut name: String = stem
        .chars()
        .map(|c| {
            if c.is_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .collect();
    if name.chars().all(|c| c == '_') {
        let report = ErrorReport::new(format!("{path} gives no name for the table"));
        return Err(ExitError::Usage(report.hint(format!("name it: --table name='{path}'"))));
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert_str(0, "t_");
    }
    Ok(name)
}

/// The names of all tables except those of the information schema, sorted.
pub(crate) fn names(context: &SessionContext) -> Vec<String> {
    let mut names = Vec::new();
    for catalog_name in context.catalog_names() {
        let Some(catalog) = context.catalog(&catalog_name) else {
            continue;
        };
        for schema_name in catalog.schema_names() {
            let Some(schema) = catalog.schema(&schema_name) else {
                continue;
            };
            if schema_name == "information_schema" {
                continue;
            }
            let is_default = catalog_name == "datafusion" && schema_name == "public";
            names.extend(schema.table_names().into_iter().map(|table| match is_default {
                true => table,
                false => format!("{catalog_name}.{schema_name}.{table}"),
            }));
        }
    }
    names.sort();
    names
}

/// The table, if it exists and its catalog answers without waiting. The catalogs of a session do. The name is one of
/// [`names`], or as SQL writes it.
pub(crate) fn provider(context: &SessionContext, name: &str) -> Option<Arc<dyn TableProvider>> {
    let found = |reference: TableReference| context.table_provider(reference).now_or_never()?.ok();
    found(exact(name)).or_else(|| found(name.into()))
}

/// One of [`names`], in its letter case.
fn exact(name: &str) -> TableReference {
    let parts: Vec<&str> = name.splitn(3, '.').collect();
    match parts.as_slice() {
        [catalog, schema, table] => TableReference::full(*catalog, *schema, *table),
        _ => TableReference::bare(name),
    }
}

/// The statements that make a table, or all tables.
///
/// # Errors
/// If there is no such table.
pub(crate) fn definitions(context: &SessionContext, table: Option<&str>) -> Result<String> {
    let names = table.map_or_else(|| names(context), |table| vec![table.to_owned()]);
    let mut text = String::new();
    for name in names {
        let Some(provider) = provider(context, &name) else {
            return plan_err!("table '{name}' not found");
        };
        let definition = provider.get_table_definition().map_or_else(
            || table_of_columns(&name, provider.as_ref()),
            |definition| definition.trim_end_matches(';').to_owned(),
        );
        text.push_str(&format!("{definition};\n"));
    }
    Ok(text)
}

/// A statement that makes a table with the same columns.
fn table_of_columns(name: &str, provider: &dyn TableProvider) -> String {
    let schema = provider.schema();
    let columns = schema.fields().iter().map(|field| {
        let null = if field.is_nullable() { "" } else { " NOT NULL" };
        let (name, data_type) = (quote_identifier(field.name()), sql_type_name(field.data_type()));
        format!("{name} {data_type}{null}")
    });
    let columns: Vec<String> = columns.collect();
    let name = exact(name).to_quoted_string();
    format!("CREATE TABLE {name} ({})", columns.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_paths() {
        for (path, name) in [
            ("trips.orc", "trips"),
            ("data/Trips-2019.zstd.orc", "trips_2019"),
            ("data/trips/", "trips"),
            ("data/trips/*.orc", "trips"),
            ("data/trips/year=2019/*.orc", "trips"),
            ("s3://bucket/2019.orc", "t_2019"),
        ] {
            assert_eq!(name_of(path).unwrap(), name, "{path}");
        }
        assert!(name_of("*.orc").is_err());
        assert!(name_of("..").is_err());
    }

    #[test]
    fn specs_split_at_the_first_equals_sign() {
        let specs = specs(&[], &["t=a/year=2019/*.orc".into(), "b/zones.orc".into()]).unwrap();
        assert_eq!(
            (specs[0].name.as_str(), specs[0].location.as_str()),
            ("t", "a/year=2019/*.orc")
        );
        assert_eq!(
            (specs[1].name.as_str(), specs[1].location.as_str()),
            ("zones", "b/zones.orc")
        );
    }

    #[test]
    fn tables_with_one_name_are_refused() {
        assert!(specs(&[], &["t=a.orc".into(), "t=b.orc".into()]).is_err());
    }
}
