//! From DataFusion's errors to words for people: without library prefixes, with what the person may have meant.
//! Which error of a chain counts is left to `root`.

use arrow::error::ArrowError;
use datafusion::common::utils::datafusion_strsim::levenshtein;
use datafusion::common::{Column, Diagnostic, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use grampus_orc_layout::LayoutError;

use crate::error_chain::{Root, causes, context, root};
use crate::exit_error::{Report, os_words};
use crate::statement_splitter::Piece;

/// What is known where the error arose.
#[derive(Debug, Default)]
pub(crate) struct Known<'a> {
    /// The statement, if there was one.
    pub(crate) statement: Option<&'a Piece>,
    /// The tables that exist.
    pub(crate) tables: Vec<String>,
}

/// The error in words for people.
pub(crate) fn explain(error: &DataFusionError, known: &Known<'_>) -> Report {
    let mut report = match root(error) {
        Root::DataFusion(root) => datafusion(root, error, known),
        Root::Arrow(root) => arrow(root),
        Root::Io(root) => Report::new(os_words(root)),
        Root::Layout(root) => layout(root),
        Root::Store(root) => object_store(root),
        Root::Other(root) => Report::new(match context(error) {
            Some(context) => format!("{}: {}", clean(context), clean(&root.to_string())),
            None => clean(&root.to_string()),
        }),
    };
    report.causes = causes(error);
    report
}

fn datafusion(root: &DataFusionError, whole: &DataFusionError, known: &Known<'_>) -> Report {
    match root {
        DataFusionError::SQL(parser, _) => syntax(parser, known),
        DataFusionError::SchemaError(schema, _) => schema_error(schema, whole.diagnostic(), known),
        DataFusionError::Plan(message) => plan(message, whole.diagnostic(), known),
        DataFusionError::Configuration(message) => configuration(message),
        DataFusionError::NotImplemented(message) => Report::new(format!("not supported: {}", clean(message))),
        DataFusionError::ResourcesExhausted(message) => exhausted(message),
        DataFusionError::Internal(message) if message.contains("No suitable object store found for ") => {
            no_store(message)
        }
        DataFusionError::Internal(message) => Report::new(format!("internal error: {}", clean(message)))
            .hint("this is a bug; please report it with the query and the output of -v"),
        other => execution(&other.message()),
    }
}

/// A URL of a kind that nothing here reads.
fn no_store(message: &str) -> Report {
    let place = message
        .split(" found for ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap_or("it");
    let report = Report::new(format!(
        "cannot read {}: only local files can be read here",
        place.trim_end_matches('.')
    ));
    report.hint("copy the files to this machine; programs can register an object store with the library's session")
}

fn execution(message: &str) -> Report {
    if message.ends_with("registered file format with ext orc") {
        return Report::new("COPY cannot write ORC")
            .hint("COPY to a .csv file, then `grampus convert` makes ORC of it");
    }
    if let Some(rest) = message.strip_prefix("Unable to find factory for ") {
        return Report::new(format!("tables cannot be STORED AS {rest}"))
            .hint("use STORED AS ORC; `grampus convert` makes ORC from Parquet and CSV");
    }
    Report::new(clean(message))
}

fn syntax(error: &ParserError, known: &Known<'_>) -> Report {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.as_str(),
        ParserError::RecursionLimitExceeded => {
            return Report::new("the statement is nested too deeply")
                .hint("SET datafusion.sql_parser.recursion_limit = 200 allows more");
        }
    };
    let (message, place) = split_location(text);
    let message = lower_first(
        &message
            .replacen("Expected: ", "expected ", 1)
            .replacen(", found: ", ", found ", 1),
    );
    let message = message.replace("found EOF", "but the statement ends there");
    match (place, known.statement) {
        (Some(place), Some(piece)) => {
            let (line, column) = absolute(place, piece);
            let report = Report::new(format!("SQL syntax, line {line}, column {column}: {message}"));
            let near = near(&piece.text, place);
            match misspelt(&message) {
                Some(keyword) => report.hint(format!("did you mean {keyword}? Look at {near}")),
                None => report.hint(format!("look at {near}")),
            }
        }
        _ => Report::new(format!("SQL syntax: {message}")),
    }
}

