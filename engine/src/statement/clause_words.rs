//! [`changes`]: clauses that the SQL parser lacks, as words that it has.
//!
//! - `* LIKE 'a%'`, `* NOT LIKE`, `* GLOB` and `* SIMILAR TO` are `COLUMNS(name -> name LIKE 'a%')`.
//! - `LIMIT 10%` and `LIMIT 10 PERCENT` are `LIMIT '10%'`, which [`percent_limits`](super::percent_limits) plans.
//! - `USING SAMPLE 10%` is `QUALIFY 'TABLESAMPLE (10 PERCENT)'`, which [`samples`](super::samples) reads.
//! - `INSERT INTO t BY NAME SELECT` is `INSERT INTO t ("BY NAME") SELECT`, which
//!   [`insert_by_name`](super::insert_by_name) reads.
//! - `INSERT INTO t (PIVOT …)` and `INSERT INTO t (FROM …)` are those without parentheses.
//! - `EXPLAIN (FORMAT json)` is `EXPLAIN (FORMAT pgjson)`, which is JSON as PostgreSQL writes it.
//! - `UNPIVOT t ON *` is `UNPIVOT t ON COLUMNS(*)`.

use std::ops::Range;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::insert_by_name::BY_NAME;
use super::operators::is_word;
use super::text::{is_keyword, offset};

/// Words of which a text has one, if something is to be changed in it.
pub(super) const SIGNS: [&str; 9] = [
    "LIKE", "GLOB", "SIMILAR", "LIMIT", "SAMPLE", "BY NAME", "PIVOT", "INSERT", "EXPLAIN",
];

/// Words of EXPLAIN before its statement, at most.
const EXPLAIN_OPTIONS: usize = 12;

/// What is to be put in the place of ranges of a statement.
pub(super) fn changes(text: &str, tokens: &[&TokenWithSpan]) -> Vec<(Range<usize>, String)> {
    let is = |at: usize, keyword| tokens.get(at).is_some_and(|token| is_keyword(&token.token, keyword));
    let mut changes = Vec::new();
    let is_unpivot = tokens
        .iter()
        .any(|token| is_word(&token.token, "UNPIVOT") || is_word(&token.token, "PIVOT_LONGER"));
    for at in 0..tokens.len() {
        if tokens[at].token == Token::Mul {
            changes.extend(star_like(text, tokens, at));
            if is_unpivot {
                changes.extend(all_columns(text, tokens, at));
            }
        }
        if is(at, Keyword::LIMIT) {
            changes.extend(percent(text, tokens, at + 1));
        }
        if is(at, Keyword::USING) && tokens.get(at + 1).is_some_and(|next| is_word(&next.token, "SAMPLE")) {
            changes.extend(sample(text, tokens, at));
        }
    }
    if is(0, Keyword::EXPLAIN)
        && let Some(at) = (1..tokens.len().min(EXPLAIN_OPTIONS)).find(|&at| is(at, Keyword::FORMAT))
        && is(at + 1, Keyword::JSON)
    {
        changes.push((range(text, tokens[at + 1], tokens[at + 1]), "pgjson".to_owned()));
    }
    if is(0, Keyword::INSERT) {
        changes.extend(insert(text, tokens));
    }
    changes
}

fn range(text: &str, from: &TokenWithSpan, to: &TokenWithSpan) -> Range<usize> {
    offset(text, from.span.start)..offset(text, to.span.end)
}

/// The change of `* LIKE 'pattern'`, whose star is at a place.
fn star_like(text: &str, tokens: &[&TokenWithSpan], star: usize) -> Option<(Range<usize>, String)> {
    let is = |at: usize, keyword| tokens.get(at).is_some_and(|token| is_keyword(&token.token, keyword));
    let before = star.checked_sub(1)?;
    let begins_item =
        tokens[before].token == Token::Comma || is(before, Keyword::SELECT) || is(before, Keyword::DISTINCT);
    if !begins_item {
        return None;
    }
    let operator = star + 1 + usize::from(is(star + 1, Keyword::NOT));
    let is_similar = is(operator, Keyword::SIMILAR) && is(operator + 1, Keyword::TO);
    // The parser reads `* ILIKE 'pattern'`.
    let is_like = is(operator, Keyword::LIKE)
        || (is(operator, Keyword::ILIKE) && operator > star + 1)
        || tokens.get(operator).is_some_and(|token| is_word(&token.token, "GLOB"));
    let pattern = operator + 1 + usize::from(is_similar);
    if !(is_like || is_similar) || !matches!(tokens.get(pattern)?.token, Token::SingleQuotedString(_)) {
        return None;
    }
    let condition = &text[range(text, tokens[star + 1], tokens[pattern])];
    let choice = format!("COLUMNS(name -> name {condition})");
    Some((range(text, tokens[star], tokens[pattern]), choice))
}

