//! Libraries' errors in words for people: without prefixes, with the place in the input and a hint.
//!
//! 1. [`root_error`] takes the wrappers off the error.
//! 2. The kind of the root error decides the message and the hint.
//! 3. The whole chain is kept as causes for `-v`.

use std::io::ErrorKind;

use arrow::error::ArrowError;
use datafusion::common::{Column, Diagnostic, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use grampus::StoreError;
use grampus::caught_panic::CaughtPanic;
use grampus::error::{with_stars, without_passwords};
use grampus_orc_layout::LayoutError;
use grampus_tools::ToolError;

use crate::error_chain::{RootError, causes, context, root_error};
use crate::exit_error::{ErrorReport, ExitError};
use crate::keywords::KEYWORDS;
use crate::plan_wording::{reworded, window_hint};
use crate::setting_wording::{configuration, is_unknown};
use crate::statement_splitter::InputText;
use crate::wording::{clean, lower_first, nearest, os_words};

/// What to do about a fault of the program.
const BUG_HINT: &str = "this is a bug; please report it with the query and the output of -v";

/// The statement and the tables at the error's origin.
#[derive(Debug, Default)]
pub(crate) struct ErrorContext<'a> {
    /// The statement, if there was one.
    pub(crate) statement: Option<&'a InputText>,
    /// The tables that exist.
    pub(crate) tables: Vec<String>,
    /// The settings that exist.
    pub(crate) settings: Vec<String>,
}

impl ErrorContext<'_> {
    /// The statement's text.
    fn text(&self) -> Option<&str> {
        self.statement.map(|statement| statement.text.as_str())
    }
}

/// The error of a statement in words, without its text and the session's tables.
pub(crate) fn explain_alone(error: &DataFusionError) -> ExitError {
    explain(error, &ErrorContext::default()).into()
}

/// The error in words for people.
pub(crate) fn explain(error: &DataFusionError, known: &ErrorContext<'_>) -> ErrorReport {
    let root = root_error(error);
    let words = match &root {
        RootError::DataFusion(root) => root.message().into_owned(),
        RootError::Other(root) => root.to_string(),
        _ => String::new(),
    };
    let mut report = match root {
        _ if let Some(report) = reworded(&words) => report,
        RootError::DataFusion(root) => datafusion(root, error, known),
        RootError::Arrow(root) => arrow(root),
        RootError::Io(root) => io(root),
        RootError::Layout(root) => layout(root),
        RootError::Store(root) => object_store(root),
        RootError::Place(root) => store(root),
        RootError::Other(root) if root.is::<CaughtPanic>() => ErrorReport::new(root.to_string()).hint(BUG_HINT),
        RootError::Other(root) => ErrorReport::new(match context(error).map(clean) {
            Some(context) if !context.is_empty() => format!("{context}: {}", clean(&root.to_string())),
            _ => clean(&root.to_string()),
        }),
    };
    report.causes = causes(error).iter().map(|cause| without_passwords(cause)).collect();
    report.message = without_passwords(&report.message);
    report.hint = report.hint.map(|hint| without_passwords(&hint));
    report
}

fn datafusion(root: &DataFusionError, whole: &DataFusionError, known: &ErrorContext<'_>) -> ErrorReport {
    match root {
        DataFusionError::SQL(parser, _) => syntax(parser, known),
        DataFusionError::SchemaError(schema, _) => schema_error(schema, whole.diagnostic(), known),
        DataFusionError::Plan(message) => plan(message, whole.diagnostic(), known),
        DataFusionError::Configuration(message) => configuration(message, known.text(), &known.settings),
        DataFusionError::NotImplemented(message) => ErrorReport::new(format!("not supported: {}", clean(message))),
        DataFusionError::ResourcesExhausted(message) => exhausted(message),
        DataFusionError::Internal(message) => {
            ErrorReport::new(format!("internal error: {}", clean(message))).hint(BUG_HINT)
        }
        other => execution(&other.message()),
    }
}

