//! [`Aggregates`]: the keys and aggregate functions of a partial aggregation, in a program's terms.
//!
//! Each state field of DataFusion's partial aggregation is one of the program's results. AVG for example has two state
//! fields: a count and a sum.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use grampus_gpu_exec::program::{Aggregate, Expr, Function, Type};

use super::expr_lowering::ExprLowering;
use super::plan_fragment::PlanFragment;
use super::typed_expr::TypedExpr;
use super::types::{is_integer, is_number, type_of};
use crate::aggregate::{exact_sum, float_extremes};
use crate::gpu::partial_state::{Moment, StateSource};
use crate::gpu::refusal::Refusal;

/// The keys and aggregate functions of one aggregation.
#[derive(Default)]
pub(super) struct Aggregates {
    /// The grouping keys, and behind them those that functions need for their states.
    pub(super) keys: Vec<Expr>,
    /// The program's aggregates, without duplicates.
    pub(super) aggregates: Vec<Aggregate>,
    /// By position of the state field in DataFusion's order: its source.
    pub(super) state: Vec<StateSource>,
    /// The table's columns of a key behind the grouping keys that may have many values.
    open_key: Option<BTreeSet<usize>>,
}

impl Aggregates {
    /// The keys and aggregate functions of `aggregation`, whose input is `fragment`.
    pub(super) fn of(
        aggregation: &AggregateExec,
        fragment: &PlanFragment,
        expressions: &mut ExprLowering,
    ) -> Result<Self, Refusal> {
        use AggregateMode::{Partial, Single, SinglePartitioned};
        if !matches!(aggregation.mode(), Partial | Single | SinglePartitioned) {
            return Err(Refusal::MergesStates);
        }
        let group_by = aggregation.group_expr();
        if group_by.has_grouping_set() && group_by.expr().is_empty() {
            return Err(Refusal::NoKeys);
        }
        let mut aggregates = Self::default();
        for (key, _) in group_by.expr() {
            let key = expressions.lower(&fragment.over_table(key)?)?;
            aggregates.keys.push(key.expr);
        }
        for (function, filter) in aggregation.aggr_expr().iter().zip(aggregation.filter_expr()) {
            let filter = match filter {
                Some(filter) => Some(expressions.boolean(&fragment.over_table(filter)?)?),
                None => None,
            };
            aggregates.add(function, filter, fragment, expressions)?;
        }
        Ok(aggregates)
    }

