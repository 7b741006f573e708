//! [`TextFunction`]: an expression over one column of strings, which DataFusion evaluates once for each string of a
//! dictionary.
//!
//! A device knows strings as codes, which it compares for equality and nothing else. `LIKE`, `upper(s)`, `s < 'm'` or a
//! CASE over them become a column of codes: those of the expression's values. A stripe's dictionary has each string
//! once, so the expression is evaluated on its entries, and the device looks the codes up.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::PhysicalExpr;
use grampus_gpu_exec::program::Type;

/// The text of a condition's value.
pub(crate) const TRUE: &str = "true";
const FALSE: &str = "false";

/// What a function makes of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// [`TRUE`] or its opposite.
    Condition,
    Text,
    /// A number or a date of four bytes.
    Number(Type),
}

/// An expression over one column of strings. NULL gives NULL.
#[derive(Debug)]
pub(crate) struct TextFunction {
    /// Over column 0 of `schema`.
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    outcome: Outcome,
}

impl PartialEq for TextFunction {
    fn eq(&self, other: &Self) -> bool {
        self.expr.eq(&other.expr) && self.schema == other.schema
    }
}

impl Eq for TextFunction {}

impl Hash for TextFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.expr.hash(state);
    }
}

impl TextFunction {
    /// The column of `table` that `expr` is a function of, and the function. `None`: it is none, or it makes something
    /// of NULL.
    pub(crate) fn of(expr: &Arc<dyn PhysicalExpr>, table: &Schema) -> Option<(usize, Self)> {
        let columns = collect_columns(expr);
        let mut columns = columns.iter().map(Column::index);
        let (column, None) = (columns.next()?, columns.next()) else {
            return None;
        };
        let schema = Arc::new(table.project(&[column]).ok()?);
        let is_text = *schema.field(0).data_type() == DataType::Utf8;
        let moved = Arc::clone(expr).transform_down(|expr| {
            Ok(match expr.downcast_ref::<Column>() {
                Some(column) => Transformed::yes(Arc::new(Column::new(column.name(), 0)) as Arc<dyn PhysicalExpr>),
                None => Transformed::no(expr),
            })
        });
        let expr = moved.data().ok()?;
        let outcome = match expr.data_type(&schema).ok()? {
            DataType::Boolean => Outcome::Condition,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Outcome::Text,
            DataType::Int32 => Outcome::Number(Type::Int32),
            DataType::Date32 => Outcome::Number(Type::Date32),
            _ => return None,
        };
        let function = Self { expr, schema, outcome };
        let keeps_null = || {
            let of_null = function.values(new_null_array(&DataType::Utf8, 1));
            of_null.is_ok_and(|value| value.logical_null_count() == 1)
        };
        (is_text && !is_volatile(&function.expr) && keeps_null()).then_some((column, function))
    }

    /// What it makes of a string.
    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The value for each string: a text, or a number.
    ///
    /// # Errors
    /// If the expression fails on a string.
    pub(crate) fn of_strings(&self, strings: ArrayRef) -> Result<ArrayRef> {
        let values = self.values(strings)?;
        Ok(match self.outcome {
            Outcome::Condition => {
                let text = |value| if value { TRUE } else { FALSE };
                let texts = values.as_boolean().iter().map(|value| value.map(text));
                Arc::new(texts.collect::<StringArray>())
            }
            Outcome::Text => cast(&values, &DataType::Utf8)?,
            Outcome::Number(_) => values,
        })
    }

    fn values(&self, strings: ArrayRef) -> Result<ArrayRef> {
        let rows = strings.len();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![strings])?;
        self.expr.evaluate(&batch)?.into_array(rows)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Array;
    use arrow::datatypes::{Field, Int32Type};
    use datafusion::functions::expr_fn::{character_length, coalesce, random, upper};
    use datafusion::logical_expr::cast as cast_to;
    use datafusion::prelude::{SessionContext, col, lit};

    use super::*;

    fn table() -> Schema {
        let field = |name: &str, ty| Field::new(name, ty, true);
        Schema::new(vec![
            field("n", DataType::Int64),
            field("s", DataType::Utf8),
            field("t", DataType::Utf8),
        ])
    }

    fn function(expr: datafusion::logical_expr::Expr) -> Option<(usize, TextFunction)> {
        let schema = datafusion::common::DFSchema::try_from(table()).unwrap();
        TextFunction::of(
            &SessionContext::new().create_physical_expr(expr, &schema).unwrap(),
            &table(),
        )
    }

    #[test]
    fn functions_of_one_string_are_evaluated_on_strings() {
        let strings = Arc::new(StringArray::from(vec![Some("ab"), None, Some("b")])) as ArrayRef;
        let (column, like) = function(col("s").like(lit("a%"))).unwrap();
        assert_eq!((column, like.outcome()), (1, Outcome::Condition));
        let texts = like.of_strings(Arc::clone(&strings)).unwrap();
        assert_eq!(
            texts.as_string::<i32>().iter().collect::<Vec<_>>(),
            [Some(TRUE), None, Some(FALSE)]
        );
        let (_, length) = function(character_length(col("s"))).unwrap();
        assert_eq!(length.outcome(), Outcome::Number(Type::Int32));
        let lengths = length.of_strings(Arc::clone(&strings)).unwrap();
        assert_eq!(
            lengths.as_primitive::<Int32Type>().iter().collect::<Vec<_>>(),
            [Some(2), None, Some(1)]
        );
        let (column, upper_case) = function(upper(col("t"))).unwrap();
        assert_eq!((column, upper_case.outcome()), (2, Outcome::Text));
        let texts = upper_case.of_strings(strings).unwrap();
        assert_eq!(
            texts.as_string::<i32>().iter().collect::<Vec<_>>(),
            [Some("AB"), None, Some("B")]
        );
        assert_ne!(like, function(col("s").like(lit("b%"))).unwrap().1);
        assert_eq!(like, function(col("s").like(lit("a%"))).unwrap().1);
    }

    #[test]
    fn other_expressions_are_no_functions_of_a_string() {
        for expr in [
            col("s").eq(col("t")),
            lit("x").eq(lit("y")),
            col("n").gt(lit(1i64)),
            col("s").is_null(),
            coalesce(vec![col("s"), lit("none")]),
            cast_to(col("s"), DataType::Float64),
            col("s").eq(lit("x")).and(random().gt(lit(0.5))),
        ] {
            assert!(function(expr.clone()).is_none(), "{expr}");
        }
        assert_eq!(new_null_array(&DataType::Utf8, 1).null_count(), 1);
    }
}