/// The change of `ON *` and `IN (*)` of an UNPIVOT, whose star is at a place.
fn all_columns(text: &str, tokens: &[&TokenWithSpan], star: usize) -> Option<(Range<usize>, String)> {
    let is = |at: usize, keyword| tokens.get(at).is_some_and(|token| is_keyword(&token.token, keyword));
    let is_list = star >= 2 && tokens[star - 1].token == Token::LParen && is(star - 2, Keyword::IN);
    if !(is_list || star >= 1 && is(star - 1, Keyword::ON)) {
        return None;
    }
    let mut last = star;
    if is(star + 1, Keyword::EXCLUDE) {
        last = match tokens.get(star + 2)?.token {
            Token::LParen => closing(tokens, star + 2)?,
            _ => star + 2,
        };
    }
    let range = range(text, tokens[star], tokens[last]);
    let choice = format!("COLUMNS({})", &text[range.clone()]);
    Some((range, choice))
}

/// The change of `10%` or `10 PERCENT`, whose number is at a place behind LIMIT.
fn percent(text: &str, tokens: &[&TokenWithSpan], number: usize) -> Option<(Range<usize>, String)> {
    let Token::Number(size, _) = &tokens.get(number)?.token else {
        return None;
    };
    let unit = tokens.get(number + 1)?;
    if unit.token != Token::Mod && !is_keyword(&unit.token, Keyword::PERCENT) {
        return None;
    }
    // `LIMIT 10 % 3` is a remainder.
    let ends = tokens.get(number + 2).is_none_or(|next| {
        let words = [
            Keyword::OFFSET,
            Keyword::UNION,
            Keyword::EXCEPT,
            Keyword::INTERSECT,
            Keyword::FOR,
        ];
        next.token == Token::RParen || words.into_iter().any(|word| is_keyword(&next.token, word))
    });
    ends.then(|| (range(text, tokens[number], unit), format!("'{size}%'")))
}

/// The change of `USING SAMPLE …`, whose first word is at a place.
fn sample(text: &str, tokens: &[&TokenWithSpan], using: usize) -> Option<(Range<usize>, String)> {
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    let mut at = using + 2;
    let mut method = String::new();
    if let Token::Word(word) = token(at)? {
        method = word.value.to_ascii_uppercase();
        if token(at + 1)? != &Token::LParen {
            return None;
        }
        at += 2;
    }
    let Token::Number(size, _) = token(at)? else {
        return None;
    };
    let (unit, words) = match token(at + 1) {
        Some(Token::Mod) => ("PERCENT", 1),
        Some(word) if is_keyword(word, Keyword::PERCENT) => ("PERCENT", 1),
        Some(word) if is_keyword(word, Keyword::ROWS) => ("ROWS", 1),
        _ => ("ROWS", 0),
    };
    at += words;
    let mut seed = None;
    if method.is_empty() {
        // `10% (bernoulli, 7)`
        if let (Some(Token::LParen), Some(Token::Word(word))) = (token(at + 1), token(at + 2)) {
            method = word.value.to_ascii_uppercase();
            at += 2;
            (at, seed) = seeded(tokens, at);
            at += 1;
        }
    } else {
        (at, seed) = seeded(tokens, at);
        at += 1;
    }
    let last = tokens.get(at)?;
    if !method.is_empty() && last.token != Token::RParen {
        return None;
    }
    if tokens
        .get(at + 1)
        .is_some_and(|next| is_word(&next.token, "REPEATABLE"))
    {
        let close = closing(tokens, at + 2)?;
        seed = Some(
            text[range(text, tokens[at + 2], tokens[close])]
                .trim_matches(['(', ')'])
                .to_owned(),
        );
        at = close;
    }
    let method = if method == "RESERVOIR" { "" } else { method.as_str() };
    let seed = seed.map(|seed| format!(" REPEATABLE ({seed})")).unwrap_or_default();
    let sample = format!("QUALIFY 'TABLESAMPLE {method} ({size} {unit}){seed}'");
    Some((range(text, tokens[using], tokens[at]), sample))
}

/// The place of a seed behind a comma, and the seed. Without one, the place stays.
fn seeded(tokens: &[&TokenWithSpan], at: usize) -> (usize, Option<String>) {
    match (
        tokens.get(at + 1).map(|token| &token.token),
        tokens.get(at + 2).map(|token| &token.token),
    ) {
        (Some(Token::Comma), Some(Token::Number(seed, _))) => (at + 2, Some(seed.clone())),
        _ => (at, None),
    }
}

