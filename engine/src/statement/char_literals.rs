//! `CharLiterals`: literals that are compared with a CHAR column lose their trailing blanks, like the column's values.
//!
//! SQL compares CHAR values without trailing blanks, so `c = 'x   '` is true for the value 'x'. Patterns of LIKE and
//! values of other types keep their blanks.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::plan_rewrites::rewrite_comparisons;
use crate::table::value_types::CHAR_KEY;

/// The rule.
#[derive(Debug)]
pub(crate) struct CharLiterals;

impl AnalyzerRule for CharLiterals {
    fn name(&self) -> &str {
        "char_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let has_char = |schema: &DFSchema| {
            schema
                .fields()
                .iter()
                .any(|field| field.metadata().contains_key(CHAR_KEY))
        };
        rewrite_comparisons(plan, has_char, strip)
    }
}

/// Strips the literals if another operand is a CHAR column.
fn strip(operands: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    let is_compared = operands.iter().any(|operand| is_char(operand, schema));
    let mut is_changed = false;
    for operand in operands.iter_mut().filter(|_| is_compared) {
        is_changed |= strip_literal(operand);
    }
    Ok(is_changed)
}

/// True for a CHAR column, also below an alias or a cast to another type of strings.
fn is_char(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Column(column) => {
            let field = schema.qualified_field_from_column(column);
            field.is_ok_and(|(_, field)| field.metadata().contains_key(CHAR_KEY))
        }
        Expr::Alias(alias) => is_char(&alias.expr, schema),
        Expr::Cast(cast) => {
            let is_text = matches!(
                cast.field.data_type(),
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            );
            is_text && is_char(&cast.expr, schema)
        }
        _ => false,
    }
}

/// Removes the trailing blanks of a literal. Returns whether there were any.
fn strip_literal(expr: &mut Expr) -> bool {
    use ScalarValue::{LargeUtf8, Utf8, Utf8View};
    match expr {
        Expr::Literal(Utf8(Some(text)) | LargeUtf8(Some(text)) | Utf8View(Some(text)), _) => {
            let length = text.len();
            text.truncate(text.trim_end_matches(' ').len());
            text.len() < length
        }
        Expr::Cast(cast) => strip_literal(&mut cast.expr),
        _ => false,
    }
}
