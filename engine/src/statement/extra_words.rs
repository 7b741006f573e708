//! Words that the SQL parser lacks, as words that it has.
//!
//! - `ASOF LEFT JOIN t ON c` and `ASOF JOIN t ON c` get a match condition, which says which of the two it is.
//! - `WITH t AS MATERIALIZED (…)` and `NOT MATERIALIZED` are `WITH t AS (…)`.
//! - `TABLESAMPLE 10%`, `TABLESAMPLE (10%)` and `TABLESAMPLE reservoir(10 ROWS)` are `TABLESAMPLE (10 PERCENT)` and
//!   `TABLESAMPLE (10 ROWS)`.
//! - The clauses of [`clause_words`].
//! - `CREATE FUNCTION f(a) AS e` without types is `CREATE MACRO f(a) AS e`.
//!
//! Places behind an insertion in its line are those of the changed text.

use std::ops::Range;

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::clause_words;
use super::text::{is_keyword, offset, statements};
use crate::relations::asof_join::{INNER, LEFT};

/// Words of which a text has one, if something is to be changed in it.
const SIGNS: [&str; 4] = ["ASOF", "MATERIALIZED", "FUNCTION", "TABLESAMPLE"];

/// The text with the parser's words.
pub(super) fn replaced(text: &str, dialect: &dyn Dialect) -> String {
    let mut replaced = text.to_owned();
    let upper = text.to_ascii_uppercase();
    if SIGNS
        .iter()
        .chain(&clause_words::SIGNS)
        .any(|word| upper.contains(word))
        // The parser reports what is wrong with the text.
        && let Ok(tokens) = Tokenizer::new(dialect, text).tokenize_with_location()
    {
        // From the end, so that places before stay.
        let statements: Vec<_> = statements(&tokens).collect();
        for tokens in statements.iter().rev() {
            for (range, word) in changes(text, tokens) {
                replaced.replace_range(range, &word);
            }
        }
    }
    replaced
}

/// What is to be put in the place of ranges of the text, the last one first.
fn changes(text: &str, tokens: &[&TokenWithSpan]) -> Vec<(Range<usize>, String)> {
    let range = |token: &TokenWithSpan| offset(text, token.span.start)..offset(text, token.span.end);
    let blank = |token: &TokenWithSpan| (range(token), " ".repeat(range(token).len()));
    let is = |at: usize, keyword| tokens.get(at).is_some_and(|token| is_keyword(&token.token, keyword));
    let mut changes = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if is(at, Keyword::MATERIALIZED) && tokens.get(at + 1).is_some_and(|next| next.token == Token::LParen) {
            let has_not = at > 0 && is(at - 1, Keyword::NOT);
            if at > usize::from(has_not) && is(at - 1 - usize::from(has_not), Keyword::AS) {
                changes.extend(has_not.then(|| blank(tokens[at - 1])));
                changes.push(blank(token));
            }
        }
        if is(at, Keyword::TABLESAMPLE) {
            changes.extend(sample(text, &tokens[at + 1..]));
        }
        if is(at, Keyword::ASOF) {
            changes.extend(asof(text, tokens, at));
        }
    }
    changes.extend(clause_words::changes(text, tokens));
    if let Some(function) = untyped_function(tokens) {
        changes.push((range(function), format!("{:8}", "MACRO")));
    }
    changes.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    changes
}

/// The changes of an ASOF JOIN whose first word is at a place.
fn asof(text: &str, tokens: &[&TokenWithSpan], at: usize) -> Vec<(Range<usize>, String)> {
    let is = |at: usize, keyword| tokens.get(at).is_some_and(|token| is_keyword(&token.token, keyword));
    let mut kind = INNER;
    let mut join = at + 1;
    let mut changes = Vec::new();
    while !is(join, Keyword::JOIN) {
        if is(join, Keyword::LEFT) {
            kind = LEFT;
        } else if !is(join, Keyword::OUTER) && !is(join, Keyword::INNER) {
            return Vec::new();
        }
        let word = offset(text, tokens[join].span.start)..offset(text, tokens[join].span.end);
        changes.push((word.clone(), " ".repeat(word.len())));
        join += 1;
    }
    let mut depth = 0;
    for token in &tokens[join..] {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            found if depth == 0 && (is_keyword(found, Keyword::ON) || is_keyword(found, Keyword::USING)) => {
                let place = offset(text, token.span.start);
                changes.push((place..place, format!("MATCH_CONDITION ('{kind}') ")));
                break;
            }
            found if depth < 0 || is_keyword(found, Keyword::MATCH_CONDITION) => break,
            _ => {}
        }
    }
    changes
}

