//! Expressions that the SQL parser lacks. [`ScalarForms`](super::scalar_forms) gives operators their meaning.
//!
//! - `a ** b` binds tighter than `*` and less than a sign, from the left.
//! - `a GLOB 'x*'`.
//! - `a BETWEEN SYMMETRIC b AND c` is an operator with `b AND c` on its right side.
//! - `[e FOR x IN list IF c]` is `list_transform(list_filter(list, x -> c), x -> e)`.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    LambdaFunction, LambdaFunctionParameter, LambdaSyntax, ObjectName, OneOrManyWithParens, UnaryOperator, Value,
    ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// The operators, as they are written.
pub(super) const POWER: &str = "**";
pub(super) const GLOB: &str = "GLOB";
pub(super) const SYMMETRIC: &str = "BETWEEN SYMMETRIC";
pub(super) const NOT_SYMMETRIC: &str = "NOT BETWEEN SYMMETRIC";

type Parsed<T> = Result<T, ParserError>;

/// How tight the operator at the parser's place binds, if it is one of these.
pub(super) fn next_precedence(parser: &Parser) -> Option<u8> {
    match (&parser.peek_nth_token_ref(0).token, &parser.peek_nth_token_ref(1).token) {
        (Token::Mul, Token::Mul) => Some(power_precedence()),
        (first, _) if is_word(first, "GLOB") => Some(GenericDialect.prec_value(Precedence::Like)),
        _ => None,
    }
}

fn power_precedence() -> u8 {
    GenericDialect.prec_value(Precedence::MulDivModOp) + 1
}

/// The operation whose operator is at the parser's place, and whose first operand is `left`.
pub(super) fn infix(parser: &mut Parser, left: &Expr) -> Option<Parsed<Expr>> {
    if parser.consume_tokens(&[Token::Mul, Token::Mul]) {
        let right = parser.parse_subexpr(power_precedence());
        return Some(right.map(|right| operation(left, POWER, right)));
    }
    if is_word(&parser.peek_token_ref().token, "GLOB") {
        parser.advance_token();
        return Some(glob(parser, left));
    }
    let (first, second) = (parser.peek_nth_token_ref(0), parser.peek_nth_token_ref(1));
    let negated = is_keyword(&first.token, Keyword::NOT);
    let between = if negated { second } else { first };
    let after = parser.peek_nth_token_ref(1 + usize::from(negated));
    if is_keyword(&between.token, Keyword::BETWEEN) && is_keyword(&after.token, Keyword::SYMMETRIC) {
        return Some(symmetric(parser, left, negated));
    }
    None
}

/// The comparison of `GLOB`, whose pattern follows.
fn glob(parser: &mut Parser, text: &Expr) -> Parsed<Expr> {
    let pattern = parser.parse_subexpr(GenericDialect.prec_value(Precedence::Like))?;
    match &pattern {
        Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(_),
            ..
        }) => Ok(operation(text, GLOB, pattern)),
        _ => {
            let message = format!("GLOB takes a pattern in quotes, not {pattern}");
            Err(ParserError::ParserError(message))
        }
    }
}

fn operation(left: &Expr, operator: &str, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left.clone()),
        op: BinaryOperator::Custom(operator.to_owned()),
        right: Box::new(right),
    }
}

/// A pattern of `*`, `?`, `[a-z]` and `[!a-z]` as a regular expression.
pub(super) fn glob_pattern(glob: &str) -> String {
    let mut out = String::from("(?s)^");
    let mut rest = glob.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            '[' => match class_end(rest.as_str()) {
                None => out.push_str("\\["),
                Some(end) => {
                    let class = &rest.as_str()[..end];
                    let (mark, letters) = match class.strip_prefix(['!', '^']) {
                        Some(letters) => ("^", letters),
                        None => ("", class),
                    };
                    let letters = letters.replace('\\', r"\\").replace('[', r"\[").replace(']', r"\]");
                    out.push_str(&format!("[{mark}{}]", letters.replace('&', r"\&").replace('~', r"\~")));
                    rest = rest.as_str()[end + 1..].chars();
                }
            },
            letter => {
                if !letter.is_alphanumeric() {
                    out.push('\\');
                }
                out.push(letter);
            }
        }
    }
    out.push('$');
    out
}

/// Where the class behind a bracket ends. A closing bracket that comes first is one of its letters.
fn class_end(class: &str) -> Option<usize> {
    let first = 1 + usize::from(class.starts_with(['!', '^']));
    let mut letters = class.char_indices().skip(first);
    letters.find(|&(_, letter)| letter == ']').map(|(end, _)| end)
}

/// The range of `BETWEEN SYMMETRIC`.
fn symmetric(parser: &mut Parser, value: &Expr, negated: bool) -> Parsed<Expr> {
    if negated {
        parser.expect_keyword(Keyword::NOT)?;
    }
    parser.expect_keyword(Keyword::BETWEEN)?;
    parser.expect_keyword(Keyword::SYMMETRIC)?;
    let precedence = GenericDialect.prec_value(Precedence::Between);
    let low = parser.parse_subexpr(precedence)?;
    parser.expect_keyword(Keyword::AND)?;
    let high = parser.parse_subexpr(precedence)?;
    let bounds = Expr::BinaryOp {
        left: Box::new(low),
        op: BinaryOperator::And,
        right: Box::new(high),
    };
    let operator = if negated { NOT_SYMMETRIC } else { SYMMETRIC };
    Ok(operation(value, operator, bounds))
}

/// The expression that begins at the parser's place, if it is one of these.
pub(super) fn prefix(parser: &mut Parser) -> Option<Parsed<Expr>> {
    let sign = match parser.peek_token_ref().token {
        Token::LBracket => return parser.maybe_parse(comprehension).transpose(),
        Token::Minus => UnaryOperator::Minus,
        Token::Plus => UnaryOperator::Plus,
        _ => return None,
    };
    // A sign binds tighter than `**`.
    parser.advance_token();
    let operand = parser.parse_subexpr(power_precedence());
    Some(operand.map(|operand| Expr::UnaryOp {
        op: sign,
        expr: Box::new(operand),
    }))
}

/// `[e FOR x IN list IF c]`.
fn comprehension(parser: &mut Parser) -> Parsed<Expr> {
    parser.expect_token(&Token::LBracket)?;
    let element = parser.parse_expr()?;
    parser.expect_keyword(Keyword::FOR)?;
    let names = parser.parse_comma_separated(Parser::parse_identifier)?;
    parser.expect_keyword(Keyword::IN)?;
    let mut list = parser.parse_expr()?;
    if parser.parse_keyword(Keyword::IF) {
        list = call("list_filter", vec![list, lambda(&names, parser.parse_expr()?)]);
    }
    parser.expect_token(&Token::RBracket)?;
    Ok(call("list_transform", vec![list, lambda(&names, element)]))
}

fn lambda(names: &[Ident], body: Expr) -> Expr {
    let parameter = |name: &Ident| LambdaFunctionParameter {
        name: name.clone(),
        data_type: None,
    };
    let params = match names {
        [name] => OneOrManyWithParens::One(parameter(name)),
        names => OneOrManyWithParens::Many(names.iter().map(parameter).collect()),
    };
    Expr::Lambda(LambdaFunction {
        params,
        body: Box::new(body),
        syntax: LambdaSyntax::Arrow,
    })
}

/// A call of a function with unnamed arguments.
pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(FunctionArgExpr::Expr);
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.map(FunctionArg::Unnamed).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Whether a token is an unquoted word that may be no keyword.
pub(super) fn is_word(token: &Token, expected: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected))
}

fn is_keyword(token: &Token, expected: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == expected)
}