fn io(error: &std::io::Error) -> ErrorReport {
    let report = ErrorReport::new(os_words(error));
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => report
            .hint("data that does not fit into memory goes to the folder of --temp-folder or TMPDIR; -m allows more"),
        _ => report,
    }
}

fn execution(message: &str) -> ErrorReport {
    if let Some(rest) = message.strip_prefix("Unable to find factory for ") {
        return ErrorReport::new(format!("tables cannot be STORED AS {rest}"))
            .hint("use STORED AS ORC, PARQUET, CSV, JSON or ARROW");
    }
    ErrorReport::new(clean(message))
}

fn syntax(error: &ParserError, known: &ErrorContext<'_>) -> ErrorReport {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.as_str(),
        ParserError::RecursionLimitExceeded => {
            return ErrorReport::new("the statement is nested too deeply")
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
    let message = match message.strip_prefix("no infix parser for token ") {
        Some(token) => format!("{} is no operator here", token.to_lowercase()),
        None => message,
    };
    match (place, known.statement) {
        (Some(place), Some(statement)) => {
            let (line, column) = absolute(place, statement);
            let report = ErrorReport::new(format!("SQL syntax, line {line}, column {column}: {message}"));
            let report = report.with_place(line, column);
            let near = near(&statement.text, place);
            match misspelt(&message) {
                Some(keyword) => report.hint(format!("did you mean {keyword}? Look at {near}")),
                None => report.hint(format!("look at {near}")),
            }
        }
        _ => ErrorReport::new(format!("SQL syntax: {message}")),
    }
}

/// The keyword nearest to the word that the parser found.
fn misspelt(message: &str) -> Option<&'static str> {
    let word = message.rsplit_once(", found ")?.1.trim();
    let is_word = word.len() > 2 && word.chars().all(|c| c.is_ascii_alphabetic());
    let known = KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word));
    (is_word && !known).then(|| nearest(word, KEYWORDS.into_iter()))?
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
fn absolute((line, column): (usize, usize), statement: &InputText) -> (usize, usize) {
    let column = if line == 1 {
        column + statement.column - 1
    } else {
        column
    };
    (line + statement.line - 1, column)
}