/// The keyword that the word found may have been meant for.
fn misspelt(message: &str) -> Option<&'static str> {
    let word = message.rsplit_once(", found ")?.1.trim();
    let is_word = word.len() > 2 && word.chars().all(|c| c.is_ascii_alphabetic());
    let keywords = crate::line_helper::KEYWORDS;
    let known = keywords.iter().any(|keyword| keyword.eq_ignore_ascii_case(word));
    (is_word && !known).then(|| nearest(word, keywords.into_iter()))?
}

/// Splits `… at Line: 1, Column: 15` off a parser's message.
fn split_location(text: &str) -> (&str, Option<(usize, usize)>) {
    let place = text.rfind(" at Line: ").and_then(|at| {
        let (line, column) = text[at + " at Line: ".len()..].split_once(", Column: ")?;
        Some((at, (line.trim().parse().ok()?, column.trim().parse().ok()?)))
    });
    match place {
        Some((at, (line, column))) if line > 0 => (&text[..at], Some((line, column))),
        Some((at, _)) => (&text[..at], None),
        None => (text, None),
    }
}

/// A place in a statement as a place in the input.
fn absolute((line, column): (usize, usize), piece: &Piece) -> (usize, usize) {
    let column = if line == 1 { column + piece.column - 1 } else { column };
    (line + piece.line - 1, column)
}

/// The words around a place, with the place marked by an arrow.
fn near(text: &str, (line, column): (usize, usize)) -> String {
    const BEFORE: usize = 24;
    const AFTER: usize = 32;
    let line: Vec<char> = text.lines().nth(line - 1).unwrap_or("").chars().collect();
    let at = (column.max(1) - 1).min(line.len());
    let from = at.saturating_sub(BEFORE);
    let to = (at + AFTER).min(line.len());
    let part = |range: &[char]| range.iter().collect::<String>();
    format!(
        "`{}{} ▸ {}{}`",
        if from > 0 { "…" } else { "" },
        part(&line[from..at]).trim_end(),
        part(&line[at..to]).trim_start(),
        if to < line.len() { "…" } else { "" },
    )
    .replace("` ▸", "`▸")
}

fn schema_error(error: &SchemaError, diagnostic: Option<&Diagnostic>, known: &Known<'_>) -> Report {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => no_column(field, valid_fields, known),
        SchemaError::AmbiguousReference { field } => Report::new(format!("column {} is ambiguous", field.flat_name()))
            .hint("put the table's name before it: table.column"),
        other => Report::new(clean(&other.to_string())),
    }
    .at(diagnostic, known)
}

fn no_column(field: &Column, valid: &[Column], known: &Known<'_>) -> Report {
    const LISTED: usize = 12;
    let report = Report::new(format!("no column named {}", field.flat_name()));
    let wanted = field.name().to_lowercase();
    if let Some(same) = valid
        .iter()
        .find(|column| column.name().to_lowercase() == wanted && column.name() != field.name())
    {
        return report.hint(format!(
            "write {}: unquoted names are read in lower case",
            same.quoted_flat_name()
        ));
    }
    if let Some(near) = nearest(&wanted, valid.iter().map(Column::name)) {
        return report.hint(format!(
            "did you mean {}?",
            datafusion::common::utils::quote_identifier(near)
        ));
    }
    let quoted = format!("\"{}\"", field.name());
    if known.statement.is_some_and(|piece| piece.text.contains(&quoted)) {
        return report.hint(format!("a text is written in single quotes: '{}'", field.name()));
    }
    if valid.is_empty() {
        return report;
    }
    let mut names: Vec<&str> = valid.iter().take(LISTED).map(Column::name).collect();
    if valid.len() > LISTED {
        names.push("…");
    }
    report.hint(format!("there are: {}", names.join(", ")))
}

fn plan(message: &str, diagnostic: Option<&Diagnostic>, known: &Known<'_>) -> Report {
    let between = |before: &str, after: &str| message.strip_prefix(before)?.strip_suffix(after);
    if let Some(name) = between("table '", "' not found") {
        return no_table(name, known);
    }
    if let Some(name) = between("Table '", "' doesn't exist.").or(between("Table ", " doesn't exist.")) {
        return no_table(name, known);
    }
    if let Some(rest) = message.strip_prefix("Invalid function '") {
        let name = rest.split('\'').next().unwrap_or(rest);
        let meant = rest
            .split("Did you mean '")
            .nth(1)
            .and_then(|rest| rest.split('\'').next());
        let report = Report::new(format!("no function named {name}"));
        return match meant {
            Some(meant) => report.hint(format!("did you mean {meant}?")),
            None => report,
        }
        .at(diagnostic, known);
    }
    if let Some(report) = wrong_arguments(message) {
        return report;
    }
    if message.to_lowercase().ends_with("registered file format with ext orc") {
        return execution(message);
    }
    let report = Report::new(clean(message));
    let about_types = [
        "coerce",
        "common argument type",
        "No function matches",
        "expects",
        "cast",
    ];
    if about_types.iter().any(|words| message.contains(words)) {
        return report.hint("the types do not fit; DESCRIBE table shows them, CAST(x AS type) changes one");
    }
    report
}

