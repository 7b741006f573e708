//! [`DotCommand`]: commands of the shells of SQLite and DuckDB, such as `.tables`, in terms of ours.
//!
//! A line that begins with a dot is one, where a statement could begin. Commands without a like get a hint.

use crate::exit_error::ErrorReport;
use crate::wording::nearest;

/// What a line that begins with a dot asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DotCommand {
    /// A line that begins with a backslash.
    Backslash(String),
    /// A statement.
    Sql(String),
    /// The statements that make a table, or all tables.
    Schema(Option<String>),
    /// What is set already.
    Nothing,
}

/// What is done in the place of a command.
enum Twin {
    /// A backslash command with the same arguments.
    Same(&'static str),
    Mode,
    Output,
    Tables,
    Schema,
    /// A statement.
    Sql(&'static str),
    /// Nothing, as long as the argument is this one. The hint says what to do otherwise.
    Always(&'static str, &'static str),
    /// Nothing: the hint says what to do.
    Hint(&'static str),
}

/// The commands. Of several with the same beginning, the beginning alone is the first one.
const COMMANDS: [(&str, Twin); 42] = [
    ("help", Twin::Same("\\?")),
    ("quit", Twin::Same("\\q")),
    ("exit", Twin::Same("\\q")),
    ("tables", Twin::Tables),
    ("schema", Twin::Schema),
    ("mode", Twin::Mode),
    ("read", Twin::Same("\\i")),
    ("output", Twin::Output),
    ("timer", Twin::Same("\\timing")),
    ("maxrows", Twin::Same("\\maxrows")),
    ("pager", Twin::Same("\\pager")),
    (
        "databases",
        Twin::Sql("SELECT DISTINCT catalog_name, schema_name FROM information_schema.schemata ORDER BY ALL"),
    ),
    (
        "headers",
        Twin::Always(
            "on",
            "names are always printed; COPY t TO 'x.csv' (header false) writes a file without",
        ),
    ),
    (
        "bail",
        Twin::Always("on", "scripts end at the first error, and the shell goes on"),
    ),
    ("echo", Twin::Always("off", "statements are not printed; -v says more")),
    (
        "changes",
        Twin::Always("on", "statements that write always say how many rows they wrote"),
    ),
    (
        "open",
        Twin::Hint("Grampus has no database file: SELECT … FROM 'x.orc', or start it with grampus x.orc"),
    ),
    (
        "import",
        Twin::Hint("write CREATE TABLE t AS SELECT * FROM 'x.csv', or COPY t FROM 'x.csv'"),
    ),
    ("export", Twin::Hint("write COPY t TO 'x.parquet'")),
    (
        "dump",
        Twin::Hint("write \\format insert t, then SELECT * FROM t; or COPY t TO 'x.orc'"),
    ),
    ("save", Twin::Hint("write COPY t TO 'x.orc'")),
    ("backup", Twin::Hint("write COPY t TO 'x.orc'")),
    ("restore", Twin::Hint("write CREATE TABLE t AS SELECT * FROM 'x.orc'")),
    ("clone", Twin::Hint("write COPY t TO 'x.orc'")),
    (
        "once",
        Twin::Hint("write \\o FILE before the statement, and \\o after it"),
    ),
    ("excel", Twin::Hint("write COPY (SELECT …) TO 'x.csv'")),
    (
        "separator",
        Twin::Hint("write \\format csv or tsv, or COPY t TO 'x.csv' (delimiter ';')"),
    ),
    ("nullvalue", Twin::Hint("write coalesce(column, 'text')")),
    (
        "width",
        Twin::Hint("columns have the width of their values; \\x prints each value on a line"),
    ),
    (
        "columns",
        Twin::Hint("\\x prints each value on a line; \\d TABLE lists the columns of a table"),
    ),
    ("rows", Twin::Hint("\\x prints each value on a line of its own")),
    (
        "indexes",
        Twin::Hint("ORC files have their indexes in them: grampus layout FILE"),
    ),
    (
        "explain",
        Twin::Hint("write EXPLAIN SELECT …, or EXPLAIN ANALYZE SELECT …"),
    ),
    ("eqp", Twin::Hint("write EXPLAIN SELECT …, or EXPLAIN ANALYZE SELECT …")),
    (
        "stats",
        Twin::Hint("\\io on says what each query read, EXPLAIN ANALYZE where its time went"),
    ),
    ("show", Twin::Hint("SHOW ALL lists the settings, \\? the commands")),
    ("print", Twin::Hint("write SELECT 'text'")),
    ("prompt", Twin::Hint("the prompt is always the same")),
    ("load", Twin::Hint("Grampus has no extensions")),
    ("cd", Twin::Hint("leave by \\q, and start grampus in the other folder")),
    ("shell", Twin::Hint("leave by \\q, or by Ctrl-Z for a while")),
    ("system", Twin::Hint("leave by \\q, or by Ctrl-Z for a while")),
];

/// Names that SQLite and DuckDB have for our formats.
const MODES: [(&str, &str); 9] = [
    ("duckbox", "table"),
    ("column", "table"),
    ("columns", "table"),
    ("tabs", "tsv"),
    ("tab", "tsv"),
    ("jsonlines", "ndjson"),
    ("lines", "line"),
    ("md", "markdown"),
    ("qbox", "box"),
];

/// Formats that we lack, with what to use.
const OTHER_MODES: [(&str, &str); 8] = [
    ("list", "csv"),
    ("ascii", "csv"),
    ("quote", "insert"),
    ("html", "markdown"),
    ("latex", "markdown"),
    ("tcl", "csv"),
    ("trash", "\\o /dev/null"),
    ("off", "\\o /dev/null"),
];

impl DotCommand {
    /// The names of all commands, with their dots.
    pub(crate) fn names() -> impl Iterator<Item = String> {
        COMMANDS.iter().map(|(name, _)| format!(".{name}"))
    }

    /// Parses a line that begins with a dot.
    pub(crate) fn parse(line: &str) -> Result<Self, ErrorReport> {
        let line = line.trim_end_matches(';').trim();
        let (typed, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim();
        let name = typed.trim_start_matches('.').to_ascii_lowercase();
        let is_exact = |known: &&(&str, Twin)| known.0 == name;
        let begins = |known: &&(&str, Twin)| !name.is_empty() && known.0.starts_with(&name);
        let found = COMMANDS.iter().find(is_exact).or_else(|| COMMANDS.iter().find(begins));
        let Some((name, twin)) = found else {
            return Err(unknown(typed));
        };
        Ok(match twin {
            Twin::Same(command) => Self::Backslash(format!("{command} {argument}")),
            Twin::Mode => Self::Backslash(format!("\\format {}", mode(argument)?)),
            Twin::Output if argument == "stdout" => Self::Backslash("\\o".to_owned()),
            Twin::Output => Self::Backslash(format!("\\o {argument}")),
            Twin::Tables if argument.is_empty() => Self::Backslash("\\d".to_owned()),
            Twin::Tables => {
                let pattern = argument.trim_matches(['\'', '"']).replace('\'', "''");
                Self::Sql(format!("SHOW TABLES LIKE '{pattern}'"))
            }
            Twin::Schema => {
                let table = argument.trim_matches(['\'', '"']);
                Self::Schema((!table.is_empty()).then(|| table.to_owned()))
            }
            Twin::Sql(statement) => Self::Sql((*statement).to_owned()),
            Twin::Always(state, hint) => match argument.eq_ignore_ascii_case(state) {
                true => Self::Nothing,
                false => return Err(ErrorReport::new(format!(".{name} is always {state}")).hint(*hint)),
            },
            Twin::Hint(hint) => return Err(ErrorReport::new(format!("there is no .{name}")).hint(*hint)),
        })
    }
}

/// The argument of `\format` for one of `.mode`.
fn mode(argument: &str) -> Result<String, ErrorReport> {
    let (name, table) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    let lower = name.to_ascii_lowercase();
    if let Some((name, instead)) = OTHER_MODES.iter().find(|(other, _)| *other == lower) {
        let instead = match instead.starts_with('\\') {
            true => (*instead).to_owned(),
            false => format!("\\format {instead}"),
        };
        return Err(ErrorReport::new(format!("no format named {name}")).hint(format!("write {instead}")));
    }
    let known = MODES.iter().find(|(other, _)| *other == lower);
    Ok(match known {
        Some((_, format)) => (*format).to_owned(),
        None => format!("{name} {table}").trim().to_owned(),
    })
}

fn unknown(typed: &str) -> ErrorReport {
    let report = ErrorReport::new(format!("no command named {typed}"));
    let names: Vec<String> = DotCommand::names().collect();
    match nearest(typed, names.iter().map(String::as_str)) {
        Some(near) => report.hint(format!("did you mean {near}? \\? lists the commands")),
        None => report.hint("\\? lists the commands"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backslash(line: &str) -> DotCommand {
        DotCommand::Backslash(line.to_owned())
    }

    #[test]
    fn commands_have_their_twins() {
        for (line, expected) in [
            (".tables", backslash("\\d")),
            (".Tables;", backslash("\\d")),
            (".tables t%", DotCommand::Sql("SHOW TABLES LIKE 't%'".to_owned())),
            (".mode markdown", backslash("\\format markdown")),
            (".mode DuckBox", backslash("\\format table")),
            (".mode insert trips", backslash("\\format insert trips")),
            (".mode", backslash("\\format ")),
            (".read 'a b.sql'", backslash("\\i 'a b.sql'")),
            (".timer on", backslash("\\timing on")),
            (".output", backslash("\\o ")),
            (".output stdout", backslash("\\o")),
            (".schema \"My Trips\"", DotCommand::Schema(Some("My Trips".to_owned()))),
            (".q", backslash("\\q ")),
            (".h", backslash("\\? ")),
            (".headers ON", DotCommand::Nothing),
        ] {
            let parsed = DotCommand::parse(line);
            let trimmed = |command| match command {
                DotCommand::Backslash(line) => backslash(line.trim_end()),
                other => other,
            };
            assert_eq!(parsed.map(trimmed), Ok(trimmed(expected)), "{line}");
        }
    }

    #[test]
    fn other_commands_have_hints() {
        for (line, hint) in [
            (".import x.csv t", "CREATE TABLE t AS SELECT * FROM 'x.csv'"),
            (".headers off", "names are always printed"),
            (".mode html", "\\format markdown"),
            (".tabels", "did you mean .tables?"),
            (".", "\\? lists the commands"),
            (".5", "\\? lists the commands"),
        ] {
            let error = DotCommand::parse(line).unwrap_err();
            assert!(error.hint.as_deref().unwrap_or("").contains(hint), "{line}: {error:?}");
        }
    }
}
