//! [`Completion`]: the ends of an unfinished word: keywords, tables, columns, functions, settings, commands and paths.
//!
//! | place | candidates |
//! | --- | --- |
//! | inside `'…'`, and after `\i`, `\o` and their twins | paths |
//! | after `\format` and `.mode` | formats |
//! | after SET, SHOW, RESET | settings |
//! | after FROM, JOIN, DESCRIBE … | tables |
//! | after `alias.` or `table.` | the columns of that table |
//! | elsewhere | columns of the tables that the text names, or of all; tables, keywords, functions |
//!
//! Letter case does not matter, but for paths.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use datafusion::common::utils::quote_identifier;
use datafusion::prelude::SessionContext;
use rustyline::Result;
use rustyline::completion::{FilenameCompleter, Pair};

use crate::backslash_command::COMMANDS;
use crate::dot_command::DotCommand;
use crate::keywords::KEYWORDS;
use crate::named_tables::NamedTables;
use crate::result_format::Format;
use crate::{session, session_tables};

/// Words that may follow SHOW, besides settings.
const SHOWN: [&str; 4] = ["ALL", "COLUMNS", "FUNCTIONS", "TABLES"];

/// The names that a session knows.
pub(crate) struct Completion {
    /// `None`: no folder is read.
    paths: Option<FilenameCompleter>,
    /// The columns of each table.
    tables: BTreeMap<String, Vec<String>>,
    functions: Vec<String>,
    settings: Vec<String>,
}

/// The place of the unfinished word.
enum Place<'a> {
    /// Inside a text in single quotes, which begins at this byte.
    Text(usize),
    /// Inside a name in double quotes, of which the first is at this byte.
    Name(usize),
    /// A word that begins at this byte.
    Word(usize, &'a str),
}

impl Completion {
    pub(crate) fn new(context: &SessionContext, completes_paths: bool) -> Self {
        let mut completion = Self {
            paths: completes_paths.then(FilenameCompleter::new),
            tables: BTreeMap::new(),
            functions: session::function_names(context),
            settings: session::setting_names(context),
        };
        completion.refresh(context);
        completion
    }

    /// Takes over the session's current tables and columns.
    pub(crate) fn refresh(&mut self, context: &SessionContext) {
        let columns = |name: &str| {
            let schema = session_tables::provider(context, name).map(|provider| provider.schema());
            let fields = schema.iter().flat_map(|schema| schema.fields());
            fields.map(|field| field.name().clone()).collect()
        };
        let names = session_tables::names(context).into_iter();
        self.tables = names.map(|name| (name.clone(), columns(&name))).collect();
    }

    /// The candidates for the word before `position`, and its first byte.
    pub(crate) fn complete(&self, line: &str, position: usize) -> Result<(usize, Vec<Pair>)> {
        let before = &line[..position];
        let file = ["\\i ", "\\o ", ".read ", ".output "]
            .iter()
            .find_map(|command| before.strip_prefix(command));
        if let Some(path) = file {
            let start = position - path.trim_start_matches([' ', '\'', '"']).len();
            return self.path(before, start);
        }
        let format = ["\\format ", ".mode "]
            .iter()
            .find_map(|command| before.strip_prefix(command));
        if let Some(word) = format {
            let formats = Format::value_variants().iter().map(|format| format.name());
            let pairs = formats.filter(|name| begins(name, word)).map(|name| same(&name));
            return Ok((position - word.len(), pairs.collect()));
        }
        if before.starts_with('\\') && !before.contains(' ') {
            let names = COMMANDS.iter().map(|(name, _, _)| *name);
            return Ok((0, names.filter(|name| name.starts_with(before)).map(same).collect()));
        }
        if before.starts_with('.') && !before.contains(' ') {
            let names = DotCommand::names().filter(|name| begins(name, before));
            return Ok((0, names.map(|name| same(&name)).collect()));
        }
        match place(before) {
            Place::Text(start) => self.path(before, start),
            Place::Name(start) => {
                let columns = self.columns(line, &before[..start]);
                let names = columns.into_iter().chain(self.tables.keys().map(String::as_str));
                let begins = names.filter(|name| begins(name, &before[start + 1..]));
                Ok((
                    start,
                    begins
                        .map(|name| same(&format!("\"{}\"", name.replace('"', "\"\""))))
                        .collect(),
                ))
            }
            Place::Word(start, word) => match self.settings_at(before) {
                Some(settings) => Ok(settings),
                None => Ok((start, self.words(line, start, word))),
            },
        }
    }

    /// Paths that begin as the text from `start` on does. A quote in a name is doubled, as SQL wants it.
    fn path(&self, before: &str, start: usize) -> Result<(usize, Vec<Pair>)> {
        let Some(paths) = &self.paths else {
            return Ok((start, Vec::new()));
        };
        // In quotes, the completer escapes nothing.
        let quoted = format!("'{}", &before[start..]);
        let (at, mut pairs) = paths.complete_path(&quoted, quoted.len())?;
        for pair in &mut pairs {
            pair.replacement = pair.replacement.replace('\'', "''");
        }
        Ok((start + at - 1, pairs))
    }