/// A function that was given types it does not take.
fn wrong_arguments(message: &str) -> Option<Report> {
    let (name, types) = if let Some((_, call)) = message.split_once("argument types '") {
        let (name, rest) = call.split_once('(')?;
        (name, rest.split_once(")'")?.0)
    } else if message.contains("failed to match any signature") {
        let (_, rest) = message.split_once("Function '")?;
        let name = rest.split('\'').next()?;
        (name, rest.split_once("DataType: ")?.1.split([')', '.']).next()?)
    } else {
        return None;
    };
    let report = Report::new(match types {
        "" => format!("{name} needs arguments"),
        _ => format!("{name} does not take ({types})"),
    });
    Some(report.hint("DESCRIBE table shows the types, CAST(x AS type) changes one"))
}

fn no_table(name: &str, known: &Known<'_>) -> Report {
    let short = name.strip_prefix("datafusion.public.").unwrap_or(name);
    let report = Report::new(format!("no table named {short}"));
    if let Some(near) = nearest(&short.to_lowercase(), known.tables.iter().map(String::as_str)) {
        return report.hint(format!("did you mean {near}?"));
    }
    if known.tables.is_empty() {
        return report.hint("open one: --table name=PATH, or CREATE EXTERNAL TABLE name STORED AS ORC LOCATION 'PATH'");
    }
    report.hint(format!("there are: {}", known.tables.join(", ")))
}

fn configuration(message: &str) -> Report {
    let report = Report::new(clean(message));
    if message.contains("Could not find config namespace") || message.contains("not found") {
        return report.hint("SHOW ALL lists the settings");
    }
    report
}

fn exhausted(message: &str) -> Report {
    if message.contains("max_temp_directory_size") {
        return Report::new("the query needs more space for temporary files than it may use")
            .hint("SET datafusion.runtime.max_temp_directory_size = '200G' allows more, as does more memory (-m)");
    }
    let shortage = shortage(message).unwrap_or_else(|| clean(message));
    let report = Report::new(format!("out of memory: {shortage}"));
    report.hint("allow more with -m (as in -m 4g), or use fewer threads with -p")
}

/// Who asked for how much when there was not enough.
fn shortage(message: &str) -> Option<String> {
    let (_, rest) = message.rsplit_once("Failed to allocate additional ")?;
    let (wanted, rest) = rest.split_once(" for ")?;
    let (who, rest) = rest.split_once(" with ")?;
    let (_, rest) = rest.split_once(" - ")?;
    let (left, _) = rest.split_once(" remain")?;
    let who = who.split('[').next().unwrap_or(who);
    Some(format!("{who} needs {wanted} more, and {left} are left"))
}

fn arrow(error: &ArrowError) -> Report {
    match error {
        ArrowError::DivideByZero => Report::new("division by zero").hint("divide by nullif(x, 0) to get NULL instead"),
        ArrowError::ArithmeticOverflow(words) => Report::new(format!("the result is out of range: {}", clean(words)))
            .hint("CAST the operands to DOUBLE or DECIMAL"),
        ArrowError::CastError(words) | ArrowError::ParseError(words) => {
            Report::new(clean(words)).hint("TRY_CAST gives NULL where a value does not fit")
        }
        ArrowError::IoError(words, _) if words.contains("max_temp_directory_size") => exhausted(words),
        ArrowError::IoError(_, source) => Report::new(os_words(source)),
        other => Report::new(clean(&other.to_string())),
    }
}

pub(crate) fn layout(error: &LayoutError) -> Report {
    let report = Report::new(error.to_string());
    match error {
        LayoutError::NotOrc { .. } => report.hint("`grampus convert` makes ORC from Parquet and CSV"),
        LayoutError::Corrupt { file, .. } => report.hint(format!(
            "the file is damaged; `grampus layout {file}` shows what can be read of it"
        )),
        _ => report,
    }
}

fn object_store(error: &object_store::Error) -> Report {
    match error {
        object_store::Error::NotFound { path, .. } => Report::new(format!("no such file: {path}")),
        other => Report::new(clean(&other.to_string())),
    }
}