/// The changes of an INSERT: `BY NAME`, and parentheses around a query that the parser takes for columns.
fn insert(text: &str, tokens: &[&TokenWithSpan]) -> Vec<(Range<usize>, String)> {
    let is = |at: usize, keyword| tokens.get(at).is_some_and(|token| is_keyword(&token.token, keyword));
    // `INSERT INTO a.b`, with single words between points.
    let Some(into) = (1..tokens.len()).find(|&at| is(at, Keyword::INTO)) else {
        return Vec::new();
    };
    let mut behind = into + 1 + usize::from(is(into + 1, Keyword::TABLE)) + 1;
    while tokens.get(behind).is_some_and(|token| token.token == Token::Period) {
        behind += 2;
    }
    if is(behind, Keyword::BY) && tokens.get(behind + 1).is_some_and(|next| is_word(&next.token, "NAME")) {
        let range = range(text, tokens[behind], tokens[behind + 1]);
        return vec![(range, format!("(\"{BY_NAME}\")"))];
    }
    let begins_query = ["FROM", "PIVOT", "UNPIVOT", "PIVOT_WIDER", "PIVOT_LONGER"];
    let has_query = tokens.get(behind).is_some_and(|token| token.token == Token::LParen)
        && tokens
            .get(behind + 1)
            .is_some_and(|next| begins_query.iter().any(|word| is_word(&next.token, word)))
        // Not a column of that name.
        && tokens
            .get(behind + 2)
            .is_some_and(|next| !matches!(next.token, Token::Comma | Token::RParen));
    match closing(tokens, behind).filter(|_| has_query) {
        Some(close) => [behind, close]
            .map(|at| (range(text, tokens[at], tokens[at]), " ".to_owned()))
            .into(),
        None => Vec::new(),
    }
}

/// The parenthesis that closes the one at a place.
pub(super) fn closing(tokens: &[&TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0;
    (open..tokens.len()).find(|&at| {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::super::dialect;
    use super::super::extra_words::replaced;

    #[test]
    fn clauses_become_those_of_the_parser() {
        let state = datafusion::prelude::SessionContext::new().state();
        let dialect = dialect::of_session(&state).unwrap();
        for (text, expected) in [
            ("SELECT * LIKE 'a%', 1", "SELECT COLUMNS(name -> name LIKE 'a%'), 1"),
            (
                "SELECT a, * NOT GLOB 'é'",
                "SELECT a, COLUMNS(name -> name NOT GLOB 'é')",
            ),
            ("SELECT 2 * like FROM t", "SELECT 2 * like FROM t"),
            ("FROM t LIMIT 10%", "FROM t LIMIT '10%'"),
            (
                "FROM (FROM t LIMIT 2.5 PERCENT) LIMIT 10 % 3",
                "FROM (FROM t LIMIT '2.5%') LIMIT 10 % 3",
            ),
            ("FROM t LIMIT 10% OFFSET 2", "FROM t LIMIT '10%' OFFSET 2"),
            ("FROM t USING SAMPLE 5", "FROM t QUALIFY 'TABLESAMPLE  (5 ROWS)'"),
            (
                "FROM t USING SAMPLE 10% (bernoulli, 7) ORDER BY a",
                "FROM t QUALIFY 'TABLESAMPLE BERNOULLI (10 PERCENT) REPEATABLE (7)' ORDER BY a",
            ),
            (
                "(FROM t USING SAMPLE reservoir(5 ROWS) REPEATABLE (1))",
                "(FROM t QUALIFY 'TABLESAMPLE  (5 ROWS) REPEATABLE (1)')",
            ),
            ("FROM t JOIN u USING (sample)", "FROM t JOIN u USING (sample)"),
            (
                "INSERT INTO s.t BY NAME SELECT 1 AS a",
                "INSERT INTO s.t (\"BY NAME\") SELECT 1 AS a",
            ),
            ("INSERT INTO t (FROM u)", "INSERT INTO t  FROM u "),
            (
                "INSERT INTO t (pivot, a) SELECT 1, 2",
                "INSERT INTO t (pivot, a) SELECT 1, 2",
            ),
            ("UNPIVOT t ON *", "UNPIVOT t ON COLUMNS(*)"),
            (
                "UNPIVOT t ON * EXCLUDE (a) INTO NAME n VALUE v",
                "UNPIVOT t ON COLUMNS(* EXCLUDE (a)) INTO NAME n VALUE v",
            ),
        ] {
            assert_eq!(replaced(text, dialect.as_ref()), expected);
        }
    }
}
