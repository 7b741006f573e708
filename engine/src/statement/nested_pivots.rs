//! [`take`]: short PIVOT and UNPIVOT statements inside other statements.
//!
//! `FROM (PIVOT t ON c USING sum(x))`, `WITH t AS (…) PIVOT t ON c` and `CREATE TABLE p AS PIVOT t ON c` are DuckDB's.
//! The SQL parser knows these statements only alone, by [`extra_statements`](super::extra_statements). So each is
//! parsed alone, at its place, and the parser reads `FROM name` instead, of the same length. [`put`] gives the name its
//! query.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Query, SetExpr, Statement as SqlStatement, TableFactor, VisitorMut};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::expressions;
use super::operators::is_word;
use super::text::{is_keyword, offset, statements};

/// The queries of such statements, by the names that stand for them.
pub(super) type Pivots = HashMap<String, Box<Query>>;

/// The text with names in the place of these statements.
///
/// # Errors
/// If one of them is no SQL.
pub(super) fn take(text: &str, dialect: &dyn Dialect, depth: usize) -> Result<(String, Pivots)> {
    let (mut text, mut pivots) = (text.to_owned(), Pivots::new());
    if !text.to_ascii_uppercase().contains("PIVOT") {
        return Ok((text, pivots));
    }
    // The last one holds no other one.
    while let Some(range) = last(&text, dialect) {
        let name = (0..)
            .map(|number| format!("__p{number}"))
            .find(|name| !text.contains(name));
        let name = name.unwrap_or_default();
        let mut alone = text.clone();
        blank(&mut alone, 0..range.start);
        alone.truncate(range.end);
        let parsed = Parser::new(dialect)
            .with_recursion_limit(depth)
            .try_with_sql(&alone)
            .and_then(|mut parser| {
                let statement = parser.parse_statement()?;
                parser.expect_token(&Token::EOF)?;
                Ok(statement)
            });
        let SqlStatement::Query(query) = parsed.map_err(|error| DataFusionError::SQL(Box::new(error), None))? else {
            break;
        };
        blank(&mut text, range.clone());
        // The shortest statement, `PIVOT t ON c`, has space for more than a thousand names.
        let words = format!("FROM {name}");
        text.replace_range(range.start..range.start + words.len().min(range.len()), &words);
        pivots.insert(name, query);
    }
    Ok((text, pivots))
}

/// Puts the queries in the place of those that read their names.
pub(super) fn put(statement: &mut Statement, pivots: &Pivots) {
    if !pivots.is_empty() {
        expressions::visit(statement, &mut Insertion(pivots));
    }
}

struct Insertion<'a>(&'a Pivots);

impl VisitorMut for Insertion<'_> {
    type Break = ();

    // Before its parts, so that queries inside of the query are put too.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = query.body.as_ref()
            && let [from] = select.from.as_slice()
            && let TableFactor::Table { name, .. } = &from.relation
            && let Some(pivot) = self.0.get(&name.to_string())
        {
            let with = query.with.take();
            *query = Query {
                with,
                ..pivot.as_ref().clone()
            };
        }
        ControlFlow::Continue(())
    }
}

/// The place of the last such statement inside of another.
fn last(text: &str, dialect: &dyn Dialect) -> Option<Range<usize>> {
    // The parser reports what is wrong with the text.
    let tokens = Tokenizer::new(dialect, text).tokenize_with_location().ok()?;
    let statements: Vec<_> = statements(&tokens).collect();
    statements.iter().rev().find_map(|tokens| {
        let start = (1..tokens.len()).rev().find(|&at| begins(tokens, at))?;
        let end = match tokens[start - 1].token {
            Token::LParen => close(tokens, start)?,
            _ => tokens.len(),
        };
        let last = tokens.get(end - 1)?;
        Some(offset(text, tokens[start].span.start)..offset(text, last.span.end))
    })
}

/// Whether a short statement begins here, inside of another one. `t PIVOT (…)` is no statement.
fn begins(tokens: &[&TokenWithSpan], at: usize) -> bool {
    let is_first_word = ["PIVOT", "UNPIVOT", "PIVOT_WIDER", "PIVOT_LONGER"]
        .iter()
        .any(|word| is_word(&tokens[at].token, word));
    let follows_on = || {
        let table = match tokens.get(at + 1).map(|token| &token.token) {
            Some(Token::LParen) => close(tokens, at + 2).map(|end| end + 1),
            Some(Token::Word(_) | Token::SingleQuotedString(_)) => Some(at + 2),
            _ => None,
        };
        table.is_some_and(|behind| {
            // Behind the table, perhaps with an alias or arguments.
            let mut words = tokens[behind..].iter().take_while(|token| token.token != Token::RParen);
            words.any(|token| is_keyword(&token.token, Keyword::ON))
        })
    };
    let is_inside = match &tokens[at - 1].token {
        Token::LParen => true,
        Token::RParen => is_keyword(&tokens[0].token, Keyword::WITH) || is_keyword(&tokens[0].token, Keyword::INSERT),
        before if is_keyword(before, Keyword::AS) => is_keyword(&tokens[0].token, Keyword::CREATE),
        _ => is_keyword(&tokens[0].token, Keyword::INSERT),
    };
    is_first_word && is_inside && follows_on()
}

/// The parenthesis that closes the one before a place.
fn close(tokens: &[&TokenWithSpan], from: usize) -> Option<usize> {
    let mut depth = 1;
    (from..tokens.len()).find(|&at| {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// Puts spaces in the place of a part of the text.
pub(super) fn blank(text: &mut String, range: Range<usize>) {
    let letter = |letter| if letter == '\n' { '\n' } else { ' ' };
    let blank: String = text[range.clone()].chars().map(letter).collect();
    text.replace_range(range, &blank);
}

#[cfg(test)]
mod tests {
    use super::super::dialect;
    use super::*;

    #[test]
    fn short_statements_are_found_inside_of_others() {
        let state = datafusion::prelude::SessionContext::new().state();
        let dialect = dialect::of_session(&state).unwrap();
        for (text, expected) in [
            ("SELECT * FROM (PIVOT t ON s) AS p", "SELECT * FROM (FROM __p0   ) AS p"),
            (
                "WITH a AS (SELECT 1 AS x) PIVOT a ON x USING sum(x)",
                "WITH a AS (SELECT 1 AS x) FROM __p0                ",
            ),
            ("CREATE TABLE p AS PIVOT t ON s", "CREATE TABLE p AS FROM __p0   "),
            (
                "FROM (UNPIVOT (PIVOT t ON s) ON a, b)",
                "FROM (FROM __p1                     )",
            ),
            (
                "FROM t PIVOT (sum(b) FOR s IN ('x'))",
                "FROM t PIVOT (sum(b) FOR s IN ('x'))",
            ),
            (
                "SELECT pivot FROM t AS pivot JOIN u ON a",
                "SELECT pivot FROM t AS pivot JOIN u ON a",
            ),
        ] {
            assert_eq!(take(text, dialect.as_ref(), 50).unwrap().0, expected);
        }
        assert!(take("SELECT * FROM (PIVOT t ON s USING)", dialect.as_ref(), 50).is_err());
    }
}
