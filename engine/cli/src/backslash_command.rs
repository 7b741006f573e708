//! Backslash commands: what a person asks of the shell rather than of the data.

use std::any::Any;

use clap::ValueEnum;
use datafusion::catalog::TableProvider;
use grampus::OrcTable;

use crate::args::{Format, MaxRows, parse_max_rows};
use crate::exit_error::{Failure, Report};
use crate::shell::Shell;
use crate::text_table::{Cells, Look};
use crate::{note, session_tables, units};

/// Each command: name, argument, what it does.
pub(crate) const COMMANDS: [(&str, &str, &str); 10] = [
    ("\\d", "[TABLE]", "list the tables, or the columns of one"),
    ("\\timing", "[on|off]", "say how long each query took"),
    ("\\io", "[on|off]", "say what each query read"),
    (
        "\\format",
        "[FORMAT]",
        "print results as table, csv, tsv, json or ndjson",
    ),
    ("\\x", "[on|off]", "print each value on a line of its own"),
    ("\\maxrows", "[N|all]", "print at most N rows of a table"),
    ("\\i", "FILE", "run the SQL in FILE"),
    ("\\functions", "[PART]", "list the functions whose names contain PART"),
    ("\\?", "", "show this help"),
    ("\\q", "", "leave (also Ctrl-D)"),
];

/// How deep scripts may include each other.
const DEEPEST_INCLUDE: usize = 16;

/// Runs the command. False: the person wants to leave.
pub(crate) fn run(shell: &mut Shell, line: &str) -> Result<bool, Failure> {
    let line = line.trim_end_matches(';').trim();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim().trim_matches(['\'', '"']);
    match name {
        "\\q" | "\\quit" => return Ok(false),
        "\\?" | "\\h" | "\\help" => shell.print(&help())?,
        "\\d" | "\\dt" | "\\describe" if argument.is_empty() => list_tables(shell)?,
        "\\d" | "\\describe" => describe(shell, argument)?,
        "\\timing" => {
            shell.settings.timing = switch("timing", argument, shell.settings.timing)?;
            said(shell, "timing", shell.settings.timing);
        }
        "\\io" => {
            shell.settings.io = switch("io", argument, shell.settings.io)?;
            said(shell, "io", shell.settings.io);
        }
        "\\x" => {
            shell.settings.expanded = switch("x", argument, shell.settings.expanded)?;
            said(shell, "one value a line", shell.settings.expanded);
        }
        "\\format" => format(shell, argument)?,
        "\\maxrows" => max_rows(shell, argument)?,
        "\\i" => return include(shell, argument),
        "\\functions" | "\\df" => functions(shell, argument)?,
        _ => {
            let names = COMMANDS.iter().map(|(name, _, _)| *name);
            let report = Report::new(format!("no command named {name}"));
            return Err(match crate::error_messages::nearest(name, names) {
                Some(near) => report.hint(format!("did you mean {near}? \\? lists the commands")),
                None => report.hint("\\? lists the commands"),
            }
            .into());
        }
    }
    Ok(true)
}

fn help() -> String {
    let mut text =
        String::from("Statements end with a semicolon and may take several lines. Ctrl-C cancels a query.\n\n");
    for (name, argument, meaning) in COMMANDS {
        text.push_str(&format!("  {:<22} {meaning}\n", format!("{name} {argument}")));
    }
    text.push_str("\n  CREATE EXTERNAL TABLE trips STORED AS ORC LOCATION 'data/trips/';\n");
    text.push_str("  EXPLAIN ANALYZE SELECT …;    SHOW ALL;    SET datafusion.execution.target_partitions = 4;\n");
    text
}

fn switch(name: &str, argument: &str, now: bool) -> Result<bool, Failure> {
    match argument.to_ascii_lowercase().as_str() {
        "" => Ok(!now),
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err(Report::new(format!("\\{name} takes on or off, not {argument}")).into()),
    }
}

fn said(shell: &Shell, what: &str, on: bool) {
    if !shell.settings.quiet {
        note(format_args!("{what} is {}", if on { "on" } else { "off" }));
    }
}

fn format(shell: &mut Shell, argument: &str) -> Result<(), Failure> {
    if !argument.is_empty() {
        shell.settings.format = Format::from_str(argument, true).map_err(|_| {
            let names: Vec<String> = Format::value_variants().iter().map(|format| format.name()).collect();
            Report::new(format!("no format named {argument}")).hint(format!("there are: {}", names.join(", ")))
        })?;
    }
    if !shell.settings.quiet {
        note(format_args!("format is {}", shell.settings.format.name()));
    }
    Ok(())
}

