//! [`WrittenNumbers`]: literals whose digits a DOUBLE does not hold keep them (apache/datafusion#4072).
//!
//! DataFusion's planner makes a DOUBLE of `900719925474.0993`, which is another number. Before it plans a statement,
//! [`keep_digits`] makes an operator of such a literal, with the literal and its text as operands. [`WrittenNumbers`]
//! plans the operator as a call of [`WrittenNumber`], which has the DOUBLE's type, name and value. Rules read the
//! digits, and `decimal_literals` puts the DOUBLE in the place of the call. Aliases and metadata do not do: WHERE drops
//! the ones, and types of columns keep the others. Statements of `SessionContext::sql` are not changed: their literals
//! are the shortest numbers of their DOUBLEs.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_datafusion_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as SqlExpr, UnaryOperator, Value, VisitorMut};

use super::exact_number::ExactNumber;

/// The operator, which no parser reads.
const OPERATOR: &str = "written as";
/// The planner of the operator.
#[derive(Debug)]
pub(crate) struct WrittenNumbers;

impl ExprPlanner for WrittenNumbers {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_ours = matches!(&expr.op, BinaryOperator::Custom(name) if name == OPERATOR);
        Ok(match (&expr.left, &expr.right) {
            (Expr::Literal(number, _), Expr::Literal(text, _)) if is_ours => {
                let number = Expr::Literal(number.clone(), None);
                // A setting of DataFusion makes DECIMAL of literals.
                let is_double = matches!(number, Expr::Literal(ScalarValue::Float64(Some(_)), _));
                PlannerResult::Planned(match text.try_as_str().flatten() {
                    Some(text) if is_double => ScalarUDF::from(WrittenNumber::new()).call(vec![number, lit(text)]),
                    _ => number,
                })
            }
            _ => PlannerResult::Original(expr),
        })
    }
}

/// A DOUBLE and its text. The value is the DOUBLE.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WrittenNumber {
    signature: Signature,
}

impl WrittenNumber {
    fn new() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for WrittenNumber {
    fn name(&self) -> &str {
        "written_number"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args
            .iter()
            .take(1)
            .map(|number| number.schema_name().to_string())
            .collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), DataType::Float64, false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let number = args.args.into_iter().next();
        number.ok_or_else(|| exec_datafusion_err!("{} without its number", self.name()))
    }
}

/// The DOUBLE and the text of a literal with its digits.
fn parts(expr: &Expr) -> Option<(&Expr, &str)> {
    match expr {
        Expr::ScalarFunction(call) if call.func.inner().is::<WrittenNumber>() => match call.args.as_slice() {
            [number, Expr::Literal(text, _)] => Some((number, text.try_as_str()??)),
            _ => None,
        },
        _ => None,
    }
}

/// The digits of a literal that has them.
pub(super) fn written(expr: &Expr) -> Option<ExactNumber> {
    ExactNumber::parse(parts(expr)?.1)
}

/// The DOUBLE of a literal with its digits.
pub(super) fn without_digits(expr: &Expr) -> Option<Expr> {
    Some(parts(expr)?.0.clone())
}

/// Whether the session has the repairs.
pub(crate) fn is_repaired(state: &SessionState) -> bool {
    let planner = state.config().get_extension::<WrittenNumbers>();
    planner.is_some_and(|planner| {
        let mut known = state.expr_planners().iter();
        known.any(|known| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(&planner)))
    })
}

/// A visitor that makes the operator of literals, if the session plans it.
pub(crate) fn keep_digits(state: &SessionState) -> impl VisitorMut<Break = ()> + use<> {
    KeepDigits {
        is_planned: is_repaired(state),
    }
}

struct KeepDigits {
    is_planned: bool,
}

impl VisitorMut for KeepDigits {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        match expr {
            _ if !self.is_planned => {}
            SqlExpr::Value(literal) => {
                let text = match &literal.value {
                    Value::Number(text, _) => text.to_string(),
                    _ => return ControlFlow::Continue(()),
                };
                if has_other_digits(&text) {
                    *expr = operator(expr.clone(), text);
                }
            }
            // DataFusion reads the sign and the digits as one number.
            SqlExpr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: inner,
            } => {
                let Some((number, text)) = operands(inner) else {
                    return ControlFlow::Continue(());
                };
                let (text, number) = (format!("-{text}"), number.clone());
                **inner = number;
                *expr = operator(expr.clone(), text);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn operator(number: SqlExpr, text: String) -> SqlExpr {
    SqlExpr::BinaryOp {
        left: Box::new(number),
        op: BinaryOperator::Custom(OPERATOR.to_owned()),
        right: Box::new(SqlExpr::Value(Value::SingleQuotedString(text).into())),
    }
}

/// The literal and its text, unless the literal has a sign.
fn operands(expr: &SqlExpr) -> Option<(&SqlExpr, &str)> {
    match expr {
        SqlExpr::BinaryOp {
            left,
            op: BinaryOperator::Custom(name),
            right,
        } if name == OPERATOR => match (left.as_ref(), right.as_ref()) {
            (SqlExpr::Value(_), SqlExpr::Value(text)) => match &text.value {
                Value::SingleQuotedString(text) => Some((left, text)),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// Whether a number becomes a DOUBLE whose shortest text has other digits.
fn has_other_digits(text: &str) -> bool {
    if text.parse::<u64>().is_ok() {
        return false;
    }
    let Some(written) = ExactNumber::parse(text) else {
        return false;
    };
    let double = text.parse::<f64>().ok().filter(|double| double.is_finite());
    double.is_some_and(|double| ExactNumber::of_double(double) != Some(written))
}
