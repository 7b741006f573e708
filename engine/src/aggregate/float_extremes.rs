//! `min` and `max` of floats by groups, in the order of sorts.
//!
//! DataFusion's accumulators for groups take NaN for neither less nor greater, so their result depends on the order of
//! the rows. They begin with the least finite number, which stays for a group of negative infinities. The functions
//! here have the order of DataFusion's sorts and of its accumulators without groups: IEEE 754's total order. Numbers
//! are compared by integers of that order.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type, Int32Type, Int64Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion::scalar::ScalarValue;

/// The functions of this file.
static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 2]> = LazyLock::new(|| {
    [min_udaf(), max_udaf()].map(|inner| Arc::new(AggregateUDF::new_from_impl(FloatExtreme { inner })))
});

/// The function of this file in place of DataFusion's `min` or `max`; `None`: it is another function.
pub(crate) fn in_place_of(function: &AggregateUDF) -> Option<Arc<AggregateUDF>> {
    let found = FUNCTIONS.iter().find(|own| own.name() == function.name());
    let inner = [min_udaf(), max_udaf()];
    found
        .filter(|_| inner.iter().any(|inner| **inner == *function))
        .cloned()
}

/// True for a function of this file.
pub(crate) fn is_own(function: &AggregateUDF) -> bool {
    function.inner().is::<FloatExtreme>()
}

/// The function. Everything is the inner function's, except for floats by groups.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatExtreme {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for FloatExtreme {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, mut args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let float = args.return_field.data_type().clone();
        let Some(ordinal) = ordinal_type(&float) else {
            return self.inner.create_groups_accumulator(args);
        };
        args.return_field = Arc::new(Field::new(args.return_field.name(), ordinal, true));
        let ordinals = self.inner.create_groups_accumulator(args)?;
        Ok(Box::new(OrdinalGroups { float, ordinals }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.inner().order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_udf()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The integers by which floats are ordered.
fn ordinal_type(float: &DataType) -> Option<DataType> {
    match float {
        DataType::Float32 => Some(DataType::Int32),
        DataType::Float64 => Some(DataType::Int64),
        _ => None,
    }
}

/// Accumulators of floats over accumulators of their ordinals.
struct OrdinalGroups {
    float: DataType,
    ordinals: Box<dyn GroupsAccumulator>,
}

/// The place of a float in IEEE 754's total order, as `f64::total_cmp` computes it. It is its own inverse on bits.
fn ordinal(bits: i64) -> i64 {
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

fn ordinal_of_single(bits: i32) -> i32 {
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

fn ordinals(floats: &ArrayRef) -> Result<ArrayRef> {
    Ok(match floats.data_type() {
        DataType::Float32 => {
            let floats = floats.as_primitive::<Float32Type>();
            Arc::new(floats.unary::<_, Int32Type>(|value| ordinal_of_single(value.to_bits().cast_signed())))
        }
        DataType::Float64 => {
            let floats = floats.as_primitive::<Float64Type>();
            Arc::new(floats.unary::<_, Int64Type>(|value| ordinal(value.to_bits().cast_signed())))
        }
        other => return internal_err!("{other} has no ordinals"),
    })
}

impl OrdinalGroups {
    fn floats(&self, ordinals: &ArrayRef) -> ArrayRef {
        match self.float {
            DataType::Float32 => {
                let ordinals = ordinals.as_primitive::<Int32Type>();
                Arc::new(ordinals.unary::<_, Float32Type>(|n| f32::from_bits(ordinal_of_single(n).cast_unsigned())))
            }
            _ => {
                let ordinals = ordinals.as_primitive::<Int64Type>();
                Arc::new(ordinals.unary::<_, Float64Type>(|n| f64::from_bits(ordinal(n).cast_unsigned())))
            }
        }
    }
}

impl GroupsAccumulator for OrdinalGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let values = values.iter().map(ordinals).collect::<Result<Vec<_>>>()?;
        self.ordinals.update_batch(&values, groups, filter, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let found = self.ordinals.evaluate(emit_to)?;
        Ok(self.floats(&found))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let state = self.ordinals.state(emit_to)?;
        Ok(state.iter().map(|state| self.floats(state)).collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let states = states.iter().map(ordinals).collect::<Result<Vec<_>>>()?;
        self.ordinals.merge_batch(&states, groups, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values.iter().map(ordinals).collect::<Result<Vec<_>>>()?;
        let state = self.ordinals.convert_to_state(&values, filter)?;
        Ok(state.iter().map(|state| self.floats(state)).collect())
    }

    fn size(&self) -> usize {
        self.ordinals.size()
    }
}
