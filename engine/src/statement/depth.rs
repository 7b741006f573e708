//! [`check_depth`]: statements whose expressions are too deep are refused.
//!
//! `a OR b OR c` is a tree as deep as it has operators. The planner's copies and comparisons recurse, and so does the
//! tree's end. A thread whose stack is full ends the process. The parser's own limit counts parentheses, not operators.
//!
//! A path of the tree has at most as many operators as the longest chain of each precedence, and those of the deepest
//! operand in parentheses. The count is too large for some statements, and for none too small.

use datafusion::common::plan_datafusion_err;
use datafusion::error::Result;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::text::{Place, is_keyword, statements};

/// Operators of a path, at most. The workers of the program and of the Python package have stacks for twice as many.
pub(super) const MAX_DEPTH: usize = 10_000;

/// Precedences, from OR over AND and comparisons to all others, and to subscripts.
const PRECEDENCES: usize = 5;
const SUBSCRIPTS: usize = PRECEDENCES - 1;

/// What a subscript, and a type in a type, count for: nested types pass through threads with smaller stacks too.
const NESTED_TYPE_DEPTH: usize = 50;

/// Words in a row, at most: `INTERVAL INTERVAL …` recurses by words alone.
const MAX_WORDS: usize = 300;

/// Refuses a text with an expression of more than [`MAX_DEPTH`] operators on a path.
///
/// # Errors
/// If there is one. The error names its line.
pub(super) fn check_depth(text: &str, dialect: &dyn Dialect) -> Result<()> {
    // An operator and its operand have two characters at least, and so has a subscript.
    if text.len() < 2 * MAX_DEPTH / NESTED_TYPE_DEPTH {
        return Ok(());
    }
    // The parser reports what is wrong with the text.
    let Ok(tokens) = Tokenizer::new(dialect, text).tokenize_with_location() else {
        return Ok(());
    };
    for statement in statements(&tokens) {
        let mut depth = Depth::default();
        for token in statement {
            if depth.add(&token.token) > MAX_DEPTH {
                return Err(too_deep(token.span.start));
            }
        }
    }
    Ok(())
}

#[cold]
fn too_deep(place: Place) -> datafusion::error::DataFusionError {
    plan_datafusion_err!(
        "an expression or a chain of UNION or JOIN is more than {MAX_DEPTH} operators deep, which it is in line {}: \
         write x IN (…) in place of x = … OR x = …, join a table of the values, or run several statements",
        place.line
    )
}

/// What encloses operands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Enclosed {
    #[default]
    Brackets,
    Case,
}

/// The part of a statement between two brackets, or between CASE and END.
#[derive(Debug, Default)]
struct Level {
    by: Enclosed,
    /// UNION, JOIN and the like.
    relations: usize,
    /// Operators of each precedence since the last weaker one.
    chains: [usize; PRECEDENCES],
    /// The longest of these chains.
    longest: [usize; PRECEDENCES],
    /// The depth of the deepest operand in brackets.
    operand: usize,
    /// The depth of the deepest expression before a comma or a clause.
    before: usize,
}

impl Level {
    fn expression(&self) -> usize {
        self.longest.iter().sum::<usize>() + self.operand
    }

    fn depth(&self) -> usize {
        self.relations + self.before.max(self.expression())
    }

    fn operator(&mut self, precedence: usize, depth: usize) {
        self.chains[precedence] += depth;
        self.longest[precedence] = self.longest[precedence].max(self.chains[precedence]);
        self.chains[precedence + 1..].fill(0);
    }

    /// Begins another expression.
    fn next_expression(&mut self) {
        self.before = self.before.max(self.expression());
        (self.chains, self.longest, self.operand) = Default::default();
    }
}

/// The depth of the tokens so far.
#[derive(Debug, Default)]
struct Depth {
    outer: Vec<Level>,
    level: Level,
    /// The sum of the depths of `outer`.
    outer_depth: usize,
    is_after_distinct: bool,
    /// After ARRAY and the like, a type may follow in `<>`.
    is_after_type: bool,
    /// Words in a row, without a part of CASE or an operator.
    words: usize,
}