fn max_rows(shell: &mut Shell, argument: &str) -> Result<(), Failure> {
    if !argument.is_empty() {
        shell.settings.max_rows = match parse_max_rows(argument).map_err(Report::new)? {
            MaxRows::All => None,
            MaxRows::Rows(rows) => Some(rows),
        };
    }
    let rows = shell.settings.max_rows;
    if !shell.settings.quiet {
        let rows = rows.map_or_else(
            || "all rows".to_owned(),
            |rows| format!("at most {}", units::counted(rows as u64, "row")),
        );
        note(format_args!("tables print {rows}"));
    }
    Ok(())
}

fn include(shell: &mut Shell, path: &str) -> Result<bool, Failure> {
    if path.is_empty() {
        return Err(Report::new("\\i needs a file").into());
    }
    if shell.depth == DEEPEST_INCLUDE {
        return Err(Report::new(format!("{path} is included too deeply"))
            .hint("does it include itself?")
            .into());
    }
    shell.depth += 1;
    let ran = shell.include(path);
    shell.depth -= 1;
    ran
}

fn list_tables(shell: &mut Shell) -> Result<(), Failure> {
    let names = tables::names(&shell.context);
    if names.is_empty() {
        note("no tables; CREATE EXTERNAL TABLE name STORED AS ORC LOCATION 'PATH'; opens one");
        return Ok(());
    }
    let mut rows = Vec::with_capacity(names.len());
    for name in names {
        let provider = tables::provider(&shell.context, &name);
        let columns = provider.as_ref().map_or(0, |provider| provider.schema().fields().len());
        let state = shell.context.state();
        let files = shell.wait_for(async move {
            let provider: Option<&(dyn TableProvider + 'static)> = provider.as_deref();
            let table = provider.and_then(|provider| (provider as &dyn Any).downcast_ref::<OrcTable>())?;
            table.files(&state).await.ok()
        })?;
        let (count, total) = files.map_or_else(Default::default, |files| {
            let rows = files.iter().map(|file| file.file.tail.rows).sum();
            (units::count(files.len() as u64), units::count(rows))
        });
        rows.push(vec![name, columns.to_string(), count, total]);
    }
    let cells = Cells::of_text(&["table", "columns", "files", "rows"], &[false, true, true, true], rows);
    let look = Look {
        expanded: false,
        ..shell.look()
    };
    shell.print(&cells.render(look))
}

fn describe(shell: &mut Shell, name: &str) -> Result<(), Failure> {
    let (context, name) = (shell.context.clone(), name.to_owned());
    let found = shell.wait_for(async move { context.table_provider(name.as_str()).await })?;
    let provider = found.map_err(|error| shell.explain(&error, None))?;
    let schema = provider.schema();
    let rows = schema.fields().iter().map(|field| {
        let null = if field.is_nullable() { "yes" } else { "no" };
        vec![field.name().clone(), field.data_type().to_string(), null.to_owned()]
    });
    let cells = Cells::of_text(&["column", "type", "null"], &[false; 3], rows.collect());
    let look = Look {
        expanded: false,
        ..shell.look()
    };
    shell.print(&cells.render(look))
}

fn functions(shell: &mut Shell, part: &str) -> Result<(), Failure> {
    let part = part.to_lowercase();
    let names = crate::line_helper::functions(&shell.context);
    let names: Vec<String> = names.into_iter().filter(|name| name.contains(&part)).collect();
    let width = shell.look().width.unwrap_or(100);
    shell.print(&in_columns(&names, width))
}

/// Words in columns, top to bottom.
fn in_columns(words: &[String], width: usize) -> String {
    let widest = words.iter().map(|word| word.len()).max().unwrap_or(0) + 2;
    let columns = (width / widest.max(1)).max(1);
    let lines = words.len().div_ceil(columns);
    let mut text = String::new();
    for line in 0..lines {
        let cells = words
            .iter()
            .skip(line)
            .step_by(lines.max(1))
            .map(|word| format!("{word:<widest$}"));
        text.push_str(cells.collect::<String>().trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fill_columns_top_to_bottom() {
        let words: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        assert_eq!(in_columns(&words, 6), "a  d\nb  e\nc\n");
        assert_eq!(in_columns(&[], 80), "");
    }

    #[test]
    fn switches_turn_or_are_set() {
        assert!(switch("io", "", false).unwrap());
        assert!(!switch("io", "OFF", true).unwrap());
        assert!(switch("io", "maybe", true).is_err());
    }
}
