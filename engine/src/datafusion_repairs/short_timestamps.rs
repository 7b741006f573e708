//! [`ShortTimestamps`]: literals of times without seconds, as `TIMESTAMP '2024-01-01 10:00'`.
//!
//! Arrow reads a time only with its seconds. The rule adds them to literals that are cast to TIMESTAMP, and to
//! arguments of `to_timestamp`.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::rewrite_expressions;

/// Length of `2024-01-01 10:00`.
const LENGTH: usize = 16;

/// The rule. It runs before casts, because comparisons read literals, and after them, for the casts that DataFusion
/// adds.
#[derive(Debug)]
pub(super) struct ShortTimestamps;

impl AnalyzerRule for ShortTimestamps {
    fn name(&self) -> &str {
        "short_timestamps"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_expressions(plan, add_seconds)
    }
}

fn add_seconds(mut expr: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    let literal = match &mut expr {
        Expr::Cast(cast) if is_timestamp(cast.field.data_type()) => Some(&mut *cast.expr),
        Expr::TryCast(cast) if is_timestamp(cast.field.data_type()) => Some(&mut *cast.expr),
        Expr::ScalarFunction(call) if call.func.name().starts_with("to_timestamp") => match call.args.as_mut_slice() {
            [text] => Some(text),
            _ => None,
        },
        _ => None,
    };
    let is_changed = literal.is_some_and(complete);
    Ok(Transformed::new_transformed(expr, is_changed))
}

fn is_timestamp(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..))
}

/// Adds seconds to a literal of text, also below a cast to another type of text. Returns whether it did.
fn complete(expr: &mut Expr) -> bool {
    use ScalarValue::{LargeUtf8, Utf8, Utf8View};
    match expr {
        Expr::Literal(Utf8(Some(text)) | LargeUtf8(Some(text)) | Utf8View(Some(text)), _) => {
            let is_short = lacks_seconds(text);
            if is_short {
                text.insert_str(LENGTH, ":00");
            }
            is_short
        }
        Expr::Cast(cast) if cast.field.data_type().is_string() => complete(&mut cast.expr),
        _ => false,
    }
}

/// Whether a text is a date, hours and minutes, and perhaps a zone.
fn lacks_seconds(text: &str) -> bool {
    let Some((time, zone)) = text.as_bytes().split_at_checked(LENGTH) else {
        return false;
    };
    let is_form = time.iter().zip(b"0000-00-00 00:00").all(|(&byte, form)| match form {
        b'0' => byte.is_ascii_digit(),
        b' ' => matches!(byte, b' ' | b'T' | b't'),
        form => byte == *form,
    });
    is_form && matches!(zone.first(), None | Some(b'Z' | b'z' | b'+' | b'-' | b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_seconds_are_recognized() {
        for text in [
            "2024-01-01 10:00",
            "2024-01-01T10:00",
            "2024-01-01 10:00Z",
            "2024-01-01T10:00+02:00",
        ] {
            assert!(lacks_seconds(text), "{text}");
        }
        for text in [
            "2024-01-01",
            "2024-01-01 10",
            "2024-01-01 10:00:00",
            "2024-01-01 10:00.5",
            "24-01-01 10:00:00",
            "é",
        ] {
            assert!(!lacks_seconds(text), "{text}");
        }
    }
}
