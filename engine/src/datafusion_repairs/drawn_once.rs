//! `DrawnOnce`: an analyzer rule that evaluates volatile operands once.
//!
//! The faults are apache/datafusion#25477, apache/datafusion#25457, and others of their kind: DataFusion rewrites some
//! expressions so that an operand stands in them twice. An operand such as `random()` then has two values for one row.
//! The rule puts functions of [`Once`] in place of these expressions. Their operands are evaluated for all rows, where
//! DataFusion would skip rows that an earlier operand decides.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{and_kleene, is_not_null};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::functions::core::coalesce::CoalesceFunc;
use datafusion::functions::core::nvl::NVLFunc;
use datafusion::logical_expr::expr::{Between, Case, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit, not,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply_cmp;

use crate::plan_rewrites::rewrite_expressions;

/// The rule.
#[derive(Debug)]
pub(crate) struct DrawnOnce;

impl AnalyzerRule for DrawnOnce {
    fn name(&self) -> &str {
        "drawn_once"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| rewrite_expressions(plan, &|expr| Ok(once(expr))))?;
        Ok(rewritten.data)
    }
}

/// The expression in a form whose volatile operands stand in it once, whatever DataFusion does.
fn once(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::Between(Between {
            expr,
            negated,
            low,
            high,
        }) if expr.is_volatile() => {
            let is_between = Once::Between.call(vec![*expr, *low, *high]);
            Transformed::yes(if negated { not(is_between) } else { is_between })
        }
        Expr::ScalarFunction(call) if is_coalesce(&call) => {
            let (_, earlier) = call.args.split_last().unzip();
            match earlier.is_some_and(|earlier: &[Expr]| earlier.iter().any(Expr::is_volatile)) {
                true => Transformed::yes(Once::Coalesce.call(call.args)),
                false => Transformed::no(Expr::ScalarFunction(call)),
            }
        }
        Expr::BinaryExpr(binary) => once_in_comparison(binary),
        Expr::Case(case) if case.expr.is_none() && case.when_then_expr.iter().any(|(when, _)| when.is_volatile()) => {
            Transformed::yes(chain(case))
        }
        expr => Transformed::no(expr),
    }
}

fn is_coalesce(call: &ScalarFunction) -> bool {
    let function = call.func.inner();
    function.is::<CoalesceFunc>() || function.is::<NVLFunc>()
}

/// Comparisons of functions with literals become ranges of the function's argument, and regular expressions become
/// several patterns.
fn once_in_comparison(mut binary: BinaryExpr) -> Transformed<Expr> {
    use Operator::{Eq, IsDistinctFrom, IsNotDistinctFrom, NotEq};
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    let is_function = |expr: &Expr| {
        matches!(expr, Expr::ScalarFunction(call) if !call.func.inner().is::<OnceFunction>()) && expr.is_volatile()
    };
    let is_changed = match binary.op {
        Eq | NotEq | IsDistinctFrom | IsNotDistinctFrom => {
            let mut is_changed = false;
            for operand in [&mut binary.left, &mut binary.right] {
                if is_function(operand) {
                    **operand = Once::Value.call(vec![std::mem::take(&mut **operand)]);
                    is_changed = true;
                }
            }
            is_changed
        }
        RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch if binary.left.is_volatile() => {
            // A literal, or a cast of one.
            let is_constant = !binary.right.any_column_refs();
            if is_constant {
                *binary.right = Once::Value.call(vec![std::mem::take(&mut *binary.right)]);
            }
            is_constant
        }
        _ => false,
    };
    Transformed::new_transformed(Expr::BinaryExpr(binary), is_changed)
}

/// `CASE WHEN x THEN a … END` as `CASE x WHEN true THEN a ELSE … END`, which DataFusion does not turn into AND and OR.
fn chain(case: Case) -> Expr {
    let branches = case.when_then_expr.into_iter().rev();
    let chained = branches.fold(case.else_expr, |otherwise, (when, then)| {
        Some(Box::new(Expr::Case(Case {
            expr: Some(when),
            when_then_expr: vec![(Box::new(lit(true)), then)],
            else_expr: otherwise,
        })))
    });
    chained.map_or(lit(ScalarValue::Null), |chained| *chained)
}

/// A function whose operands are evaluated once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Once {
    /// `value BETWEEN low AND high`.
    Between,
    /// `coalesce`.
    Coalesce,
    /// The operand itself.
    Value,
}

impl Once {
    fn call(self, args: Vec<Expr>) -> Expr {
        let function = OnceFunction {
            once: self,
            signature: Signature::variadic_any(Volatility::Volatile),
        };
        Expr::ScalarFunction(ScalarFunction::new_udf(
            Arc::new(ScalarUDF::new_from_impl(function)),
            args,
        ))
    }
}

/// A function of [`Once`] for DataFusion.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OnceFunction {
    once: Once,
    signature: Signature,
}

impl ScalarUDFImpl for OnceFunction {
    fn name(&self) -> &str {
        match self.once {
            Once::Between => "between_once",
            Once::Coalesce => "coalesce_once",
            Once::Value => "value_once",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{} has a return field", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let mut fields = args.arg_fields.iter();
        let (data_type, is_nullable) = match self.once {
            Once::Between => (DataType::Boolean, fields.any(|field| field.is_nullable())),
            Once::Coalesce | Once::Value => {
                let is_nullable = args.arg_fields.iter().all(|field| field.is_nullable());
                let known = fields
                    .map(|field| field.data_type())
                    .find(|data_type| !data_type.is_null());
                (known.cloned().unwrap_or(DataType::Null), is_nullable)
            }
        };
        Ok(Arc::new(Field::new(self.name(), data_type, is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        match (self.once, args.args.as_slice()) {
            (Once::Between, [value, low, high]) => {
                let above = apply_cmp(Operator::GtEq, value, low)?.into_array(rows)?;
                let below = apply_cmp(Operator::LtEq, value, high)?.into_array(rows)?;
                let between = and_kleene(above.as_boolean(), below.as_boolean())?;
                Ok(ColumnarValue::Array(Arc::new(between)))
            }
            (Once::Coalesce, [earlier @ .., last]) => {
                let mut found = typed(last, args.return_type(), rows)?;
                for operand in earlier.iter().rev() {
                    let operand = typed(operand, args.return_type(), rows)?;
                    found = zip(&is_not_null(&operand)?, &operand, &found)?;
                }
                Ok(ColumnarValue::Array(found))
            }
            (Once::Value, [value]) => Ok(value.clone()),
            _ => internal_err!("{} has other operands", self.name()),
        }
    }
}

fn typed(operand: &ColumnarValue, data_type: &DataType, rows: usize) -> Result<ArrayRef> {
    operand.cast_to(data_type, None)?.into_array(rows)
}