impl Report {
    /// Adds the place that a diagnostic points at, when the input has several lines.
    fn at(mut self, diagnostic: Option<&Diagnostic>, known: &Known<'_>) -> Self {
        let (Some(span), Some(piece)) = (diagnostic.and_then(|diagnostic| diagnostic.span), known.statement) else {
            return self;
        };
        let (line, column) = absolute((span.start.line as usize, span.start.column as usize), piece);
        if piece.line > 1 || piece.text.contains('\n') {
            self.message.push_str(&format!(" (line {line}, column {column})"));
        }
        self
    }
}

/// The name most like `wanted`, if one is like it.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    names
        .map(|name| (levenshtein(&wanted, &name.to_lowercase()), name))
        .filter(|(distance, name)| distance * 2 <= name.chars().count().max(wanted.chars().count()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// A library's message without its prefixes, in one line.
pub(crate) fn clean(message: &str) -> String {
    const PREFIXES: [&str; 14] = [
        "Error during planning: ",
        "Execution error: ",
        "External error: ",
        "Arrow error: ",
        "Schema error: ",
        "SQL error: ",
        "IO error: ",
        "Internal error: ",
        "Object Store error: ",
        "Optimizer rule 'simplify_expressions' failed",
        "Invalid or Unsupported Configuration: ",
        "This feature is not implemented: ",
        "Invalid argument error: ",
        "Compute error: ",
    ];
    let mut text = message.split("\n\nbacktrace:").next().unwrap_or(message).trim();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest.trim_start();
    }
    let text = text.split("\n\tCandidate functions").next().unwrap_or(text);
    let text = text.split("\nThis issue was likely caused by").next().unwrap_or(text);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    lower_first(text.trim_end_matches('.'))
}

/// The text with a small first letter, unless its first word is a name (`SELECT`, `Utf8`).
pub(crate) fn lower_first(text: &str) -> String {
    let first_word = text.split_whitespace().next().unwrap_or("");
    let is_word = first_word
        .chars()
        .skip(1)
        .all(|c| c.is_ascii_lowercase() || c == ':' || c == ',' || c == '\'');
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if is_word && first_word.len() > 1 => first.to_lowercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn piece(text: &str) -> Piece {
        Piece {
            text: text.to_owned(),
            line: 3,
            column: 5,
        }
    }

    #[test]
    fn places_count_from_the_start_of_the_input() {
        let (message, place) = split_location("Expected: a, found: b at Line: 1, Column: 8");
        assert_eq!((message, place), ("Expected: a, found: b", Some((1, 8))));
        assert_eq!(absolute((1, 8), &piece("")), (3, 12));
        assert_eq!(absolute((2, 8), &piece("")), (4, 8));
        assert_eq!(near("SELECT FROM trips", (1, 8)), "`SELECT ▸ FROM trips`");
        assert_eq!(near("SELEC 1", (1, 1)), "`▸ SELEC 1`");
        assert_eq!(near("SELECT (1", (9, 90)), "`▸ `");
    }

    #[test]
    fn wrappers_are_taken_off() {
        let inner = DataFusionError::External(Box::new(LayoutError::NotOrc {
            file: "a.orc".into(),
            reason: "it is empty".into(),
        }));
        let wrapped = DataFusionError::ArrowError(
            Box::new(ArrowError::ExternalError(Box::new(DataFusionError::Shared(Arc::new(
                inner.context("somewhere"),
            ))))),
            None,
        );
        let report = explain(&wrapped, &Known::default());
        assert_eq!(report.message, "a.orc: not an ORC file: it is empty");
        assert!(report.hint.unwrap().contains("grampus convert"));
    }

    #[test]
    fn what_was_meant_is_found() {
        let names = ["trips", "zones", "weather"];
        assert_eq!(nearest("trip", names.into_iter()), Some("trips"));
        assert_eq!(nearest("Zonse", names.into_iter()), Some("zones"));
        assert_eq!(nearest("payments", names.into_iter()), None);
    }

    #[test]
    fn messages_lose_their_prefixes_but_names_keep_their_case() {
        assert_eq!(
            clean("External error: Execution error: Cannot do this."),
            "cannot do this"
        );
        assert_eq!(clean("Utf8 is no number"), "Utf8 is no number");
        assert_eq!(clean("SELECT is missing\nhere"), "SELECT is missing here");
    }
}
