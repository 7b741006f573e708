//! Statements that the SQL parser lacks, as statements that it has.
//!
//! - `PIVOT t ON c USING sum(x) GROUP BY k` is a query over `t PIVOT (sum(x) FOR c IN (ANY))`.
//! - `UNPIVOT t ON a, b INTO NAME n VALUE v` is a query over `t UNPIVOT (v FOR n IN (a, b))`. Pairs of columns have
//!   several values: `ON (a, b), (c, d) INTO NAME n VALUE v, w`.
//! - `SET VARIABLE v = e` is `SET HIVEVAR:v = e`, which no other text gives.
//! - `DROP MACRO f` is `DROP FUNCTION f`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DropFunction, Expr, ExprWithAlias, FunctionDesc, GroupByExpr, Ident, LimitClause, NullInclusion, PivotValueSource,
    Query, SelectItem, Set, SetExpr, Statement, TableFactor, Visit, Visitor,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::operators::is_word;

type Parsed<T> = Result<T, ParserError>;

/// The statement at the parser's place, if it is one of these.
pub(super) fn parse(parser: &mut Parser) -> Option<Parsed<Statement>> {
    let (first, second) = (parser.peek_nth_token_ref(0), parser.peek_nth_token_ref(1));
    let first_is = |words: [&str; 2]| words.iter().any(|word| is_word(&first.token, word));
    if first_is(["PIVOT", "PIVOT_WIDER"]) {
        return Some(after_words(parser, 1, pivot));
    }
    if first_is(["UNPIVOT", "PIVOT_LONGER"]) {
        return Some(after_words(parser, 1, unpivot));
    }
    if is_word(&first.token, "SET") && is_word(&second.token, "VARIABLE") {
        return Some(after_words(parser, 2, set_variable));
    }
    if is_word(&first.token, "DROP") && is_word(&second.token, "MACRO") {
        return Some(after_words(parser, 2, drop_macro));
    }
    None
}

fn after_words(parser: &mut Parser, words: usize, rest: fn(&mut Parser) -> Parsed<Statement>) -> Parsed<Statement> {
    for _ in 0..words {
        parser.advance_token();
    }
    rest(parser)
}

fn set_variable(parser: &mut Parser) -> Parsed<Statement> {
    let variable = parser.parse_object_name(false)?;
    if !parser.consume_token(&Token::Eq) {
        parser.expect_keyword(Keyword::TO)?;
    }
    Ok(Statement::Set(Set::SingleAssignment {
        scope: None,
        hivevar: true,
        variable,
        values: vec![parser.parse_expr()?],
    }))
}

fn drop_macro(parser: &mut Parser) -> Parsed<Statement> {
    let _ = parser.parse_keyword(Keyword::TABLE);
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    Ok(Statement::DropFunction(DropFunction {
        if_exists,
        func_desc: vec![FunctionDesc { name, args: None }],
        drop_behavior: None,
    }))
}

/// `t ON c [IN (…)], … [USING f(x) [AS a], …] [GROUP BY k, …]`.
fn pivot(parser: &mut Parser) -> Parsed<Statement> {
    let mut table = parser.parse_table_factor()?;
    parser.expect_keyword(Keyword::ON)?;
    let value_column = parser.parse_comma_separated(Parser::parse_expr)?;
    let aggregate_functions = match parser.parse_keyword(Keyword::USING) {
        true => parser.parse_comma_separated(Parser::parse_expr_with_alias)?,
        false => vec![ExprWithAlias {
            expr: read("count(*)", Parser::parse_expr)?,
            alias: None,
        }],
    };
    match parser.parse_optional_group_by()? {
        Some(GroupByExpr::Expressions(keys, modifiers)) if modifiers.is_empty() => {
            let others = value_column
                .iter()
                .chain(aggregate_functions.iter().map(|one| &one.expr));
            table = only_columns(table, &keys, others)?;
        }
        None => {}
        Some(clause) => return Err(ParserError::ParserError(format!("PIVOT takes no {clause}"))),
    }
    query_over(
        parser,
        TableFactor::Pivot {
            table: Box::new(table),
            aggregate_functions,
            value_column,
            value_source: PivotValueSource::Any(Vec::new()),
            default_on_null: None,
            alias: None,
        },
    )
}

/// `t ON a, b [INTO NAME n VALUE v]`.
fn unpivot(parser: &mut Parser) -> Parsed<Statement> {
    let table = parser.parse_table_factor()?;
    parser.expect_keyword(Keyword::ON)?;
    let columns = parser.parse_comma_separated(Parser::parse_expr_with_alias)?;
    let (mut name, mut value) = (Ident::new("name"), Expr::Identifier(Ident::new("value")));
    if parser.parse_keyword(Keyword::INTO) {
        parser.expect_keyword(Keyword::NAME)?;
        name = parser.parse_identifier()?;
        parser.expect_keyword(Keyword::VALUE)?;
        let mut values = parser.parse_comma_separated(Parser::parse_identifier)?;
        value = match values.len() {
            1 => Expr::Identifier(values.remove(0)),
            _ => Expr::Tuple(values.into_iter().map(Expr::Identifier).collect()),
        };
    }
    query_over(
        parser,
        TableFactor::Unpivot {
            table: Box::new(table),
            value,
            name,
            columns,
            null_inclusion: Some(NullInclusion::ExcludeNulls),
            alias: None,
        },
    )
}

/// `SELECT * FROM table`, and the order and limit that follow.
fn query_over(parser: &mut Parser, table: TableFactor) -> Parsed<Statement> {
    let mut query = all_of(table)?;
    query.order_by = parser.parse_optional_order_by()?;
    let (mut limit, mut offset) = (None, None);
    if parser.parse_keyword(Keyword::LIMIT) {
        limit = parser.parse_limit()?;
    }
    if parser.parse_keyword(Keyword::OFFSET) {
        offset = Some(parser.parse_offset()?);
    }
    if limit.is_some() || offset.is_some() {
        let limit_by = Vec::new();
        query.limit_clause = Some(LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        });
    }
    Ok(Statement::Query(query))
}

/// `SELECT * FROM table`.
pub(super) fn all_of(table: TableFactor) -> Parsed<Box<Query>> {
    let mut query = read("SELECT * FROM t", Parser::parse_query)?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        for from in &mut select.from {
            from.relation = table.clone();
        }
    }
    Ok(query)
}

fn read<T>(text: &str, parse: fn(&mut Parser<'static>) -> Parsed<T>) -> Parsed<T> {
    parse(&mut Parser::new(&GenericDialect {}).try_with_sql(text)?)
}

/// The columns of a table that keys and other expressions name.
fn only_columns<'a>(table: TableFactor, keys: &[Expr], others: impl Iterator<Item = &'a Expr>) -> Parsed<TableFactor> {
    struct Named(Vec<Expr>);
    impl Visitor for Named {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) && !self.0.contains(expr) {
                self.0.push(expr.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let mut named = Named(keys.to_vec());
    for expr in others {
        let _ = expr.visit(&mut named); // which never stops early
    }
    let mut subquery = all_of(table)?;
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        select.projection = named.0.into_iter().map(SelectItem::UnnamedExpr).collect();
    }
    Ok(TableFactor::Derived {
        lateral: false,
        subquery,
        alias: None,
        sample: None,
    })
}
