//! [`SoundSimplification`]: DataFusion's rule `simplify_expressions`, without two of its steps.
//!
//! - It merges two lists of one operand: `x IN (…) AND x IN (…)` becomes the values in both lists, `x IN (…) AND x NOT
//!   IN (…)` those in one alone, `x NOT IN (…) OR x NOT IN (…)` those in both. It compares the values as they are
//!   written. So lists with columns lose rows, lists with NULL gain some, and a NULL in the place of x is false if
//!   nothing is left.
//! - `text ~ '.*'` becomes `text IS NOT NULL`, which is false for NULL.
//!
//! While the rule runs, each of such lists has an operand of its own. The lists stay two. Equal lists have one operand:
//! the rule still finds what the sides of an OR have in common.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

const SIMPLIFY: &str = "simplify_expressions";

/// The rule.
#[derive(Debug)]
pub(super) struct SoundSimplification {
    inner: Arc<dyn OptimizerRule + Send + Sync>,
}

impl SoundSimplification {
    /// Puts the rule in the place of DataFusion's.
    pub(super) fn replace_in(optimizer: &mut Optimizer) {
        for rule in &mut optimizer.rules {
            if rule.name() == SIMPLIFY {
                let inner = Arc::clone(rule);
                *rule = Arc::new(Self { inner });
            }
        }
    }
}

impl OptimizerRule for SoundSimplification {
    fn name(&self) -> &str {
        SIMPLIFY
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut hidden_lists = Vec::new();
        let hidden = of_each_expression(plan, |expr| hide(expr, &mut hidden_lists))?;
        let mut simplified = self.inner.rewrite(hidden.data, config)?;
        simplified.transformed |= hidden.transformed;
        match hidden_lists.is_empty() {
            true => Ok(simplified),
            // Names are as before: the rule keeps them.
            false => simplified.transform_data(|plan| plan.map_expressions(show)),
        }
    }
}

/// The plan node with other expressions of the same names.
fn of_each_expression(
    plan: LogicalPlan,
    mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    let mut change = |expr: Expr| {
        let name = names.save(&expr);
        let changed = change(expr)?;
        Ok(match changed.transformed {
            true => changed.update_data(|expr| name.restore(expr)),
            false => changed,
        })
    };
    plan.map_expressions(|expr| match expr {
        Expr::GroupingSet(_) => expr.map_children(&mut change),
        expr => change(expr),
    })
}

/// Operands that the rule would compare: those of lists, and columns beside a literal.
fn operands(expr: &Expr) -> Result<Vec<Expr>> {
    let mut found = Vec::new();
    expr.apply(|expr| {
        match expr {
            Expr::InList(list) => found.push(list.expr.as_ref().clone()),
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::Eq,
                right,
            }) => match (left.as_ref(), right.as_ref()) {
                (column @ Expr::Column(_), Expr::Literal(..)) | (Expr::Literal(..), column @ Expr::Column(_)) => {
                    found.push(column.clone());
                }
                _ => {}
            },
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The expression as the rule may see it. `lists`: those with an operand of their own, whose number is their position.
fn hide(expr: Expr, lists: &mut Vec<InList>) -> Result<Transformed<Expr>> {
    let has_list = expr.exists(|expr| Ok(matches!(expr, Expr::InList(_))))?;
    let operands = if has_list { operands(&expr)? } else { Vec::new() };
    expr.transform_up(|expr| match expr {
        Expr::InList(list) if operands.iter().filter(|operand| **operand == *list.expr).count() > 1 => {
            let number = lists.iter().position(|known| *known == list).unwrap_or_else(|| {
                lists.push(list.clone());
                lists.len() - 1
            });
            let operand = Expr::ScalarFunction(ScalarFunction {
                func: Arc::new(ScalarUDF::from(OwnOperand::new(number))),
                args: vec![*list.expr],
            });
            Ok(Transformed::yes(Expr::InList(InList {
                expr: Box::new(operand),
                ..list
            })))
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::RegexMatch,
            right,
        }) if is_any_text(&right) => {
            let unknown = lit(ScalarValue::Boolean(None));
            Ok(Transformed::yes(left.is_not_null().or(unknown)))
        }
        expr => Ok(Transformed::no(expr)),
    })
}

fn is_any_text(pattern: &Expr) -> bool {
    match pattern {
        Expr::Literal(value, _) => value.try_as_str().flatten() == Some(".*"),
        Expr::Cast(cast) => is_any_text(&cast.expr),
        _ => false,
    }
}

/// The expression with the operands that it had.
fn show(expr: Expr) -> Result<Transformed<Expr>> {
    let shown = expr.transform_up(|expr| match expr {
        Expr::ScalarFunction(mut call) if call.func.inner().is::<OwnOperand>() => match call.args.pop() {
            Some(operand) => Ok(Transformed::yes(operand)),
            None => internal_err!("an operand of a list is lost"),
        },
        expr => Ok(Transformed::no(expr)),
    })?;
    // Hiding may have given an expression the name that it has anyway.
    Ok(shown.update_data(|expr| match expr {
        Expr::Alias(alias) if alias.relation.is_none() && alias.expr.schema_name().to_string() == alias.name => {
            *alias.expr
        }
        expr => expr,
    }))
}

/// The operand of one list, which equals no other list's.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OwnOperand {
    number: usize,
    signature: Signature,
}

impl OwnOperand {
    fn new(number: usize) -> Self {
        Self {
            number,
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for OwnOperand {
    fn name(&self) -> &str {
        "own_operand"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [operand] => Ok(operand.clone()),
            _ => internal_err!("a list has one operand"),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.pop() {
            Some(operand) => Ok(operand),
            None => internal_err!("a list has one operand"),
        }
    }
}