impl Depth {
    /// Adds a token. Returns the depth so far.
    fn add(&mut self, token: &Token) -> usize {
        if matches!(token, Token::Whitespace(_)) {
            return self.outer_depth + self.level.depth();
        }
        let is_after_distinct = std::mem::take(&mut self.is_after_distinct);
        let is_after_type = std::mem::take(&mut self.is_after_type);
        let words = std::mem::take(&mut self.words);
        match token {
            Token::LBracket => {
                self.level.operator(SUBSCRIPTS, NESTED_TYPE_DEPTH);
                self.open(Enclosed::Brackets);
            }
            Token::LParen | Token::LBrace => self.open(Enclosed::Brackets),
            Token::Lt if is_after_type => self.level.operator(SUBSCRIPTS, NESTED_TYPE_DEPTH),
            Token::RParen | Token::RBracket | Token::RBrace => self.close(Enclosed::Brackets),
            Token::Comma => self.level.next_expression(),
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::CASE => self.open(Enclosed::Case),
                Keyword::END => self.close(Enclosed::Case),
                Keyword::DISTINCT => self.is_after_distinct = true,
                Keyword::FROM if is_after_distinct => {} // IS DISTINCT FROM
                Keyword::SELECT | Keyword::FROM | Keyword::WHERE | Keyword::HAVING | Keyword::ON => {
                    self.level.next_expression();
                }
                Keyword::WHEN | Keyword::THEN | Keyword::ELSE if self.level.by == Enclosed::Case => {
                    self.level.next_expression();
                }
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::JOIN => self.level.relations += 1,
                _ => {
                    self.is_after_type = matches!(word.keyword, Keyword::ARRAY | Keyword::STRUCT | Keyword::MAP);
                    match precedence_of_word(token) {
                        Some(precedence) => self.level.operator(precedence, 1),
                        None if words == MAX_WORDS => return MAX_DEPTH + 1,
                        None => self.words = words + 1,
                    }
                }
            },
            token => {
                if let Some(precedence) = precedence_of_sign(token) {
                    self.level.operator(precedence, 1);
                }
            }
        }
        self.outer_depth + self.level.depth()
    }

    fn open(&mut self, by: Enclosed) {
        let inner = Level { by, ..Level::default() };
        let outer = std::mem::replace(&mut self.level, inner);
        self.outer_depth += outer.depth();
        self.outer.push(outer);
    }

    fn close(&mut self, by: Enclosed) {
        if self.level.by != by {
            return;
        }
        if let Some(outer) = self.outer.pop() {
            self.outer_depth -= outer.depth();
            let inner = std::mem::replace(&mut self.level, outer);
            self.level.operand = self.level.operand.max(inner.depth() + 1);
        }
    }
}

fn precedence_of_word(token: &Token) -> Option<usize> {
    const OTHERS: [Keyword; 9] = [
        Keyword::IS,
        Keyword::IN,
        Keyword::LIKE,
        Keyword::ILIKE,
        Keyword::SIMILAR,
        Keyword::BETWEEN,
        Keyword::XOR,
        Keyword::COLLATE,
        Keyword::AT,
    ];
    let is_word = |keyword| is_keyword(token, keyword);
    if is_word(Keyword::OR) {
        Some(0)
    } else if is_word(Keyword::AND) {
        Some(1)
    } else if OTHERS.into_iter().any(is_word) {
        Some(2)
    } else {
        // Words such as DIV, REGEXP and OPERATOR: a column of this name is counted too.
        [Keyword::DIV, Keyword::REGEXP, Keyword::RLIKE, Keyword::OPERATOR]
            .into_iter()
            .any(is_word)
            .then_some(3)
    }
}

fn precedence_of_sign(token: &Token) -> Option<usize> {
    match token {
        Token::DoubleEq | Token::Eq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq => Some(2),
        Token::Whitespace(_) | Token::EOF | Token::SemiColon | Token::Period | Token::Word(_) => None,
        Token::Number(..) | Token::Char(_) => None,
        token if is_literal(token) => None,
        _ => Some(3),
    }
}