    /// Settings, if the text ends in the word behind SET, SHOW or RESET.
    fn settings_at(&self, before: &str) -> Option<(usize, Vec<Pair>)> {
        let statement = before.rsplit(';').next().unwrap_or(before).trim_start();
        let (verb, rest) = statement.split_once(char::is_whitespace)?;
        let word = rest.trim_start();
        let verb = verb.to_uppercase();
        if !matches!(verb.as_str(), "SET" | "SHOW" | "RESET") || word.contains(|c: char| c == '=' || c.is_whitespace())
        {
            return None;
        }
        let settings = self.settings.iter().map(String::as_str);
        let shown = SHOWN.into_iter().filter(|_| verb == "SHOW");
        let names = shown.chain(settings).filter(|name| begins(name, word));
        Some((before.len() - word.len(), names.map(same).collect()))
    }

    fn words(&self, line: &str, start: usize, word: &str) -> Vec<Pair> {
        let before = &line[..start];
        let tables = || {
            self.tables
                .keys()
                .filter(|name| begins(name, word))
                .map(|name| named(name))
        };
        let is_qualified = before.ends_with('.');
        if !is_qualified && (word.is_empty() || after_table_word(before)) {
            let pairs: Vec<Pair> = tables().collect();
            if !word.is_empty() || !pairs.is_empty() {
                return pairs;
            }
        }
        let columns = self.columns(line, before);
        let mut pairs: Vec<Pair> = columns
            .into_iter()
            .filter(|name| begins(name, word))
            .map(named)
            .collect();
        if is_qualified {
            return pairs;
        }
        pairs.extend(tables());
        if !word.is_empty() {
            pairs.extend(keywords(word));
            let functions = self.functions.iter().filter(|name| begins(name, word));
            pairs.extend(functions.map(|name| Pair {
                display: format!("{name}()"),
                replacement: format!("{name}("),
            }));
        }
        pairs
    }

    /// The columns that may stand behind `before`: of the table that the qualifier names, else of the tables that the
    /// line names, else of all.
    fn columns(&self, line: &str, before: &str) -> BTreeSet<&str> {
        let named = NamedTables::of(line);
        let columns_of = |table: &str| {
            let mut known = self.tables.iter();
            let found = known.find(|(name, _)| name.eq_ignore_ascii_case(table));
            found.map(|(_, columns)| columns)
        };
        let qualifier = qualifier(before);
        let qualified = qualifier.and_then(|qualifier| columns_of(named.table(qualifier).unwrap_or(qualifier)));
        let mut columns: Vec<&Vec<String>> = match qualified {
            Some(columns) => vec![columns],
            None => named.iter().filter_map(columns_of).collect(),
        };
        if columns.is_empty() {
            columns = self.tables.values().collect();
        }
        columns.into_iter().flatten().map(String::as_str).collect()
    }
}

/// The place of the word at the end of a text.
fn place(before: &str) -> Place<'_> {
    let mut quote: Option<(char, usize)> = None;
    let mut at = 0;
    while let Some(c) = before[at..].chars().next() {
        let mut length = c.len_utf8();
        match quote {
            Some((open, _)) if c == open => quote = None,
            None if matches!(c, '\'' | '"') => quote = Some((c, at)),
            None => length = comment_bytes(&before[at..]).unwrap_or(length),
            _ => {}
        }
        at += length;
    }
    match quote {
        Some(('\'', at)) => Place::Text(at + 1),
        Some((_, at)) => Place::Name(at),
        None => {
            let word = before.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
            Place::Word(word.len(), &before[word.len()..])
        }
    }
}

/// The length of the comment at the start of a text.
fn comment_bytes(text: &str) -> Option<usize> {
    let end = match text.get(..2)? {
        "--" => "\n",
        "/*" => "*/",
        _ => return None,
    };
    Some(text.find(end).map_or(text.len(), |at| at + end.len()))
}

/// The name before a dot that ends the text.
fn qualifier(before: &str) -> Option<&str> {
    let name = before.strip_suffix('.')?;
    if let Some(quoted) = name.strip_suffix('"') {
        return quoted.rsplit('"').next();
    }
    let rest = name.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
    Some(&name[rest.len()..])
}

/// Whether the next word names a table.
fn after_table_word(before: &str) -> bool {
    let last = before.split_whitespace().next_back().unwrap_or("").to_uppercase();
    matches!(
        last.as_str(),
        "FROM" | "JOIN" | "DESCRIBE" | "TABLE" | "INTO" | "SUMMARIZE" | "\\D"
    )
}

/// Whether a name begins with a word, in any letter case.
fn begins(name: &str, word: &str) -> bool {
    name.to_lowercase().starts_with(&word.to_lowercase())
}

