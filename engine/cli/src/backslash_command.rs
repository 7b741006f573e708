//! [`BackslashCommand`]: a request to the shell rather than to the data, such as `\d trips`.

use clap::ValueEnum;

use crate::args::{MaxRows, parse_max_rows};
use crate::exit_error::ErrorReport;
use crate::result_format::Format;
use crate::wording::nearest;

/// Each command: name, argument, meaning.
pub(crate) const COMMANDS: [(&str, &str, &str); 13] = [
    ("\\d", "[TABLE]", "list the tables, or the columns of one"),
    ("\\timing", "[on|off]", "say how long each query took"),
    ("\\io", "[on|off]", "say what each query read"),
    ("\\format", "[FORMAT]", "print results as table, markdown, csv, …"),
    ("\\x", "[on|off]", "print each value on a line of its own"),
    ("\\types", "[on|off]", "show types below the names of columns"),
    ("\\maxrows", "[N|all]", "print at most N rows of a table"),
    ("\\o", "[FILE]", "write results to FILE, until \\o alone"),
    ("\\pager", "[on|off]", "show long results in $GRAMPUS_PAGER or $PAGER"),
    ("\\i", "FILE", "run the SQL in FILE"),
    ("\\functions", "[PART]", "list the functions whose names contain PART"),
    ("\\?", "", "show this help"),
    ("\\q", "", "leave (also Ctrl-D)"),
];

/// A parsed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BackslashCommand {
    Quit,
    Help,
    ListTables,
    DescribeTable(String),
    Timing(Switch),
    Io(Switch),
    Expanded(Switch),
    Types(Switch),
    /// Without a format, the format is printed. The table is that of INSERT statements.
    Format {
        format: Option<Format>,
        table: Option<String>,
    },
    /// `None` prints the limit.
    MaxRows(Option<MaxRows>),
    /// `None` ends the file of an earlier command.
    Output(Option<String>),
    Pager(Switch),
    Include(String),
    /// Functions whose names contain this text, in lower case.
    ListFunctions(String),
}

/// The argument of a command that changes a yes-or-no setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    On,
    Off,
    /// No argument: the other state.
    Toggle,
}

impl Switch {
    /// The state after `now`.
    pub(crate) fn apply(self, now: bool) -> bool {
        match self {
            Self::On => true,
            Self::Off => false,
            Self::Toggle => !now,
        }
    }
}

impl BackslashCommand {
    /// Parses a line that begins with a backslash.
    pub(crate) fn parse(line: &str) -> Result<Self, ErrorReport> {
        let line = line.trim_end_matches(';').trim();
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim().trim_matches(['\'', '"']);
        Ok(match name {
            "\\q" | "\\quit" => Self::Quit,
            "\\?" | "\\h" | "\\help" => Self::Help,
            "\\d" | "\\dt" | "\\describe" if argument.is_empty() => Self::ListTables,
            "\\d" | "\\describe" => Self::DescribeTable(argument.to_owned()),
            "\\timing" => Self::Timing(switch("timing", argument)?),
            "\\io" => Self::Io(switch("io", argument)?),
            "\\x" => Self::Expanded(switch("x", argument)?),
            "\\types" => Self::Types(switch("types", argument)?),
            "\\format" => format(argument)?,
            "\\maxrows" if argument.is_empty() => Self::MaxRows(None),
            "\\maxrows" => Self::MaxRows(Some(parse_max_rows(argument).map_err(ErrorReport::new)?)),
            "\\o" => Self::Output((!argument.is_empty()).then(|| argument.to_owned())),
            "\\pager" => Self::Pager(switch("pager", argument)?),
            "\\i" if argument.is_empty() => return Err(ErrorReport::new("\\i needs a file")),
            "\\i" => Self::Include(argument.to_owned()),
            "\\functions" | "\\df" => Self::ListFunctions(argument.to_lowercase()),
            _ => return Err(unknown(name)),
        })
    }

