//! [`draw`]: `FROM t USING SAMPLE 10%`, as a sample of the relation before WHERE.
//!
//! The parser reads the sample as a text in QUALIFY, which is no condition otherwise.

use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, SetExpr, TableFactor, TableSampleKind, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// What the text begins with.
const SAMPLE: &str = "TABLESAMPLE ";

/// The sample of a select, as a clause of its relation.
fn clause(select: &Select) -> Option<&str> {
    match &select.qualify {
        Some(Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text),
            ..
        })) => Some(text.as_str()).filter(|text| text.starts_with(SAMPLE)),
        _ => None,
    }
}

/// Whether a select draws a sample of what is not one table or subquery.
pub(super) fn is_refused(select: &Select) -> bool {
    let is_one = match select.from.as_slice() {
        [from] if from.joins.is_empty() => matches!(
            &from.relation,
            TableFactor::Table { sample: None, .. } | TableFactor::Derived { sample: None, .. }
        ),
        _ => false,
    };
    clause(select).is_some() && !is_one
}

/// Moves the sample of a select to its relation.
pub(super) fn draw(select: &mut Select) {
    let Some(drawn) = clause(select).and_then(parsed) else {
        return;
    };
    if let [from] = select.from.as_mut_slice()
        && let TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. } = &mut from.relation
    {
        *sample = Some(drawn);
        select.qualify = None;
    }
}

fn parsed(clause: &str) -> Option<TableSampleKind> {
    let text = format!("SELECT * FROM t {clause}");
    let parser = Parser::new(&GenericDialect {}).try_with_sql(&text);
    let query: Query = *parser.and_then(|mut parser| parser.parse_query()).ok()?;
    let SetExpr::Select(mut select) = *query.body else {
        return None;
    };
    match &mut select.from.first_mut()?.relation {
        TableFactor::Table { sample, .. } => sample.take(),
        _ => None,
    }
}
