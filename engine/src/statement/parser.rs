//! [`parse_statements`]: the statements of a text, `SUMMARIZE` and `CREATE EXTERNAL TABLE … AS` among them.
//!
//! The SQL parser does not know these two. The word `SUMMARIZE` is replaced by another of the same length: `SUMMARIZE
//! trips` is read as `FROM      trips`, and `SUMMARIZE SELECT …` as the query alone. In the same way, the parser reads
//! spaces in the place of a table's head, and of the options that `CopyOptions` reads. So places in errors stay. The
//! queries are marked afterwards.

use datafusion::common::plan_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::copy_options::CopyOptions;
use super::depth::check_depth;
use super::nested_pivots::blank;
use super::text::{begins_query, is_keyword, offset, statements};
use super::{
    copy_options, create_table_as, dialect, distinct_from, extra_words, long_chains, nested_pivots, pivot_words,
    placeholders, secrets, shown_tables, summary,
};

const SUMMARIZE: &str = "SUMMARIZE";
/// A word of each head.
const LOCATION: &str = "LOCATION";
/// A statement of its own options.
const COPY: &str = "COPY";

/// The statements of a text, in the session's dialect.
///
/// Besides DataFusion's statements there are `SUMMARIZE`, before the name of a table or a query, also after `EXPLAIN`,
/// and `CREATE EXTERNAL TABLE … AS` before a query. Secrets stay with the session.
///
/// # Errors
/// If the text is no SQL, or too deep for the stack of a thread.
pub fn parse_statements(state: &SessionState, text: &str) -> Result<Vec<Statement>> {
    let options = &state.config_options().sql_parser;
    let dialect = dialect::of_session(state)?;
    check_depth(text, dialect.as_ref())?;
    let text = pivot_words::replaced(text, dialect.as_ref());
    let text = extra_words::replaced(&text, dialect.as_ref());
    let (text, pivots) = nested_pivots::take(&text, dialect.as_ref(), options.recursion_limit.get())?;
    let (text, unread) = readable(&text, dialect.as_ref());
    let mut parser = DFParserBuilder::new(text.as_str())
        .with_dialect(dialect.as_ref())
        .with_recursion_limit(options.recursion_limit.get())
        .build()?;
    let parsed = parser.parse_statements();
    let mut statements: Vec<Statement> = parsed.map_err(|error| time_travel(&text).unwrap_or(error))?.into();
    for (number, unread) in unread {
        let Some(statement) = statements.get_mut(number) else {
            continue;
        };
        match unread {
            Unread::Summarize => summary::mark(statement),
            Unread::Head(head) => create_table_as::mark(statement, &head),
            Unread::Copy(options) => options.apply(statement)?,
        }
    }
    for statement in &mut statements {
        nested_pivots::put(statement, &pivots);
        copy_options::compress_by_name(statement);
        shown_tables::query(state, statement);
        if text.contains('?') {
            placeholders::number(statement)?;
        }
        distinct_from::mend(&text, statement);
        long_chains::balance(&text, statement);
        secrets::hide(state, statement);
    }
    Ok(statements)
}

/// The error of a text that asks for a table's rows of an earlier time.
fn time_travel(text: &str) -> Option<DataFusionError> {
    let upper = text.to_ascii_uppercase();
    let clause = ["AT (VERSION", "AT (TIMESTAMP", "SYSTEM_TIME AS OF"]
        .into_iter()
        .find(|clause| upper.contains(clause))?;
    Some(plan_datafusion_err!(
        "{} …: files keep no rows of earlier times; write each version into a folder of its own, and name that",
        clause.to_owned()
    ))
}