    fn add(
        &mut self,
        expr: &AggregateFunctionExpr,
        filter: Option<Expr>,
        fragment: &PlanFragment,
        expressions: &mut ExprLowering,
    ) -> Result<(), Refusal> {
        let name = expr.name();
        let refuse = || Refusal::NotComputed(name.to_owned());
        if !expr.order_bys().is_empty() || !is_datafusions(expr) {
            return Err(refuse());
        }
        let arguments = expr.expressions();
        let [argument] = arguments.as_slice() else {
            return Err(refuse());
        };
        let argument = fragment.over_table(argument)?;
        let fields = expr.state_fields().map_err(Refusal::Expression)?;
        let types: Vec<&DataType> = fields.iter().map(|field| field.data_type()).collect();
        // Duplicates change neither the least value nor the greatest, nor AND and OR.
        if expr.is_distinct() && !matches!(expr.fun().name(), "min" | "max" | "bit_and" | "bit_or") {
            let key = match (types.as_slice(), filter) {
                ([DataType::List(item)], None) => self.distinct_key(&argument, item.data_type(), expressions)?,
                _ => None,
            };
            self.state.push(StateSource::KeyAsList(key.ok_or_else(refuse)?));
            return Ok(());
        }
        match (expr.fun().name(), types.as_slice()) {
            ("count", [DataType::Int64]) => {
                let argument = count_argument(&argument, expressions)?;
                self.push(StateSource::Aggregate, Function::Count, argument, filter);
            }
            ("sum", [sum]) => {
                let argument = summed(&argument, sum, &refuse, expressions)?;
                self.push(StateSource::Aggregate, Function::Sum, Some(argument), filter);
            }
            ("avg" | "sum", [DataType::UInt64, sum]) => {
                let (exact, is_sum) = (expr.field(), expr.fun().name() == "sum");
                let sum = if is_sum { exact.data_type() } else { sum };
                let argument = summed(&argument, sum, &refuse, expressions)?;
                let values = Some(argument.clone());
                self.push(StateSource::CountOrNull, Function::Count, values, filter.clone());
                self.push(StateSource::Aggregate, Function::Sum, Some(argument), filter);
            }
            ("var" | "var_pop" | "stddev" | "stddev_pop", [DataType::UInt64, DataType::Float64, DataType::Float64]) => {
                let typed = expressions.lower(&argument)?;
                if typed.ty != Type::Float64 {
                    return Err(refuse());
                }
                for part in [Moment::Count, Moment::Mean, Moment::Squares] {
                    let source = |at| StateSource::Moments(at, part);
                    self.push(source, Function::Moments, Some(typed.expr.clone()), filter.clone());
                }
            }
            ("bit_and" | "bit_or" | "bit_xor", [_]) => {
                let typed = expressions.lower(&argument)?;
                if !is_integer(typed.ty) {
                    return Err(refuse());
                }
                let function = match expr.fun().name() {
                    "bit_and" => Function::BitAnd,
                    "bit_or" => Function::BitOr,
                    _ => Function::BitXor,
                };
                self.push(StateSource::Aggregate, function, Some(typed.expr), filter);
            }
            ("bool_and", [DataType::Boolean]) => {
                let argument = expressions.boolean(&argument)?;
                self.push(StateSource::Aggregate, Function::Min, Some(argument), filter);
            }
            ("bool_or", [DataType::Boolean]) => {
                let argument = expressions.boolean(&argument)?;
                self.push(StateSource::Aggregate, Function::Max, Some(argument), filter);
            }
            ("min" | "max", [_]) => {
                let typed = expressions.lower(&argument)?;
                let function = match expr.fun().name() {
                    "min" => Function::Min,
                    _ => Function::Max,
                };
                match (typed.ty, &filter) {
                    // Codes have no order, but a group with one string needs none.
                    (Type::Code, None) => {
                        let key = self.key(typed, &argument).ok_or_else(refuse)?;
                        self.state.push(StateSource::Key(key));
                    }
                    (Type::Code, Some(_)) => return Err(Refusal::OrdersStrings(name.to_owned())),
                    _ => self.push(StateSource::Aggregate, function, Some(typed.expr), filter),
                }
            }
            _ => return Err(refuse()),
        }
        Ok(())
    }

    /// The key whose values are the distinct ones of `argument`, as lists of `item`; `None` if there is none.
    fn distinct_key(
        &mut self,
        argument: &Arc<dyn PhysicalExpr>,
        item: &DataType,
        expressions: &mut ExprLowering,
    ) -> Result<Option<usize>, Refusal> {
        let typed = expressions.lower(argument)?;
        if type_of(item) != Some(typed.ty) || has_two_zeros(argument, expressions)? {
            return Ok(None);
        }
        Ok(self.key(typed, argument))
    }

    /// The position of a key, which is added if it is new. `None`: with two keys that are neither strings nor booleans,
    /// nor functions of the same columns, the groups could be as many as the rows.
    fn key(&mut self, key: TypedExpr, argument: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        if let Some(known) = self.keys.iter().position(|known| *known == key.expr) {
            return Some(known);
        }
        if !matches!(key.ty, Type::Code | Type::Bool) {
            let columns = collect_columns(argument).iter().map(Column::index).collect();
            if *self.open_key.get_or_insert_with(|| BTreeSet::clone(&columns)) != columns {
                return None;
            }
        }
        self.keys.push(key.expr);
        Some(self.keys.len() - 1)
    }

