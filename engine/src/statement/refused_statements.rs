//! [`refuse`]: statements that the SQL parser reads and nothing runs, with what to write instead.

use datafusion::common::not_impl_err;
use datafusion::error::Result;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{ObjectName, Statement as SqlStatement};

/// Refuses such a statement.
///
/// # Errors
/// If it is one.
pub(super) fn refuse(statement: &Statement) -> Result<()> {
    let Statement::Statement(statement) = statement else {
        return Ok(());
    };
    match instead_of(statement) {
        Some((what, hint)) => not_impl_err!("{what}: {hint}"),
        None => Ok(()),
    }
}

/// What the statement is called, and what to write instead.
fn instead_of(statement: &SqlStatement) -> Option<(&'static str, &'static str)> {
    Some(match statement {
        SqlStatement::StartTransaction { .. } => (
            "BEGIN",
            "each statement is a transaction of its own; leave BEGIN, COMMIT and ROLLBACK out",
        ),
        SqlStatement::Commit { .. }
        | SqlStatement::Rollback { .. }
        | SqlStatement::Savepoint { .. }
        | SqlStatement::ReleaseSavepoint { .. } => (
            "COMMIT, ROLLBACK and SAVEPOINT",
            "each statement is a transaction of its own; leave them out",
        ),
        SqlStatement::Merge(_) => (
            "MERGE",
            "compute the new rows by a FULL JOIN, and write them by INSERT OVERWRITE t SELECT …",
        ),
        SqlStatement::AlterTable(_) => (
            "ALTER TABLE",
            "files keep their columns; write CREATE VIEW, or CREATE EXTERNAL TABLE … AS SELECT …",
        ),
        SqlStatement::Drop { names, .. } if names.iter().any(is_path) => (
            "DROP of a file",
            "a path is no table of the session, and its files stay; delete them by the system's means",
        ),
        SqlStatement::Truncate(_) => ("TRUNCATE", "write INSERT OVERWRITE t SELECT * FROM t WHERE false"),
        SqlStatement::CreateIndex(_) => (
            "CREATE INDEX",
            "files keep minima, maxima and Bloom filters of their row groups; docs/TABLES.md has the options",
        ),
        SqlStatement::CreateSequence { .. } => ("CREATE SEQUENCE", "number rows by row_number() OVER ()"),
        SqlStatement::CreateType { .. } => ("CREATE TYPE", "write VARCHAR for an ENUM, and STRUCT(…) for a struct"),
        SqlStatement::Comment { .. } => ("COMMENT", "files keep no comments; leave it out"),
        SqlStatement::AttachDatabase { .. }
        | SqlStatement::AttachDuckDBDatabase { .. }
        | SqlStatement::DetachDuckDBDatabase { .. } => (
            "ATTACH and DETACH",
            "name files in FROM, or make a table of them by CREATE EXTERNAL TABLE",
        ),
        SqlStatement::Use(_) => ("USE", "write the schema before the table: schema.table"),
        SqlStatement::Pragma { .. } => (
            "PRAGMA",
            "DESCRIBE t shows the columns of a table, SHOW ALL the settings, SET name = value sets one",
        ),
        SqlStatement::Install { .. } | SqlStatement::Load { .. } => {
            ("INSTALL and LOAD", "there are no extensions to load; leave it out")
        }
        SqlStatement::CreateSecret { .. } | SqlStatement::DropSecret { .. } => (
            "secrets",
            "give them by OPTIONS of CREATE EXTERNAL TABLE, or by the environment; docs/TABLES.md has the names",
        ),
        SqlStatement::Analyze(_) | SqlStatement::Vacuum(_) | SqlStatement::OptimizeTable { .. } => (
            "ANALYZE, VACUUM and OPTIMIZE",
            "files keep their statistics; leave it out",
        ),
        SqlStatement::ShowDatabases { .. } | SqlStatement::ShowSchemas { .. } | SqlStatement::ShowCatalogs { .. } => (
            "SHOW DATABASES, SCHEMAS and CATALOGS",
            "SELECT DISTINCT table_catalog, table_schema FROM information_schema.tables",
        ),
        SqlStatement::CreateTrigger(_)
        | SqlStatement::CreateProcedure { .. }
        | SqlStatement::CreateRole(_)
        | SqlStatement::CreateUser(_)
        | SqlStatement::Grant(_)
        | SqlStatement::Revoke(_)
        | SqlStatement::Call(_) => ("triggers, procedures, roles and grants", "there are none"),
        SqlStatement::Insert(insert) if insert.on.is_some() || insert.or.is_some() || insert.ignore => (
            "INSERT with ON CONFLICT, OR REPLACE or OR IGNORE",
            "no column is unique; leave out rows by WHERE NOT EXISTS (…) in the query",
        ),
        SqlStatement::Insert(insert) if insert.replace_into => (
            "REPLACE INTO",
            "no column is unique; compute the new rows, and write them by INSERT OVERWRITE t SELECT …",
        ),
        SqlStatement::Insert(insert) if insert.returning.is_some() => RETURNING,
        SqlStatement::Update(update) if update.returning.is_some() => RETURNING,
        SqlStatement::Delete(delete) if delete.returning.is_some() => RETURNING,
        _ => return None,
    })
}

/// Whether a name is a text in single quotation marks, as paths are.
fn is_path(name: &ObjectName) -> bool {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|ident| ident.quote_style == Some('\''))
}

const RETURNING: (&str, &str) = ("RETURNING", "query the rows in a statement of its own");

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    #[test]
    fn refusals_say_what_to_write() {
        for (sql, word) in [
            ("BEGIN", "leave BEGIN"),
            ("COMMIT", "leave them out"),
            ("ALTER TABLE t ADD COLUMN a INT", "CREATE VIEW"),
            (
                "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
                "INSERT OVERWRITE",
            ),
            ("CREATE SEQUENCE s", "row_number()"),
            ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "NOT EXISTS"),
            ("INSERT INTO t VALUES (1) RETURNING a", "of its own"),
            ("PRAGMA table_info('t')", "DESCRIBE"),
            ("DROP TABLE 'x.orc'", "files stay"),
        ] {
            let statement = DFParser::parse_sql(sql).expect(sql).pop_front().expect("a statement");
            let error = refuse(&statement).expect_err(sql).to_string();
            assert!(error.contains(word), "{sql}: {error}");
        }
        let statement = DFParser::parse_sql("INSERT INTO t VALUES (1)")
            .expect("SQL")
            .pop_front();
        refuse(&statement.expect("a statement")).expect("an INSERT");
    }
}
