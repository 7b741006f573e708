//! Keys and aggregate functions: each state field of DataFusion's partial aggregation is one of the program's results.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use grampus_gpu_exec::program::{Aggregate, Expr, Function, Type};

use super::Reason;
use super::expr_lowering::{Builder, is_number};
use super::plan_fragment::Source;

/// Where a field of the partial aggregation's schema comes from: by position in the program's aggregates.
pub(crate) type StateField = usize;

/// Keys, aggregates, and the state fields in DataFusion's order.
type Lowered = (Vec<Expr>, Vec<Aggregate>, Vec<StateField>);

/// The keys and aggregates of `aggregation`.
pub(super) fn lower(
    aggregation: &AggregateExec,
    source: &Source,
    builder: &mut Builder<'_>,
) -> Result<Lowered, Reason> {
    use AggregateMode::{Partial, Single, SinglePartitioned};
    if !matches!(aggregation.mode(), Partial | Single | SinglePartitioned) {
        return Err("it merges other aggregations".to_owned());
    }
    let group_by = aggregation.group_expr();
    if group_by.has_grouping_set() || !(group_by.is_empty() || group_by.is_single()) {
        return Err("GROUPING SETS, ROLLUP and CUBE are not computed on the GPU".to_owned());
    }
    let mut keys = Vec::with_capacity(group_by.expr().len());
    for (key, _) in group_by.expr() {
        keys.push(builder.lower(&source.over_table(key)?)?.expr);
    }
    let mut aggregates = Aggregates::default();
    for (function, filter) in aggregation.aggr_expr().iter().zip(aggregation.filter_expr()) {
        let filter = match filter {
            Some(filter) => Some(builder.boolean(&source.over_table(filter)?)?),
            None => None,
        };
        aggregates.add(function, filter, source, builder)?;
    }
    Ok((keys, aggregates.aggregates, aggregates.state))
}

#[derive(Default)]
struct Aggregates {
    aggregates: Vec<Aggregate>,
    state: Vec<StateField>,
}

impl Aggregates {
    fn add(
        &mut self,
        expr: &AggregateFunctionExpr,
        filter: Option<Expr>,
        source: &Source,
        builder: &mut Builder<'_>,
    ) -> Result<(), Reason> {
        let name = expr.name();
        let refuse = || format!("{name} is not computed on the GPU");
        if expr.is_distinct() || !expr.order_bys().is_empty() || !is_datafusions(expr) {
            return Err(refuse());
        }
        let arguments = expr.expressions();
        let [argument] = arguments.as_slice() else {
            return Err(refuse());
        };
        let argument = source.over_table(argument)?;
        let fields = expr.state_fields().map_err(|error| error.strip_backtrace())?;
        let types: Vec<&DataType> = fields.iter().map(|field| field.data_type()).collect();
        match (expr.fun().name(), types.as_slice()) {
            ("count", [DataType::Int64]) => {
                let argument = count_argument(&argument, builder)?;
                self.push(Function::Count, argument, filter);
            }
            ("sum", [sum]) => {
                let argument = summed(&argument, sum, &refuse, builder)?;
                self.push(Function::Sum, Some(argument), filter);
            }
            ("avg", [DataType::UInt64, sum]) => {
                let argument = summed(&argument, sum, &refuse, builder)?;
                self.push(Function::Count, Some(argument.clone()), filter.clone());
                self.push(Function::Sum, Some(argument), filter);
            }
            ("min", [_]) => {
                let argument = ordered(&argument, name, builder)?;
                self.push(Function::Min, Some(argument), filter);
            }
            ("max", [_]) => {
                let argument = ordered(&argument, name, builder)?;
                self.push(Function::Max, Some(argument), filter);
            }
            _ => return Err(refuse()),
        }
        Ok(())
    }

    /// One aggregate serves all fields that are the same.
    fn push(&mut self, function: Function, argument: Option<Expr>, filter: Option<Expr>) {
        let aggregate = Aggregate {
            function,
            argument,
            filter,
        };
        let known = self.aggregates.iter().position(|known| *known == aggregate);
        self.state.push(known.unwrap_or(self.aggregates.len()));
        if known.is_none() {
            self.aggregates.push(aggregate);
        }
    }
}

/// Whether the function is the one that DataFusion itself has under this name.
fn is_datafusions(expr: &AggregateFunctionExpr) -> bool {
    use datafusion::functions_aggregate::{average, count, min_max, sum};
    let own = match expr.fun().name() {
        "count" => count::count_udaf(),
        "sum" => sum::sum_udaf(),
        "avg" => average::avg_udaf(),
        "min" => min_max::min_udaf(),
        "max" => min_max::max_udaf(),
        _ => return false,
    };
    own.as_ref() == expr.fun()
}

/// What is counted: rows for a literal that is not NULL, as in `count(*)`.
fn count_argument(argument: &Arc<dyn PhysicalExpr>, builder: &mut Builder<'_>) -> Result<Option<Expr>, Reason> {
    use datafusion::physical_expr::expressions::Literal;
    match argument.downcast_ref::<Literal>() {
        Some(literal) if !literal.value().is_null() => Ok(None),
        _ => Ok(Some(builder.lower(argument)?.expr)),
    }
}

/// The argument of a sum whose state is of type `sum`.
fn summed(
    argument: &Arc<dyn PhysicalExpr>,
    sum: &DataType,
    refuse: &dyn Fn() -> Reason,
    builder: &mut Builder<'_>,
) -> Result<Expr, Reason> {
    let typed = builder.lower(argument)?;
    let fits = match (typed.ty, sum) {
        (Type::Decimal { scale, .. }, DataType::Decimal128(_, sum_scale)) => scale == *sum_scale,
        (Type::Float32 | Type::Float64, DataType::Float64) => true,
        (ty, DataType::Int64) => is_number(ty) && !matches!(ty, Type::Float32 | Type::Float64),
        _ => false,
    };
    if fits { Ok(typed.expr) } else { Err(refuse()) }
}

/// The argument of a minimum or maximum.
fn ordered(argument: &Arc<dyn PhysicalExpr>, name: &str, builder: &mut Builder<'_>) -> Result<Expr, Reason> {
    let typed = builder.lower(argument)?;
    match typed.ty {
        Type::Code => Err(format!("{name} orders strings, which the GPU only tests for equality")),
        _ => Ok(typed.expr),
    }
}