/// Refuses the text of an expression that is too deep for the stack of a thread.
///
/// # Errors
/// If it is.
pub fn check_expression(state: &SessionState, text: &str) -> Result<()> {
    check_depth(text, dialect::of_session(state)?.as_ref())
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

/// What the SQL parser does not read of a statement.
#[derive(Debug, PartialEq)]
enum Unread {
    /// The word `SUMMARIZE`.
    Summarize,
    /// The head of `CREATE EXTERNAL TABLE … AS`.
    Head(String),
    /// The options of `COPY … TO` in parentheses.
    Copy(CopyOptions),
}

/// The text as the SQL parser reads it, and what it does not read, with the statements' numbers.
fn readable(text: &str, dialect: &dyn Dialect) -> (String, Vec<(usize, Unread)>) {
    let (mut readable, mut unread) = (text.to_owned(), Vec::new());
    let upper = text.to_ascii_uppercase();
    if ![SUMMARIZE, LOCATION, COPY].iter().any(|word| upper.contains(word)) {
        return (readable, unread);
    }
    // The parser reports what is wrong with the text.
    let Ok(tokens) = Tokenizer::new(dialect, text).tokenize_with_location() else {
        return (readable, unread);
    };
    let statements: Vec<_> = statements(&tokens).enumerate().collect();
    // From the end, so that places before stay.
    for (number, tokens) in statements.into_iter().rev() {
        if let Some((head, query)) = create_table_as::head(text, &tokens) {
            blank(&mut readable, offset(text, tokens[0].span.start)..offset(text, query));
            unread.push((number, Unread::Head(head)));
            continue;
        }
        if let Some((range, options)) = CopyOptions::find(text, &tokens) {
            blank(&mut readable, range);
            unread.push((number, Unread::Copy(options)));
            continue;
        }
        if let Some((range, insertion)) = copy_options::insertion(text, &tokens) {
            // Places behind it in its line are wrong; the statement is mostly alone.
            readable.replace_range(range, &insertion);
            continue;
        }
        let mut tokens = tokens.into_iter().skip_while(|token| is_explain(&token.token));
        if let Some(first) = tokens.next().filter(|token| is_summarize(&token.token)) {
            let at = offset(text, first.span.start);
            let is_query = tokens.next().is_some_and(|next| begins_query(&next.token));
            let word = if is_query { "" } else { "FROM" };
            let word = format!("{word:width$}", width = SUMMARIZE.len());
            readable.replace_range(at..at + SUMMARIZE.len(), &word);
            unread.push((number, Unread::Summarize));
        }
    }
    (readable, unread)
}

fn is_summarize(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(SUMMARIZE))
}

/// Whether the statement that is explained may follow.
fn is_explain(token: &Token) -> bool {
    let words = [Keyword::EXPLAIN, Keyword::ANALYZE, Keyword::VERBOSE];
    words.into_iter().any(|word| is_keyword(token, word))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    fn read(text: &str) -> (String, Vec<(usize, Unread)>) {
        readable(text, &GenericDialect {})
    }

    #[test]
    fn summarize_is_replaced_at_the_start_of_statements() {
        assert_eq!(
            read("SUMMARIZE t"),
            ("FROM      t".to_owned(), vec![(0, Unread::Summarize)])
        );
        assert_eq!(
            read("/* é */ ;; SELECT 'é;'; \n é\n; summarize(SELECT 1)").0,
            "/* é */ ;; SELECT 'é;'; \n é\n;          (SELECT 1)"
        );
        assert_eq!(read(";;SELECT 1;;SUMMARIZE WITH a").1, [(1, Unread::Summarize)]);
        assert_eq!(read("explain analyze summarize t").0, "explain analyze FROM      t");
        for text in [
            "SELECT summarize FROM t",
            "EXPLAIN SELECT summarize",
            "SELECT 'SUMMARIZE",
            "\"summarize\" t",
        ] {
            assert_eq!(read(text), (text.to_owned(), Vec::new()));
        }
    }

    #[test]
    fn heads_of_tables_are_blank_up_to_their_queries() {
        let text = "SELECT 'é';create or replace external table é (a AS (b))\nSTORED AS ORC LOCATION 'x' AS\n WITH a";
        let (found, unread) = read(&format!("SUMMARIZE t;{text};SUMMARIZE u"));
        assert!(found.starts_with("FROM      t;SELECT 'é';   "), "{found}");
        assert!(found.ends_with(" \n WITH a;FROM      u"), "{found:?}");
        assert_eq!(found.chars().count(), text.chars().count() + 24);
        let head = "create or replace external table é (a AS (b))\nSTORED AS ORC LOCATION 'x' ";
        let expected = [
            (3, Unread::Summarize),
            (2, Unread::Head(head.to_owned())),
            (0, Unread::Summarize),
        ];
        assert_eq!(unread, expected);
        let (found, unread) = read("CREATE TABLE t STORED AS ORC LOCATION 'x/' AS(SELECT 1)");
        assert_eq!(found.trim(), "(SELECT 1)");
        let head = "CREATE EXTERNAL TABLE t STORED AS ORC LOCATION 'x/' ";
        assert_eq!(unread, [(0, Unread::Head(head.to_owned()))]);
        for text in [
            "CREATE TABLE t AS SELECT location AS SELECT",
            "CREATE EXTERNAL TABLE t STORED AS ORC LOCATION 'x'",
            "CREATE VIEW location AS SELECT 1",
            "CREATE EXTERNAL TABLE t STORED AS ORC LOCATION 'x' AS t",
        ] {
            assert_eq!(read(text), (text.to_owned(), Vec::new()));
        }
    }
}