    /// Adds a state field. Equal state fields share one aggregate.
    fn push(
        &mut self,
        source: impl Fn(usize) -> StateSource,
        function: Function,
        argument: Option<Expr>,
        filter: Option<Expr>,
    ) {
        let aggregate = Aggregate {
            function,
            argument,
            filter,
        };
        let known = self.aggregates.iter().position(|known| *known == aggregate);
        self.state.push(source(known.unwrap_or(self.aggregates.len())));
        if known.is_none() {
            self.aggregates.push(aggregate);
        }
    }
}

/// True if the function is DataFusion's own function of this name, or ours in its place.
fn is_datafusions(expr: &AggregateFunctionExpr) -> bool {
    use datafusion::functions_aggregate::{
        average, bit_and_or_xor, bool_and_or, count, min_max, stddev, sum, variance,
    };
    let own = match expr.fun().name() {
        "count" => count::count_udaf(),
        "sum" if exact_sum::is_exact(expr.fun()) => return true,
        "sum" => sum::sum_udaf(),
        "avg" => average::avg_udaf(),
        "min" => min_max::min_udaf(),
        "max" => min_max::max_udaf(),
        "bool_and" => bool_and_or::bool_and_udaf(),
        "bool_or" => bool_and_or::bool_or_udaf(),
        "bit_and" => bit_and_or_xor::bit_and_udaf(),
        "bit_or" => bit_and_or_xor::bit_or_udaf(),
        "bit_xor" => bit_and_or_xor::bit_xor_udaf(),
        "var" => variance::var_samp_udaf(),
        "var_pop" => variance::var_pop_udaf(),
        "stddev" => stddev::stddev_udaf(),
        "stddev_pop" => stddev::stddev_pop_udaf(),
        _ => return false,
    };
    own.as_ref() == expr.fun() || float_extremes::is_own(expr.fun())
}

/// Whether values may be 0.0 and -0.0, which are one group, and two distinct values of DataFusion.
fn has_two_zeros(argument: &Arc<dyn PhysicalExpr>, expressions: &mut ExprLowering) -> Result<bool, Refusal> {
    // A float that was cast from another type is never -0.0.
    let origin = argument.downcast_ref::<CastExpr>().map_or(argument, CastExpr::expr);
    Ok(matches!(expressions.lower(origin)?.ty, Type::Float32 | Type::Float64))
}

/// The argument of a count; `None` for a literal that is not NULL, as in `count(*)`: such a count counts rows.
fn count_argument(argument: &Arc<dyn PhysicalExpr>, expressions: &mut ExprLowering) -> Result<Option<Expr>, Refusal> {
    use datafusion::physical_expr::expressions::Literal;
    match argument.downcast_ref::<Literal>() {
        Some(literal) if !literal.value().is_null() => Ok(None),
        _ => Ok(Some(expressions.lower(argument)?.expr)),
    }
}

/// The argument of a sum whose state is of type `sum`.
fn summed(
    argument: &Arc<dyn PhysicalExpr>,
    sum: &DataType,
    refuse: &dyn Fn() -> Refusal,
    expressions: &mut ExprLowering,
) -> Result<Expr, Refusal> {
    let typed = expressions.lower(argument)?;
    let fits = match (typed.ty, sum) {
        // Kernels sum in 16 bytes, and refuse values whose sum could take more.
        (Type::Decimal { scale, .. }, DataType::Decimal128(_, sum_scale) | DataType::Decimal256(_, sum_scale)) => {
            scale == *sum_scale
        }
        (Type::Float32 | Type::Float64, DataType::Float64) => true,
        (ty, DataType::Int64) => is_number(ty) && !matches!(ty, Type::Float32 | Type::Float64),
        _ => false,
    };
    if fits { Ok(typed.expr) } else { Err(refuse()) }
}