fn is_literal(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::TripleSingleQuotedString(_)
            | Token::TripleDoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::DoubleQuotedByteStringLiteral(_)
            | Token::SingleQuotedRawStringLiteral(_)
            | Token::DoubleQuotedRawStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
    )
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    fn depth(text: &str) -> usize {
        let tokens = Tokenizer::new(&GenericDialect {}, text)
            .tokenize_with_location()
            .unwrap();
        let mut depth = Depth::default();
        tokens.iter().map(|token| depth.add(&token.token)).max().unwrap_or(0)
    }

    #[test]
    fn depth_is_that_of_the_longest_path() {
        for (text, expected) in [
            ("SELECT 1", 0),
            ("SELECT a + b * c - d", 3),
            ("SELECT a, b + 1, c + 1 + 2", 2),
            ("SELECT 1 WHERE a = 1 OR a = 2 OR a = 3", 3),
            ("SELECT 1 WHERE a = 1 AND b > 2 OR a = 2 AND b > 3 OR c", 4),
            ("SELECT 1 WHERE a BETWEEN 1 AND 2 OR a BETWEEN 3 AND 4", 3),
            ("SELECT (a + b) + c", 3),
            ("SELECT f(a + b, c + d + e) + 1", 4),
            ("SELECT CASE WHEN a + b THEN 1 END + CASE WHEN a THEN b END + c", 4),
            ("SELECT a IS DISTINCT FROM b OR a IS DISTINCT FROM c OR d", 3),
            ("SELECT 1 + 2 UNION SELECT 1 + 2 UNION SELECT 3 + 4", 3),
            ("SELECT 1 FROM a JOIN b ON a.x = b.x JOIN c ON b.x = c.x", 3),
            ("SELECT x::INT::TEXT || 'a'", 3),
            ("SELECT \"or\" OR 'and', 1 + 2", 1),
            ("SELECT a[1] + b[1] + c[1]", 53),
            ("SELECT CAST(a AS INT[][])", 102),
            ("SELECT CAST(a AS ARRAY<ARRAY<INT>>), b < c", 102),
        ] {
            assert_eq!(depth(text), expected, "{text}");
        }
    }

    #[test]
    fn long_chains_are_refused_and_long_lists_are_not() {
        let check = |text: String| check_depth(&text, &GenericDialect {});
        let chain = |term: &str, operator: &str, count: usize| vec![term; count + 1].join(operator);
        for operator in [" OR ", " AND ", "+", " || ", " = "] {
            assert!(check(format!("SELECT {}", chain("a", operator, MAX_DEPTH))).is_ok());
            let error = check(format!("SELECT\n{}", chain("a", operator, MAX_DEPTH + 1))).unwrap_err();
            assert!(error.to_string().contains("in line 2"), "{error}");
        }
        assert!(check(format!("SELECT 1 WHERE {}", chain("a = 1", " OR ", MAX_DEPTH - 1))).is_ok());
        // Nested chains add up.
        let inner = chain("a", "+", MAX_DEPTH / 2);
        assert!(check(format!("SELECT ({inner}) + {inner}")).is_err());
        assert!(check(format!("SELECT ({inner}), {inner}")).is_ok());
        let whens = chain("CASE WHEN a THEN b END", "+", MAX_DEPTH + 1);
        assert!(check(format!("SELECT {whens}")).is_err());
        for list in ["-1", "(1 + 2, 'a')"] {
            assert!(check(format!("VALUES {}", chain(list, ", ", 3 * MAX_DEPTH))).is_ok());
        }
        assert!(check(format!("SELECT 1 {}", chain("", " UNION SELECT 1", MAX_DEPTH + 1))).is_err());
        assert!(check(chain("SELECT a + b", ";", 2 * MAX_DEPTH)).is_ok());
        for deep in ["INTERVAL ", "EXPLAIN ", "NOT ", "a[1]", "INT[]", "ARRAY<", "STRUCT<a "] {
            assert!(check(format!("SELECT {}", deep.repeat(MAX_DEPTH))).is_err(), "{deep}");
        }
        assert!(check(format!("SELECT CAST(a AS INT{})", "[]".repeat(201))).is_err());
        let whens = "WHEN a THEN b ".repeat(MAX_DEPTH);
        assert!(check(format!("SELECT CASE {whens} END")).is_ok());
    }
}