/// The change of a sample's size behind the word, if the parser does not read it.
fn sample(text: &str, tokens: &[&TokenWithSpan]) -> Option<(Range<usize>, String)> {
    let method = match &tokens.first()?.token {
        Token::Word(word) => Some(word.value.to_ascii_uppercase()),
        _ => None,
    };
    let open = usize::from(method.is_some());
    let is_open = tokens.get(open)?.token == Token::LParen;
    let number = open + usize::from(is_open);
    let Token::Number(size, _) = &tokens.get(number)?.token else {
        return None;
    };
    let unit = tokens.get(number + 1)?;
    let words = match &unit.token {
        Token::Mod => "PERCENT",
        found if is_keyword(found, Keyword::PERCENT) => "PERCENT",
        found if is_keyword(found, Keyword::ROWS) => "ROWS",
        _ => return None,
    };
    let last = match (is_open, tokens.get(number + 2)) {
        (true, close) => close.filter(|close| close.token == Token::RParen)?,
        (false, _) => unit,
    };
    let method = method.filter(|method| method != "RESERVOIR").unwrap_or_default();
    let range = offset(text, tokens[0].span.start)..offset(text, last.span.end);
    Some((range, format!("{method} ({size} {words})")))
}

/// The word `FUNCTION` of `CREATE FUNCTION f(a, b) AS`.
fn untyped_function<'a>(tokens: &[&'a TokenWithSpan]) -> Option<&'a TokenWithSpan> {
    let is = |at: usize, keyword| tokens.get(at).is_some_and(|token| is_keyword(&token.token, keyword));
    if !is(0, Keyword::CREATE) {
        return None;
    }
    let skipped = [Keyword::OR, Keyword::REPLACE, Keyword::TEMP, Keyword::TEMPORARY];
    let function = (1..tokens.len()).find(|&at| !skipped.iter().any(|&word| is(at, word)))?;
    if !is(function, Keyword::FUNCTION) {
        return None;
    }
    let open = function + 2;
    let close = open
        + tokens
            .get(open..)?
            .iter()
            .position(|token| token.token == Token::RParen)?;
    let is_typed = tokens[open + 1..close]
        .windows(2)
        .any(|pair| pair.iter().all(|token| matches!(token.token, Token::Word(_))));
    let is_short = tokens[open].token == Token::LParen && is(close + 1, Keyword::AS) && !is_typed;
    is_short.then(|| tokens[function])
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    #[test]
    fn words_become_those_of_the_parser() {
        for (text, expected) in [
            (
                "FROM l ASOF LEFT JOIN r ON l.t >= r.t",
                "FROM l ASOF      JOIN r MATCH_CONDITION ('left') ON l.t >= r.t",
            ),
            (
                "FROM l ASOF JOIN (SELECT 1 FROM a JOIN b ON c) r USING (t)",
                "FROM l ASOF JOIN (SELECT 1 FROM a JOIN b ON c) r MATCH_CONDITION ('inner') USING (t)",
            ),
            (
                "FROM l ASOF JOIN r MATCH_CONDITION (l.t > r.t) ON l.k = r.k",
                "FROM l ASOF JOIN r MATCH_CONDITION (l.t > r.t) ON l.k = r.k",
            ),
            ("SELECT asof FROM materialized", "SELECT asof FROM materialized"),
            (
                "WITH a AS NOT MATERIALIZED (SELECT 1)",
                "WITH a AS                  (SELECT 1)",
            ),
            ("FROM t TABLESAMPLE 10%", "FROM t TABLESAMPLE  (10 PERCENT)"),
            (
                "FROM t TABLESAMPLE reservoir(5 ROWS) WHERE a",
                "FROM t TABLESAMPLE  (5 ROWS) WHERE a",
            ),
            (
                "FROM t TABLESAMPLE SYSTEM (5%)",
                "FROM t TABLESAMPLE SYSTEM (5 PERCENT)",
            ),
            ("FROM t TABLESAMPLE (5)", "FROM t TABLESAMPLE (5)"),
            ("CREATE FUNCTION f(a, b) AS a + b", "CREATE MACRO    f(a, b) AS a + b"),
            (
                "CREATE FUNCTION f(a INT) RETURNS INT",
                "CREATE FUNCTION f(a INT) RETURNS INT",
            ),
        ] {
            assert_eq!(replaced(text, &GenericDialect {}), expected);
        }
    }
}
