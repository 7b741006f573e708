//! The tokens of a text, statement by statement, and their places.

use datafusion::sql::sqlparser::keywords::Keyword;
pub(super) use datafusion::sql::sqlparser::tokenizer::Location as Place;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens of each statement that is not empty, without white space and comments.
pub(super) fn statements(tokens: &[TokenWithSpan]) -> impl Iterator<Item = Vec<&TokenWithSpan>> {
    let is_text = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    tokens
        .split(|token| token.token == Token::SemiColon)
        .map(move |statement| statement.iter().filter(is_text).collect::<Vec<_>>())
        .filter(|statement| !statement.is_empty())
}

/// Whether a token is an unquoted keyword.
pub(super) fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// Whether a query may begin with a token.
pub(super) fn begins_query(token: &Token) -> bool {
    let words = [Keyword::SELECT, Keyword::WITH, Keyword::VALUES, Keyword::FROM];
    *token == Token::LParen || words.into_iter().any(|word| is_keyword(token, word))
}

/// The byte at a place, whose line and column count characters from 1.
pub(super) fn offset(text: &str, place: Place) -> usize {
    let (line, column) = (place.line as usize, place.column as usize);
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let before = text[start..].chars().take(column - 1);
    start + before.map(char::len_utf8).sum::<usize>()
}
