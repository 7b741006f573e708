//! [`LineHelper`]: the line editor's helper.
//!
//! 1. Completion of keywords, tables, columns, functions, commands and paths.
//! 2. Colours of keywords, strings and comments.
//! 3. Validation: Enter runs a complete text, and begins another line of an incomplete one.

use std::borrow::Cow;
use std::collections::BTreeSet;

use console::Style;
use datafusion::prelude::SessionContext;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Result};

use crate::backslash_command::COMMANDS;
use crate::keywords::{KEYWORDS, MORE_KEYWORDS};
use crate::statement_splitter::StatementSplitter;
use crate::{session, session_tables};

/// A helper with the names that a session knows.
pub(crate) struct LineHelper {
    paths: FilenameCompleter,
    tables: Vec<String>,
    columns: Vec<String>,
    functions: Vec<String>,
}

impl LineHelper {
    pub(crate) fn new(context: &SessionContext) -> Self {
        let mut helper = Self {
            paths: FilenameCompleter::new(),
            tables: Vec::new(),
            columns: Vec::new(),
            functions: session::function_names(context),
        };
        helper.refresh(context);
        helper
    }

    /// Takes over the session's current tables and columns.
    pub(crate) fn refresh(&mut self, context: &SessionContext) {
        self.tables = session_tables::names(context);
        let providers = self
            .tables
            .iter()
            .filter_map(|name| session_tables::provider(context, name));
        let names: BTreeSet<String> = providers
            .flat_map(|provider| {
                provider
                    .schema()
                    .fields()
                    .iter()
                    .map(|field| field.name().clone())
                    .collect::<Vec<_>>()
            })
            .collect();
        self.columns = names.into_iter().collect();
    }

    fn words(&self, line: &str, start: usize, word: &str) -> Vec<Pair> {
        let lower = word.to_lowercase();
        let shout = word.chars().next().is_some_and(char::is_uppercase);
        let named = |name: &String| {
            let name = datafusion::common::utils::quote_identifier(name).into_owned();
            Pair {
                display: name.clone(),
                replacement: name,
            }
        };
        let starts = |name: &&String| name.to_lowercase().starts_with(&lower);
        let mut pairs: Vec<Pair> = Vec::new();
        if word.is_empty() || after_table_word(&line[..start]) {
            pairs.extend(self.tables.iter().filter(starts).map(named));
            if !word.is_empty() || !pairs.is_empty() {
                return pairs;
            }
        }
        pairs.extend(self.columns.iter().filter(starts).map(named));
        pairs.extend(self.tables.iter().filter(starts).map(named));
        if !word.is_empty() {
            let keywords = KEYWORDS
                .iter()
                .filter(|keyword| keyword.to_lowercase().starts_with(&lower));
            pairs.extend(keywords.map(|keyword| {
                let text = if shout {
                    (*keyword).to_owned()
                } else {
                    keyword.to_lowercase()
                };
                Pair {
                    display: text.clone(),
                    replacement: text,
                }
            }));
            pairs.extend(self.functions.iter().filter(starts).map(|name| Pair {
                display: format!("{name}()"),
                replacement: format!("{name}("),
            }));
        }
        pairs
    }
}

/// Whether the next word names a table.
fn after_table_word(before: &str) -> bool {
    let last = before.split_whitespace().next_back().unwrap_or("").to_uppercase();
    matches!(last.as_str(), "FROM" | "JOIN" | "DESCRIBE" | "TABLE" | "\\D")
}

/// The byte after the quote that is open at the end of the text.
fn open_quote(text: &str) -> Option<usize> {
    let mut open = None;
    for (at, c) in text.char_indices() {
        if c == '\'' {
            open = if open.is_some() { None } else { Some(at + 1) };
        }
    }
    open
}

impl Completer for LineHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let before = &line[..position];
        if let Some(start) = open_quote(before).or_else(|| before.strip_prefix("\\i ").map(|_| 3)) {
            let (at, pairs) = self.paths.complete_path(&before[start..], position - start)?;
            return Ok((start + at, pairs));
        }
        if before.starts_with('\\') && !before.contains(' ') {
            let names = COMMANDS
                .iter()
                .map(|(name, _, _)| *name)
                .filter(|name| name.starts_with(before));
            let pair = |name: &str| Pair {
                display: name.to_owned(),
                replacement: name.to_owned(),
            };
            return Ok((0, names.map(pair).collect()));
        }
        let start = before
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        Ok((start, self.words(line, start, &before[start..])))
    }
}

