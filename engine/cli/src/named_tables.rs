//! [`NamedTables`]: the tables that an unfinished statement names, with their aliases.
//!
//! The text is read as tokens up to the first that is no token, such as an open quote. A name counts as a table behind
//! FROM, JOIN, INTO, a comma and others, so it may be none: callers look it up.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};

/// Names of tables, each with its alias if it has one, in the order of the text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedTables {
    names: Vec<(String, Option<String>)>,
}

impl NamedTables {
    /// The names in a text.
    pub(crate) fn of(text: &str) -> Self {
        let mut tokens = Vec::new();
        // The tokens before an open quote are enough.
        let _ = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location_into_buf(&mut tokens);
        let tokens: Vec<Token> = tokens
            .into_iter()
            .map(|TokenWithSpan { token, .. }| token)
            .filter(|token| !matches!(token, Token::Whitespace(_)))
            .collect();
        let starts = (0..tokens.len()).filter(|at| precedes_table(&tokens[*at]));
        Self {
            names: starts.filter_map(|at| named(&tokens[at + 1..])).collect(),
        }
    }

    /// The table that a qualifier stands for: an alias, or the last part of a table's name.
    pub(crate) fn table(&self, qualifier: &str) -> Option<&str> {
        let is_alias = |(name, alias): &&(String, Option<String>)| match alias {
            Some(alias) => alias.eq_ignore_ascii_case(qualifier),
            None => last_part(name).eq_ignore_ascii_case(qualifier),
        };
        self.names.iter().find(is_alias).map(|(name, _)| name.as_str())
    }

    /// All names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| name.as_str())
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn precedes_table(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::FROM | Keyword::JOIN | Keyword::INTO | Keyword::UPDATE | Keyword::DESCRIBE | Keyword::TABLE
        ),
        token => *token == Token::Comma,
    }
}

/// The name at the start of some tokens, and its alias.
fn named(tokens: &[Token]) -> Option<(String, Option<String>)> {
    let mut tokens = tokens.iter().peekable();
    let mut name = match tokens.next()? {
        Token::Word(word) if is_name(word) => word.value.clone(),
        Token::SingleQuotedString(path) => path.clone(),
        _ => return None,
    };
    while tokens.next_if(|token| **token == Token::Period).is_some() {
        match tokens.next() {
            Some(Token::Word(word)) => name = format!("{name}.{}", word.value),
            _ => return None,
        }
    }
    tokens.next_if(|token| matches!(token, Token::Word(word) if word.keyword == Keyword::AS));
    let alias = match tokens.next() {
        Some(Token::Word(word)) if is_name(word) => Some(word.value.clone()),
        _ => None,
    };
    Some((name, alias))
}

fn is_name(word: &Word) -> bool {
    word.quote_style.is_some() || !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_stand_for_tables() {
        let tables = NamedTables::of("SELECT t. FROM Trips t JOIN a.b.zones AS \"Z\", 'x.orc' x WHERE t.x = 'open");
        let found = ["T", "z", "x", "zones", "trips"].map(|qualifier| tables.table(qualifier));
        assert_eq!(found, [Some("Trips"), Some("a.b.zones"), Some("x.orc"), None, None]);
        let tables = NamedTables::of("UPDATE trips SET a = 1; FROM b.zones WHERE zones.");
        assert_eq!(
            (tables.table("trips"), tables.table("zones")),
            (Some("trips"), Some("b.zones"))
        );
        assert_eq!(NamedTables::of("SELECT 1 FROM (SELECT 2) AS x"), NamedTables::default());
    }
}
