//! [`parse_statements`]: the statements of a text, `SUMMARIZE` among them.
//!
//! The SQL parser does not know `SUMMARIZE`. The word is replaced by another of the same length: `SUMMARIZE trips` is
//! read as `FROM      trips`, and `SUMMARIZE SELECT …` as the query alone. So places in errors stay. The query is
//! marked as a summary afterwards.

use datafusion::common::plan_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::{Dialect, dialect_from_str};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

use super::summary;

const SUMMARIZE: &str = "SUMMARIZE";

/// The statements of a text, in the session's dialect.
///
/// Besides DataFusion's statements there is `SUMMARIZE`, before the name of a table or a query, also after `EXPLAIN`.
///
/// # Errors
/// If the text is no SQL.
pub fn parse_statements(state: &SessionState, text: &str) -> Result<Vec<Statement>> {
    let options = &state.config_options().sql_parser;
    let dialect = dialect_from_str(options.dialect)
        .ok_or_else(|| plan_datafusion_err!("there is no SQL dialect named {}", options.dialect))?;
    let (text, summaries) = without_summarize(text, dialect.as_ref());
    let mut parser = DFParserBuilder::new(text.as_str())
        .with_dialect(dialect.as_ref())
        .with_recursion_limit(options.recursion_limit.get())
        .build()?;
    let mut statements: Vec<Statement> = parser.parse_statements()?.into();
    for number in summaries {
        statements.get_mut(number).into_iter().for_each(summary::mark);
    }
    Ok(statements)
}

/// The only statement of a text.
///
/// # Errors
/// As [`parse_statements`], and if the text has another number of statements.
pub fn parse_statement(state: &SessionState, text: &str) -> Result<Statement> {
    let mut statements = parse_statements(state, text)?.into_iter();
    match (statements.next(), statements.next()) {
        (Some(statement), None) => Ok(statement),
        (None, _) => Err(plan_datafusion_err!("the text holds no SQL statement")),
        _ => Err(plan_datafusion_err!("the text holds more than one SQL statement")),
    }
}

/// The text with other words for `SUMMARIZE`, and the numbers of the statements that begin with it.
fn without_summarize(text: &str, dialect: &dyn Dialect) -> (String, Vec<usize>) {
    let mut replaced = text.to_owned();
    let mut summaries = Vec::new();
    if !text.to_ascii_uppercase().contains(SUMMARIZE) {
        return (replaced, summaries);
    }
    // The parser reports what is wrong with the text.
    let Ok(tokens) = Tokenizer::new(dialect, text).tokenize_with_location() else {
        return (replaced, summaries);
    };
    let mut tokens = tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .peekable();
    let (mut statement, mut is_empty, mut may_begin) = (0, true, true);
    while let Some(token) = tokens.next() {
        if token.token == Token::SemiColon {
            statement += usize::from(!is_empty);
            (is_empty, may_begin) = (true, true);
            continue;
        }
        is_empty = false;
        let begins = std::mem::take(&mut may_begin);
        if begins && is_summarize(&token.token) {
            let at = offset(text, token.span.start);
            let is_query = tokens.peek().is_some_and(|next| begins_query(&next.token));
            let word = if is_query { "" } else { "FROM" };
            let word = format!("{word:width$}", width = SUMMARIZE.len());
            replaced.replace_range(at..at + SUMMARIZE.len(), &word);
            summaries.push(statement);
        } else if begins {
            may_begin = is_explain(&token.token);
        }
    }
    (replaced, summaries)
}

fn is_summarize(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(SUMMARIZE))
}

/// Whether the statement that is explained may follow.
fn is_explain(token: &Token) -> bool {
    let words = [Keyword::EXPLAIN, Keyword::ANALYZE, Keyword::VERBOSE];
    matches!(token, Token::Word(word) if words.contains(&word.keyword))
}

fn begins_query(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::FROM
        ),
        token => *token == Token::LParen,
    }
}

/// The byte at a line and a column, which count characters from 1.
fn offset(text: &str, place: Location) -> usize {
    let (line, column) = (place.line as usize, place.column as usize);
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let before = text[start..].chars().take(column - 1);
    start + before.map(char::len_utf8).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    #[test]
    fn summarize_is_replaced_at_the_start_of_statements() {
        let replaced = |text| without_summarize(text, &GenericDialect {});
        assert_eq!(replaced("SUMMARIZE t"), ("FROM      t".to_owned(), vec![0]));
        assert_eq!(
            replaced("/* é */ ;; SELECT 'é;'; \n é\n; summarize(SELECT 1)").0,
            "/* é */ ;; SELECT 'é;'; \n é\n;          (SELECT 1)"
        );
        assert_eq!(replaced(";;SELECT 1;;SUMMARIZE WITH a").1, [1]);
        assert_eq!(replaced("explain analyze summarize t").0, "explain analyze FROM      t");
        for text in [
            "SELECT summarize FROM t",
            "EXPLAIN SELECT summarize",
            "SELECT 'SUMMARIZE",
            "\"summarize\" t",
        ] {
            assert_eq!(replaced(text), (text.to_owned(), Vec::new()));
        }
    }
}
