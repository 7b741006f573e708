//! [`balance`] and [`BalancedChains`]: long chains of AND and OR become balanced trees, in statements and in plans.
//!
//! `a OR b OR c` is a tree as deep as it has operators. The planner looks at all that is below an operator, for its
//! type and for parts that repeat: time grows with the square of a chain's length. In a balanced tree, each term is
//! below few operators. AND and OR are associative, and the terms keep their order.

use std::ops::ControlFlow;

use datafusion::common::internal_err;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Expr as LogicalExpr, LogicalPlan, Operator, binary_expr};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, VisitorMut};

use super::expressions::visit;

/// Operators of a chain that stays as it is.
const MAX_SHORT: usize = 64;

/// Balances the long chains of a statement of this text.
pub(super) fn balance(text: &str, statement: &mut Statement) {
    // The shortest operator has four characters with blanks, and its operands have one each.
    if text.len() > MAX_SHORT * 5 {
        visit(statement, &mut Balancing);
    }
}

struct Balancing;

impl VisitorMut for Balancing {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(operator) = long_chain(expr) {
            let whole = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
            let join = |left, right| Expr::BinaryOp {
                left: Box::new(left),
                op: operator.clone(),
                right: Box::new(right),
            };
            if let Some(balanced) = balanced(terms(&operator, whole), join) {
                *expr = balanced;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The operator of a chain, if it is long.
fn long_chain(expr: &Expr) -> Option<BinaryOperator> {
    let Expr::BinaryOp {
        op: operator @ (BinaryOperator::And | BinaryOperator::Or),
        ..
    } = expr
    else {
        return None;
    };
    let mut rest = expr;
    for _ in 0..MAX_SHORT {
        match rest {
            Expr::BinaryOp { left, op, .. } if op == operator => rest = left,
            _ => return None,
        }
    }
    Some(operator.clone())
}

/// The terms of a chain, in their order.
fn terms(operator: &BinaryOperator, chain: Expr) -> Vec<Expr> {
    let mut terms = Vec::new();
    let mut rest = chain;
    let first = loop {
        match rest {
            Expr::BinaryOp { left, op, right } if op == *operator => {
                terms.push(*right);
                rest = *left;
            }
            first => break first,
        }
    };
    terms.push(first);
    terms.reverse();
    terms
}

/// The tree of these terms; `None` of none.
fn balanced<T>(terms: Vec<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    let mut level = terms;
    while level.len() > 1 {
        let mut pairs = level.into_iter();
        let mut above = Vec::with_capacity(pairs.len().div_ceil(2));
        while let Some(left) = pairs.next() {
            above.push(match pairs.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        level = above;
    }
    level.pop()
}

/// Balances the long chains of plans, which DataFusion's rules take apart and put together anew.
#[derive(Debug)]
pub(crate) struct BalancedChains;

impl OptimizerRule for BalancedChains {
    fn name(&self) -> &str {
        "balanced_chains"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.map_expressions(|expr| {
            let Some(operator) = long_logical_chain(&expr) else {
                return Ok(Transformed::no(expr));
            };
            let join = |left, right| binary_expr(left, operator, right);
            match balanced(logical_terms(operator, expr), join) {
                Some(balanced) => Ok(Transformed::yes(balanced)),
                None => internal_err!("a chain without terms"),
            }
        })
    }
}

/// As [`long_chain`], of a plan.
fn long_logical_chain(expr: &LogicalExpr) -> Option<Operator> {
    let LogicalExpr::BinaryExpr(BinaryExpr {
        op: operator @ (Operator::And | Operator::Or),
        ..
    }) = expr
    else {
        return None;
    };
    let mut rest = expr;
    for _ in 0..MAX_SHORT {
        match rest {
            LogicalExpr::BinaryExpr(chain) if chain.op == *operator => rest = &chain.left,
            _ => return None,
        }
    }
    Some(*operator)
}

/// As [`terms`], of a plan.
fn logical_terms(operator: Operator, chain: LogicalExpr) -> Vec<LogicalExpr> {
    let mut terms = Vec::new();
    let mut rest = chain;
    let first = loop {
        match rest {
            LogicalExpr::BinaryExpr(BinaryExpr { left, op, right }) if op == operator => {
                terms.push(*right);
                rest = *left;
            }
            first => break first,
        }
    };
    terms.push(first);
    terms.reverse();
    terms
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};
    use datafusion::optimizer::OptimizerContext;
    use datafusion::sql::parser::DFParser;

    use super::*;

    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
            Expr::Nested(inner) => depth(inner),
            _ => 0,
        }
    }

    /// The statement after balancing, and the depth of its longest chain of binary operators.
    fn after(text: &str) -> (String, usize) {
        struct Deepest(usize);
        impl VisitorMut for Deepest {
            type Break = ();
            fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
                self.0 = self.0.max(depth(expr));
                ControlFlow::Continue(())
            }
        }
        let mut statement = DFParser::parse_sql(text).unwrap().pop_front().unwrap();
        balance(text, &mut statement);
        let mut deepest = Deepest(0);
        visit(&mut statement, &mut deepest);
        (statement.to_string(), deepest.0)
    }

    fn chain(operator: &str, terms: usize) -> String {
        let terms: Vec<String> = (0..terms).map(|number| format!("v = {number}")).collect();
        terms.join(&format!(" {operator} "))
    }

    #[test]
    fn long_chains_are_flat_and_keep_their_text() {
        for operator in ["AND", "OR"] {
            for around in [
                "SELECT * FROM t WHERE {}",
                "EXPLAIN SELECT {} FROM t",
                "COPY (SELECT {} FROM t) TO 'x.csv'",
            ] {
                let text = around.replace("{}", &chain(operator, 1_000));
                let (mended, deepest) = after(&text);
                assert_eq!(mended, DFParser::parse_sql(&text).unwrap()[0].to_string());
                assert_eq!(deepest, 11, "10 of the tree, and the comparison");
            }
        }
    }

    #[test]
    fn chains_of_plans_are_flat_and_keep_their_terms() {
        for operator in [Operator::And, Operator::Or] {
            let term = |number: i32| col("v").not_eq(lit(number));
            let chain = (1..500).fold(term(0), |chain, number| binary_expr(chain, operator, term(number)));
            let rows = LogicalPlanBuilder::empty(true).project([lit(1).alias("v")]).unwrap();
            let plan = rows.filter(chain.clone()).unwrap().build().unwrap();
            let after = BalancedChains.rewrite(plan, &OptimizerContext::new()).unwrap();
            assert!(after.transformed);
            let LogicalPlan::Filter(filter) = after.data else {
                panic!("a filter")
            };
            assert!(long_logical_chain(&filter.predicate).is_none());
            assert_eq!(filter.predicate.to_string(), chain.to_string());
            let again = BalancedChains.rewrite(LogicalPlan::Filter(filter), &OptimizerContext::new());
            assert!(!again.unwrap().transformed);
        }
    }

    #[test]
    fn parts_and_short_chains_stay() {
        let (_, deepest) = after(&format!("SELECT * FROM t WHERE {}", chain("OR", 60)));
        assert_eq!(deepest, 60);
        let mixed = format!("SELECT * FROM t WHERE a AND ({}) AND NOT b", chain("OR", 300));
        let (mended, deepest) = after(&mixed);
        assert_eq!(mended, mixed);
        assert!(deepest <= 12, "{deepest}");
        let sums = format!("SELECT v{} FROM t", " + 1".repeat(300));
        assert_eq!(after(&sums), (sums, 300));
    }
}
