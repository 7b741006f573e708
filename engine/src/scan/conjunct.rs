//! `Conjunct`: one part of a filter that is a conjunction.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::PhysicalExpr;

use super::comparison_kernel::ComparisonKernel;
use super::equal_zeros::EqualZeros;
use super::fallible::is_fallible;

/// One conjunct of the filter, ready to be evaluated on a batch of just its columns.
#[derive(Debug, Clone)]
pub(crate) struct Conjunct {
    /// The expression over the table's columns.
    pub(crate) expr: Arc<dyn PhysicalExpr>,
    /// The expression over `schema`.
    compact: Arc<dyn PhysicalExpr>,
    /// The form in which a dynamic filter over floats is evaluated.
    equal_zeros: Option<Arc<EqualZeros>>,
    /// The table columns of the expression, ascending.
    pub(crate) columns: Vec<usize>,
    /// The schema of `columns`.
    pub(crate) schema: SchemaRef,
    /// The kernel, if the expression has the shape that the kernel supports.
    pub(super) kernel: Option<ComparisonKernel>,
    /// Whether the evaluation may fail on a row. Then the conjuncts that are written before it are evaluated first.
    pub(crate) is_fallible: bool,
}

impl Conjunct {
    /// Prepares `expr`, an expression over `table`.
    ///
    /// # Errors
    /// If the expression names a column that the table does not have.
    pub(crate) fn new(expr: Arc<dyn PhysicalExpr>, table: &Schema) -> Result<Self> {
        let mut columns: Vec<usize> = collect_columns(&expr).iter().map(|column| column.index()).collect();
        columns.sort_unstable();
        let schema = Arc::new(table.project(&columns)?);
        let compact = reassign_expr_columns(Arc::clone(&expr), &schema)?;
        let is_dynamic = DynamicFilterTracking::classify(&expr).contains_dynamic_filter();
        let equal_zeros = is_dynamic.then(|| EqualZeros::of(&compact, &schema)).flatten();
        Ok(Self {
            is_fallible: is_fallible(compact.as_ref(), &schema),
            kernel: ComparisonKernel::recognise(&expr),
            equal_zeros: equal_zeros.map(Arc::new),
            compact,
            expr,
            columns,
            schema,
        })
    }

    /// The expression's value for each row of a batch of `schema`.
    ///
    /// # Errors
    /// If the expression fails.
    pub(crate) fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match &self.equal_zeros {
            Some(filter) => filter.now()?.evaluate(batch),
            None => self.compact.evaluate(batch),
        }
    }

    /// The expression's column, if it is the only one and has strings. Then the expression can be evaluated on the
    /// entries of a dictionary.
    pub(super) fn text_column(&self) -> Option<usize> {
        match (self.columns.as_slice(), self.schema.fields().first()?.data_type()) {
            (&[column], DataType::Utf8) => Some(column),
            _ => None,
        }
    }
}