/// A hint at the end of an empty line: how to end a statement. It cannot be accepted as text.
pub(crate) struct HowToEnd;

impl Hint for HowToEnd {
    fn display(&self) -> &str {
        "   ; and Enter run it, Ctrl-C drops it"
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for LineHelper {
    type Hint = HowToEnd;

    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<HowToEnd> {
        (position == line.len() && line.ends_with('\n')).then_some(HowToEnd)
    }
}

impl Validator for LineHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        let text = context.input();
        let complete = is_word_command(text) || StatementSplitter::is_complete(text);
        Ok(if complete {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

/// Words without a backslash that leave the shell or print its help.
pub(crate) fn is_word_command(text: &str) -> bool {
    matches!(
        text.trim().to_ascii_lowercase().as_str(),
        "quit" | "exit" | "help" | "?"
    )
}

impl Highlighter for LineHelper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if line.starts_with('\\') || !console::colors_enabled() {
            return Cow::Borrowed(line);
        }
        Cow::Owned(coloured(line))
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(Style::new().bold().apply_to(prompt).to_string())
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(Style::new().dim().apply_to(hint).to_string())
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

impl Helper for LineHelper {}

/// The text with keywords, strings and comments in colours.
fn coloured(line: &str) -> String {
    let (keyword, string, comment) = (Style::new().blue().bold(), Style::new().green(), Style::new().dim());
    let mut text = String::with_capacity(line.len() * 2);
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (length, style) = if rest.starts_with("--") {
            (rest.find('\n').unwrap_or(rest.len()), Some(&comment))
        } else if first == '\'' {
            (rest[1..].find('\'').map_or(rest.len(), |end| end + 2), Some(&string))
        } else if first.is_alphabetic() || first == '_' {
            let length = rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            let word = rest[..length].to_uppercase();
            let known = KEYWORDS.contains(&word.as_str()) || MORE_KEYWORDS.contains(&word.as_str());
            (length, known.then_some(&keyword))
        } else {
            (first.len_utf8(), None)
        };
        let (token, tail) = rest.split_at(length);
        match style {
            Some(style) => text.push_str(&style.apply_to(token).to_string()),
            None => text.push_str(token),
        }
        rest = tail;
    }
    text
}

#[cfg(test)]
mod tests {
    use rustyline::history::DefaultHistory;

    use super::*;

    fn complete(line: &str) -> Vec<String> {
        let context = SessionContext::new();
        let mut helper = LineHelper::new(&context);
        helper.tables = vec!["trips".into(), "zones".into()];
        helper.columns = vec!["trip_distance".into(), "Zone Name".into()];
        let history = DefaultHistory::new();
        let (_, pairs) = helper.complete(line, line.len(), &Context::new(&history)).unwrap();
        pairs.into_iter().map(|pair| pair.replacement).collect()
    }

    #[test]
    fn names_and_keywords_are_completed() {
        assert_eq!(complete("SELECT * FROM t"), ["trips"]);
        assert_eq!(complete("select * from "), ["trips", "zones"]);
        assert_eq!(complete("SELECT trip"), ["trip_distance", "trips"]);
        assert_eq!(complete("SELECT zon"), ["\"Zone Name\"", "zones"]);
        assert_eq!(complete("selec"), ["select"]);
        assert_eq!(complete("SELEC"), ["SELECT"]);
        assert_eq!(complete("select approx_med"), ["approx_median("]);
        assert_eq!(complete("\\ti"), ["\\timing"]);
    }

    #[test]
    fn paths_are_completed_in_quotes() {
        let found = complete("CREATE EXTERNAL TABLE t STORED AS ORC LOCATION 'Cargo.to");
        assert_eq!(found, ["Cargo.toml"]);
        assert_eq!(complete("\\i Cargo.to"), ["Cargo.toml"]);
    }

    #[test]
    fn colours_do_not_change_the_text() {
        let line = "SELECT 'it''s', é FROM t -- done\nWHERE x";
        assert_eq!(console::strip_ansi_codes(&coloured(line)), line);
    }
}
