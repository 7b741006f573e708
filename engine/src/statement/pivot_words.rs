//! [`replaced`]: `t PIVOT (sum(x) FOR a IN (1, 2) b IN (3, 4) GROUP BY k)`, which the parser does not read, as the
//! short statement `(PIVOT t ON a IN (1, 2), b IN (3, 4) USING sum(x) GROUP BY k)`.
//!
//! The parser reads a pivot of one FOR, unless it groups.

use std::ops::Range;

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::clause_words::closing;
use super::operators::is_word;
use super::text::{is_keyword, offset, statements};

/// The text with short statements in the place of such pivots.
pub(super) fn replaced(text: &str, dialect: &dyn Dialect) -> String {
    let mut text = text.to_owned();
    if !text.to_ascii_uppercase().contains("PIVOT") {
        return text;
    }
    while let Some((range, short)) = last(&text, dialect) {
        text.replace_range(range, &short);
    }
    text
}

/// The last such pivot of the text, and its short statement.
fn last(text: &str, dialect: &dyn Dialect) -> Option<(Range<usize>, String)> {
    // The parser reports what is wrong with the text.
    let tokens = Tokenizer::new(dialect, text).tokenize_with_location().ok()?;
    let statements: Vec<_> = statements(&tokens).collect();
    statements
        .iter()
        .rev()
        .find_map(|tokens| (1..tokens.len()).rev().find_map(|at| short(text, tokens, at)))
}

/// The short statement of a pivot whose word is at a place.
fn short(text: &str, tokens: &[&TokenWithSpan], pivot: usize) -> Option<(Range<usize>, String)> {
    let is = |at: usize, keyword| tokens.get(at).is_some_and(|token| is_keyword(&token.token, keyword));
    let slice = |from: usize, to: usize| {
        let range = offset(text, tokens[from].span.start)..offset(text, tokens[to].span.end);
        &text[range]
    };
    let open = pivot + 1;
    if !is_word(&tokens[pivot].token, "PIVOT") || tokens.get(open)?.token != Token::LParen {
        return None;
    }
    let close = closing(tokens, open)?;
    let table = table(tokens, pivot)?;
    let outside = outside(tokens, open + 1, close);
    let position = |keyword| outside.iter().copied().find(|&at| is(at, keyword));
    let words = position(Keyword::FOR)?;
    let group = position(Keyword::GROUP);
    let lists: Vec<usize> = outside
        .iter()
        .copied()
        .filter(|&at| at > words && is(at, Keyword::IN))
        .collect();
    if lists.len() < 2 && group.is_none() {
        return None;
    }
    // Each column begins behind the list before.
    let mut columns = Vec::new();
    let mut from = words + 1;
    for list in lists {
        let end = closing(tokens, list + 1)?;
        columns.push(slice(from, end));
        from = end + 1;
    }
    let group = group.map(|group| slice(group, close - 1)).unwrap_or_default();
    let short = format!(
        "(PIVOT {} ON {} USING {} {group})",
        slice(table, pivot - 1),
        columns.join(", "),
        slice(open + 1, words - 1),
    );
    let range = offset(text, tokens[table].span.start)..offset(text, tokens[close].span.end);
    Some((range, short))
}

/// Where the table begins that ends before a place: a name, a text, or a subquery without alias.
fn table(tokens: &[&TokenWithSpan], end: usize) -> Option<usize> {
    let mut start = end.checked_sub(1)?;
    if tokens[start].token == Token::RParen {
        let mut depth = 0;
        start = (0..=start).rev().find(|&at| {
            match tokens[at].token {
                Token::RParen => depth += 1,
                Token::LParen => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
    } else {
        while start >= 2 && tokens[start - 1].token == Token::Period {
            start -= 2;
        }
    }
    let before = &tokens.get(start.checked_sub(1)?)?.token;
    let begins = *before == Token::Comma
        || *before == Token::LParen
        || is_keyword(before, Keyword::FROM)
        || is_keyword(before, Keyword::JOIN);
    begins.then_some(start)
}

/// The places between two that are in no parentheses of their own.
fn outside(tokens: &[&TokenWithSpan], from: usize, to: usize) -> Vec<usize> {
    let mut depth = 0;
    (from..to)
        .filter(|&at| {
            match tokens[at].token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            depth == 0 && tokens[at].token != Token::RParen
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::dialect;
    use super::*;

    #[test]
    fn pivots_of_several_columns_become_short_statements() {
        let state = datafusion::prelude::SessionContext::new().state();
        let dialect = dialect::of_session(&state).unwrap();
        for (text, expected) in [
            (
                "SELECT * FROM s.t PIVOT (sum(b) AS n FOR c IN ('x', 'y') a IN (1, 2) GROUP BY d) AS p",
                "SELECT * FROM (PIVOT s.t ON c IN ('x', 'y'), a IN (1, 2) USING sum(b) AS n GROUP BY d) AS p",
            ),
            (
                "FROM (SELECT (1)) PIVOT (max(f(b)) FOR c IN (1) GROUP BY k)",
                "FROM (PIVOT (SELECT (1)) ON c IN (1) USING max(f(b)) GROUP BY k)",
            ),
            (
                "FROM t PIVOT (sum(b) FOR c IN ('x', 'y'))",
                "FROM t PIVOT (sum(b) FOR c IN ('x', 'y'))",
            ),
        ] {
            assert_eq!(replaced(text, dialect.as_ref()), expected);
        }
    }
}