    /// The command's name, if it opens or writes a file, or starts a program.
    pub(crate) fn of_files(&self) -> Option<&'static str> {
        match self {
            Self::Include(_) => Some("\\i"),
            Self::Output(Some(_)) => Some("\\o"),
            Self::Pager(Switch::On | Switch::Toggle) => Some("\\pager"),
            _ => None,
        }
    }

    /// The text of `\?`.
    pub(crate) fn help() -> String {
        let mut text =
            String::from("Statements end with a semicolon and may take several lines. Ctrl-C cancels a query.\n\n");
        for (name, argument, meaning) in COMMANDS {
            text.push_str(&format!("  {:<22} {meaning}\n", format!("{name} {argument}")));
        }
        text.push_str("\n  .tables, .mode, .schema, .read, .timer and others do what they do in DuckDB and SQLite.\n");
        text.push_str("\n  CREATE EXTERNAL TABLE trips STORED AS ORC LOCATION 'data/trips/';\n");
        text.push_str("  SUMMARIZE trips;    EXPLAIN ANALYZE SELECT …;\n");
        text.push_str("  SHOW ALL;           SET datafusion.execution.target_partitions = 4;\n");
        text
    }
}

/// Commands of psql, with what to write here.
const COMMANDS_OF_PSQL: [(&str, &str); 14] = [
    ("\\copy", "write COPY t TO 'x.csv', or COPY t FROM 'x.csv'"),
    ("\\l", "SHOW ALL TABLES lists the tables of all catalogs and schemas"),
    ("\\dn", "SHOW ALL TABLES lists the tables of all catalogs and schemas"),
    ("\\dv", "\\d lists tables and views"),
    ("\\di", "ORC files have their indexes in them: grampus layout FILE"),
    ("\\pset", "write \\format, \\x or \\maxrows"),
    ("\\a", "write \\format csv"),
    ("\\H", "write \\format markdown"),
    ("\\gx", "write \\x before the statement"),
    ("\\g", "end the statement with a semicolon"),
    ("\\echo", "write SELECT 'text'"),
    ("\\set", "write SET name = value; SHOW ALL lists the settings"),
    (
        "\\c",
        "Grampus has no database: SELECT … FROM 'x.orc', or start it with grampus x.orc",
    ),
    ("\\e", "Ctrl-R finds a statement, and the arrow keys change it"),
];

fn unknown(name: &str) -> ErrorReport {
    let names = COMMANDS.iter().map(|(name, _, _)| *name);
    let report = ErrorReport::new(format!("no command named {name}"));
    if let Some((_, hint)) = COMMANDS_OF_PSQL.iter().find(|(other, _)| *other == name) {
        return report.hint(*hint);
    }
    match nearest(name, names) {
        Some(near) => report.hint(format!("did you mean {near}? \\? lists the commands")),
        None => report.hint("\\? lists the commands"),
    }
}

fn switch(name: &str, argument: &str) -> Result<Switch, ErrorReport> {
    match argument.to_ascii_lowercase().as_str() {
        "" => Ok(Switch::Toggle),
        "on" | "true" | "1" => Ok(Switch::On),
        "off" | "false" | "0" => Ok(Switch::Off),
        _ => Err(ErrorReport::new(format!("\\{name} takes on or off, not {argument}"))),
    }
}

fn format(argument: &str) -> Result<BackslashCommand, ErrorReport> {
    let (name, table) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    let table = Some(table.trim()).filter(|table| !table.is_empty());
    if name.is_empty() {
        return Ok(BackslashCommand::Format {
            format: None,
            table: None,
        });
    }
    let format = Format::from_str(name, true).map_err(|_| {
        let names: Vec<String> = Format::value_variants().iter().map(|format| format.name()).collect();
        ErrorReport::new(format!("no format named {name}")).hint(format!("there are: {}", names.join(", ")))
    })?;
    if let Some(table) = table.filter(|_| format != Format::Insert) {
        let report = ErrorReport::new(format!("the format {name} takes no table: {table}"));
        return Err(report.hint("only \\format insert TABLE does"));
    }
    Ok(BackslashCommand::Format {
        format: Some(format),
        table: table.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_toggle_or_are_set() {
        let switch = |line: &str, now| match BackslashCommand::parse(line) {
            Ok(BackslashCommand::Io(switch)) => Some(switch.apply(now)),
            _ => None,
        };
        assert_eq!(switch("\\io", false), Some(true));
        assert_eq!(switch("\\io", true), Some(false));
        assert_eq!(switch("\\io OFF;", true), Some(false));
        assert_eq!(switch("\\io on", false), Some(true));
        assert_eq!(switch("\\io maybe", true), None);
    }

    #[test]
    fn table_names_lose_their_quotes() {
        assert_eq!(
            BackslashCommand::parse("\\d 'trips'"),
            Ok(BackslashCommand::DescribeTable("trips".to_owned()))
        );
        assert_eq!(BackslashCommand::parse("\\dt"), Ok(BackslashCommand::ListTables));
    }
}
