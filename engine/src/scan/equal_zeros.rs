//! Filters that take both zeros of floats as one value.
//!
//! Hash joins hold `0.0` and `-0.0` equal, and so do DataFusion's comparisons. IN lists do not: a list of keys with one
//! zero excludes rows with the other, which the join would match. Keys of the form `x + 0.0` have one zero alone.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr, lit,
};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use datafusion::physical_plan::PhysicalExpr;

/// A dynamic filter over floats, without IN lists that tell zeros apart.
#[derive(Debug)]
pub(super) struct EqualZeros {
    filter: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// The last form of the filter, and its generation.
    now: Mutex<Option<(u64, Arc<dyn PhysicalExpr>)>>,
}

impl EqualZeros {
    /// The form of a dynamic filter over columns of `schema`; `None`: none of them has floats.
    pub(super) fn of(filter: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Option<Self> {
        let has_float = schema.fields().iter().any(|field| has_float(field.data_type()));
        has_float.then(|| Self {
            filter: Arc::clone(filter),
            schema: Arc::clone(schema),
            now: Mutex::default(),
        })
    }

    /// The filter as it is now.
    pub(super) fn now(&self) -> Result<Arc<dyn PhysicalExpr>> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked before the snapshot, which may be newer.
        let generation = snapshot_generation(&self.filter);
        match &*now {
            Some((known, form)) if *known == generation => Ok(Arc::clone(form)),
            _ => {
                let form = without_float_lists(snapshot_physical_expr(Arc::clone(&self.filter))?, &self.schema)?;
                *now = Some((generation, Arc::clone(&form)));
                Ok(form)
            }
        }
    }
}

/// A filter that passes at least the rows of `filter`, with zeros held equal. `schema`: of the filter's columns.
///
/// # Errors
/// If a part of the filter has no type.
pub(super) fn without_float_lists(filter: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    // Below a negation, a wider list excludes more rows.
    let has_negation = filter.exists(|expr| Ok(expr.is::<NotExpr>()))?;
    let all = lit(true);
    let dropped = Arc::clone(&filter).transform_down(|expr| {
        let tells_zeros_apart = match expr.downcast_ref::<InListExpr>() {
            Some(list) => has_float(&list.expr().data_type(schema)?) && !has_one_zero(list.expr(), schema)?,
            None => false,
        };
        Ok(match tells_zeros_apart {
            true => Transformed::yes(Arc::clone(&all)),
            false => Transformed::no(expr),
        })
    })?;
    Ok(match dropped.transformed && has_negation {
        true => all,
        false => dropped.data,
    })
}

/// True if each float among the values of `expr` is no `-0.0`, for certain.
fn has_one_zero(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    if !has_float(&expr.data_type(schema)?) || without_zero_addend(expr).is_some() {
        return Ok(true);
    }
    // Several keys are fields of a struct.
    let fields = expr
        .downcast_ref::<ScalarFunctionExpr>()
        .filter(|call| call.name() == "struct");
    let Some(fields) = fields else {
        return Ok(false);
    };
    for field in fields.args() {
        if !has_one_zero(field, schema)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True for floats, also in nested values.
fn has_float(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => has_float(values),
        DataType::Struct(fields) => fields.iter().any(|field| has_float(field.data_type())),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            has_float(field.data_type())
        }
        data_type => data_type.is_floating(),
    }
}

/// `filter` with `x` for each `x + 0.0` that is compared. Comparisons hold zeros equal, so the rows are the same, and
/// statistics of `x` decide the filter.
pub(super) fn over_plain_operands(filter: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    let plain = Arc::clone(filter).transform_up(|expr| {
        let compares = expr.is::<InListExpr>()
            || expr.is::<IsNullExpr>()
            || expr.is::<IsNotNullExpr>()
            || expr
                .downcast_ref::<BinaryExpr>()
                .is_some_and(|binary| compares(*binary.op()));
        let operands = expr.children().into_iter();
        let plain: Vec<_> = operands.map(without_zero_addend).collect();
        if !compares || plain.iter().all(Option::is_none) {
            return Ok(Transformed::no(expr));
        }
        let operands = expr.children().into_iter().zip(plain);
        let operands = operands.map(|(operand, plain)| plain.unwrap_or_else(|| Arc::clone(operand)));
        let operands = operands.collect();
        Ok(Transformed::yes(expr.with_new_children(operands)?))
    });
    plain.data().unwrap_or_else(|_| Arc::clone(filter))
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// `x` of `x + 0.0`, for floats.
fn without_zero_addend(expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let sum = expr.downcast_ref::<BinaryExpr>()?;
    let zero = sum.right().downcast_ref::<Literal>()?.value();
    let is_zero = match zero {
        ScalarValue::Float16(Some(zero)) => zero.to_bits() == 0,
        ScalarValue::Float32(Some(zero)) => zero.to_bits() == 0,
        ScalarValue::Float64(Some(zero)) => zero.to_bits() == 0,
        _ => false,
    };
    (*sum.op() == Operator::Plus && is_zero).then(|| Arc::clone(sum.left()))
}
