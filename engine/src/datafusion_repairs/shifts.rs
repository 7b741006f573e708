//! [`Shift`]: `lead` and `lag` without DataFusion's faults (apache/datafusion#25471).
//!
//! With IGNORE NULLS, DataFusion's evaluation row by row loses count of the NULLs between values. Its evaluation of
//! whole partitions is right, so IGNORE NULLS takes that one. A LIMIT above would take rows away that `lead`, or `lag`
//! with a negative offset, finds behind NULLs. So the LIMIT stays above.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_window::lead_lag::WindowShift;
use datafusion::logical_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_plan::PhysicalExpr;

/// The function. Everything is the inner function's, except for the way of evaluation.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shift {
    inner: Arc<WindowUDF>,
}

impl Shift {
    /// Puts the functions in place of DataFusion's in a list. Functions of other programs stay.
    pub(crate) fn replace_in(functions: &mut [Arc<WindowUDF>]) {
        for function in functions {
            if function.inner().is::<WindowShift>() {
                *function = Self::of(function);
            }
        }
    }

    fn of(inner: &Arc<WindowUDF>) -> Arc<WindowUDF> {
        let inner = Arc::clone(inner);
        Arc::new(WindowUDF::new_from_impl(Self { inner }))
    }
}

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        let ignores_nulls = args.ignore_nulls();
        let evaluator = self.inner.partition_evaluator_factory(args)?;
        Ok(match ignores_nulls {
            true => Box::new(WholePartition(evaluator)),
            false => evaluator,
        })
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.field(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.reverse_expr() {
            ReversedUDWF::Reversed(reversed) => ReversedUDWF::Reversed(Self::of(&reversed)),
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        // Whether NULLs are ignored is not told here.
        LimitEffect::Unknown
    }
}

/// An evaluator that sees whole partitions alone.
#[derive(Debug)]
struct WholePartition(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for WholePartition {
    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.0.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        false
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.0.evaluate_all(values, rows)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.0.evaluate(values, range)
    }

    fn supports_bounded_execution(&self) -> bool {
        false
    }
}