/// The text around a place, with an arrow at the place.
fn near(text: &str, (line, column): (usize, usize)) -> String {
    const BEFORE: usize = 24;
    const AFTER: usize = 32;
    let text = with_stars(text);
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

fn schema_error(error: &SchemaError, diagnostic: Option<&Diagnostic>, known: &ErrorContext<'_>) -> ErrorReport {
    let report = match error {
        SchemaError::FieldNotFound { field, valid_fields } => no_column(field, valid_fields, known),
        SchemaError::AmbiguousReference { field } => {
            ErrorReport::new(format!("column {} is ambiguous", field.flat_name()))
                .hint("put the table's name before it: table.column")
        }
        other => ErrorReport::new(clean(&other.to_string())),
    };
    with_place(report, diagnostic, known)
}

fn no_column(field: &Column, valid: &[Column], known: &ErrorContext<'_>) -> ErrorReport {
    const LISTED: usize = 12;
    let report = ErrorReport::new(format!("no column named {}", field.flat_name()));
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
    if known
        .statement
        .is_some_and(|statement| statement.text.contains(&quoted))
    {
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

/// What the engine says of a session that opens no files but those of its tables.
const CONFINED: &str = ": this session is confined: ";

fn plan(message: &str, diagnostic: Option<&Diagnostic>, known: &ErrorContext<'_>) -> ErrorReport {
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
        let report = ErrorReport::new(format!("no function named {name}"));
        let report = match (
            window_hint(name).or_else(|| lacking_hint(name).map(str::to_owned)),
            meant,
        ) {
            (Some(hint), _) => report.hint(hint),
            (None, Some(meant)) => report.hint(format!("did you mean {meant}?")),
            (None, None) => report,
        };
        return with_place(report, diagnostic, known);
    }
    if let Some((what, _)) = message.split_once(CONFINED) {
        let report = ErrorReport::new(format!("{what}: --safe is on, and refuses it"));
        return report.hint("it reads the files that the command line names, and no others, and writes none");
    }
    if let Some(report) = wrong_arguments(message) {
        return report;
    }
    if is_unknown(message) {
        return configuration(message, known.text(), &known.settings);
    }
    if message.to_lowercase().ends_with("registered file format with ext orc") {
        return execution(message);
    }
    let report = ErrorReport::new(clean(message));
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

/// What to do without a function of other systems.
fn lacking_hint(name: &str) -> Option<&'static str> {
    match name {
        "nfc_normalize" => Some("texts are compared as they are; normalize them in the program that writes them"),
        "nextval" | "currval" => Some("there are no sequences: number rows by row_number() OVER ()"),
        "list_zip" | "array_zip" => Some("arrays_zip(l, m) does it"),
        "enum_range" | "enum_code" => Some("there are no enums; write VARCHAR"),
        name if name.starts_with("st_") => Some("there are no spatial functions"),
        _ => None,
    }
}

/// A function call whose argument types fit no signature.
fn wrong_arguments(message: &str) -> Option<ErrorReport> {
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
    let report = ErrorReport::new(match types {
        "" => format!("{name} needs arguments"),
        _ => format!("{name} does not take ({types})"),
    });
    Some(report.hint("DESCRIBE table shows the types, CAST(x AS type) changes one"))
}

fn no_table(name: &str, known: &ErrorContext<'_>) -> ErrorReport {
    let short = name.strip_prefix("datafusion.public.").unwrap_or(name);
    let report = ErrorReport::new(format!("no table named {short}"));
    if let Some(near) = nearest(&short.to_lowercase(), known.tables.iter().map(String::as_str)) {
        return report.hint(format!("did you mean {near}?"));
    }
    if known.tables.is_empty() {
        return report.hint("open one: --table name=PATH, or CREATE EXTERNAL TABLE name STORED AS ORC LOCATION 'PATH'");
    }
    report.hint(format!("there are: {}", known.tables.join(", ")))
}

fn exhausted(message: &str) -> ErrorReport {
    if message.contains("max_temp_directory_size") {
        return ErrorReport::new("the query needs more space for temporary files than it may use")
            .hint("SET datafusion.runtime.max_temp_directory_size = '200G' allows more, as does more memory (-m)");
    }
    let report = match message.find("the query needs more than the memory limit") {
        Some(at) => ErrorReport::new(&message[at..]),
        // Another pool, which `SET datafusion.runtime.memory_limit` makes.
        None => ErrorReport::new(format!(
            "the query needs more than the memory limit (datafusion.runtime.memory_limit){}",
            shortage(message).unwrap_or_default()
        )),
    };
    report.hint("allow more with -m (as in -m 4g), or use fewer threads with -p")
}

/// The amount that was asked for and the amount left.
fn shortage(message: &str) -> Option<String> {
    let (_, rest) = message.rsplit_once("Failed to allocate additional ")?;
    let (wanted, rest) = rest.split_once(" for ")?;
    let (_, rest) = rest.split_once(" - ")?;
    let (left, _) = rest.split_once(" remain")?;
    Some(format!(": its next step needs {wanted} more, and {left} are left"))
}

fn arrow(error: &ArrowError) -> ErrorReport {
    match error {
        ArrowError::DivideByZero => {
            ErrorReport::new("division by zero").hint("divide by nullif(x, 0) to get NULL instead")
        }
        ArrowError::ArithmeticOverflow(words) => {
            ErrorReport::new(format!("the result is out of range: {}", clean(words)))
                .hint("CAST the operands to DOUBLE or DECIMAL")
        }
        ArrowError::CastError(words) | ArrowError::ParseError(words) => {
            ErrorReport::new(clean(words)).hint("TRY_CAST gives NULL where a value does not fit")
        }
        ArrowError::IoError(words, _) if words.contains("max_temp_directory_size") => exhausted(words),
        ArrowError::IoError(_, source) => io(source),
        other => ErrorReport::new(clean(&other.to_string())),
    }
}

/// The error of a generation or a conversion.
pub(crate) fn explain_tool(error: ToolError) -> ExitError {
    match error {
        ToolError::Cancelled => ExitError::Interrupted,
        ToolError::Options(words) => ExitError::Usage(ErrorReport::new(words)),
        ToolError::NotEmpty(path) => ErrorReport::new(format!("{} is not empty", path.display()))
            .hint("name another folder, or replace this one with --overwrite")
            .into(),
        ToolError::Exists(path) => ErrorReport::new(format!("{} exists", path.display()))
            .hint("name another file, or add --overwrite")
            .into(),
        ToolError::Write { path, source } => ErrorReport::file("write", &path.display().to_string(), &source).into(),
        other => ErrorReport::new(other.to_string()).into(),
    }
}

/// An error of an ORC file.
pub(crate) fn layout(error: &LayoutError) -> ErrorReport {
    let text = error.to_string();
    let report = ErrorReport::new(text.split(" (os error").next().unwrap_or(&text));
    match error {
        LayoutError::NotOrc { .. } => report.hint("`grampus convert` makes ORC from Parquet and CSV"),
        LayoutError::Corrupt { file, .. } => report.hint(format!(
            "the file is damaged; `grampus layout {file}` shows what can be read of it"
        )),
        _ => report,
    }
}

/// A place in a store that cannot be used.
fn store(error: &StoreError) -> ErrorReport {
    ErrorReport {
        message: format!("{}: {}", error.url, clean(&error.reason)),
        hint: error.advice.clone(),
        ..ErrorReport::default()
    }
}

fn object_store(error: &object_store::Error) -> ErrorReport {
    match error {
        object_store::Error::NotFound { path, .. } => ErrorReport::new(format!("no such file: {path}")),
        other => ErrorReport::new(clean(&other.to_string())),
    }
}

/// Adds the place that a diagnostic points at, if the input has several lines.
fn with_place(mut report: ErrorReport, diagnostic: Option<&Diagnostic>, known: &ErrorContext<'_>) -> ErrorReport {
    let (Some(span), Some(statement)) = (diagnostic.and_then(|diagnostic| diagnostic.span), known.statement) else {
        return report;
    };
    let (line, column) = absolute((span.start.line as usize, span.start.column as usize), statement);
    report.place = Some((line, column));
    if statement.line > 1 || statement.text.contains('\n') {
        report.message.push_str(&format!(" (line {line}, column {column})"));
    }
    report
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn statement(text: &str) -> InputText {
        InputText {
            text: text.to_owned(),
            line: 3,
            column: 5,
        }
    }

    #[test]
    fn places_count_from_the_start_of_the_input() {
        let (message, place) = split_location("Expected: a, found: b at Line: 1, Column: 8");
        assert_eq!((message, place), ("Expected: a, found: b", Some((1, 8))));
        assert_eq!(absolute((1, 8), &statement("")), (3, 12));
        assert_eq!(absolute((2, 8), &statement("")), (4, 8));
        assert_eq!(near("SELECT FROM trips", (1, 8)), "`SELECT ▸ FROM trips`");
        assert_eq!(near("SELEC 1", (1, 1)), "`▸ SELEC 1`");
        assert_eq!(near("SELECT (1", (9, 90)), "`▸ `");
    }

    #[test]
    fn wrapped_layout_error_is_explained() {
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
        let report = explain(&wrapped, &ErrorContext::default());
        assert_eq!(report.message, "a.orc: not an ORC file: it is empty");
        assert!(report.hint.unwrap().contains("grampus convert"));
    }
}