/// A candidate that replaces the word as it is shown.
fn same(text: &str) -> Pair {
    Pair {
        display: text.to_owned(),
        replacement: text.to_owned(),
    }
}

/// A name, in quotes if SQL wants them.
fn named(name: &str) -> Pair {
    same(&quote_identifier(name))
}

/// Keywords in the word's letter case.
fn keywords(word: &str) -> impl Iterator<Item = Pair> {
    let is_upper = word.chars().next().is_some_and(char::is_uppercase);
    let begun = KEYWORDS.into_iter().filter(move |keyword| begins(keyword, word));
    begun.map(move |keyword| match is_upper {
        true => same(keyword),
        false => same(&keyword.to_lowercase()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion() -> Completion {
        let mut completion = Completion::new(
            &grampus::session::context(grampus::GrampusConfig::default()).unwrap(),
            true,
        );
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        completion
            .tables
            .insert("trips".into(), columns(&["trip_distance", "VendorID"]));
        completion.tables.insert("zones".into(), columns(&["Zone Name", "id"]));
        completion
    }

    /// The candidates at `|`.
    fn complete(line: &str) -> Vec<String> {
        let position = line.find('|').unwrap();
        let (_, pairs) = completion().complete(&line.replace('|', ""), position).unwrap();
        pairs.into_iter().map(|pair| pair.replacement).collect()
    }

    #[test]
    fn names_and_keywords_are_completed_in_any_letter_case() {
        assert_eq!(complete("SELECT * FROM t|"), ["trips"]);
        assert_eq!(complete("select * from T|"), ["trips"]);
        assert_eq!(complete("select * from |"), ["trips", "zones"]);
        assert_eq!(complete("summarize |"), ["trips", "zones"]);
        assert_eq!(complete("SELECT TRIP|"), ["trip_distance", "trips"]);
        assert_eq!(complete("SELECT vendor|"), ["\"VendorID\""]);
        assert_eq!(complete("SELECT zon|"), ["\"Zone Name\"", "zones"]);
        assert_eq!(complete("SELECT \"zone n|"), ["\"Zone Name\""]);
        assert_eq!(complete("selec|"), ["select"]);
        assert_eq!(complete("SELEC|"), ["SELECT"]);
        assert_eq!(complete("select approx_med|"), ["approx_median("]);
        assert_eq!(complete("\\ti|"), ["\\timing"]);
        assert_eq!(complete("\\format ma|"), ["markdown"]);
        assert_eq!(complete(".mode ma|"), ["markdown"]);
        assert_eq!(complete(".ta|"), [".tables"]);
    }

    #[test]
    fn columns_are_those_of_the_alias_or_of_the_named_tables() {
        assert_eq!(
            complete("SELECT * FROM trips t WHERE t.|"),
            ["\"VendorID\"", "trip_distance"]
        );
        assert_eq!(complete("SELECT T.tr| FROM trips AS t, zones z"), ["trip_distance"]);
        assert_eq!(
            complete("SELECT * FROM trips JOIN zones \"Z\" ON \"Z\".|"),
            ["\"Zone Name\"", "id"]
        );
        assert_eq!(complete("SELECT zones.| FROM trips, zones"), ["\"Zone Name\"", "id"]);
        assert_eq!(complete("SELECT x.tr|"), ["trip_distance"]);
        assert_eq!(
            complete("SELECT i| FROM trips WHERE a IS NULL")
                .first()
                .map(String::as_str),
            Some("if")
        );
    }

    #[test]
    fn settings_are_completed_after_set_and_show() {
        assert_eq!(complete("SET grampus.dev|"), ["grampus.device"]);
        assert_eq!(complete("SELECT 1; reset GRAMPUS.DEV|"), ["grampus.device"]);
        assert_eq!(
            complete("show datafusion.runtime.memory_l|"),
            ["datafusion.runtime.memory_limit"]
        );
        assert_eq!(complete("SHOW tab|"), ["TABLES"]);
        assert!(complete("SET |").len() > 100);
        assert!(!complete("SET grampus.device = gr|").contains(&"grampus.device".to_owned()));
    }

    #[test]
    fn paths_are_completed_in_quotes() {
        assert_eq!(
            complete("CREATE EXTERNAL TABLE t STORED AS ORC LOCATION 'Cargo.to|"),
            ["Cargo.toml"]
        );
        assert_eq!(
            complete("SELECT \"it's\" /* don't */ -- isn't\n FROM 'Cargo.to|'"),
            ["Cargo.toml"]
        );
        assert_eq!(complete("\\i Cargo.to|"), ["Cargo.toml"]);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("two words'.orc"), "").unwrap();
        let typed = format!("{}/two", folder.path().display());
        let expected = [format!("{typed} words''.orc")];
        assert_eq!(complete(&format!("SELECT * FROM '{typed}|")), expected);
        // No path outside of quotes.
        assert!(complete("SELECT 'a' || Cargo.to|".replace("||", "+").as_str()).is_empty());
    }
}
