//! `epoch`, `epoch_ms`, `epoch_us` and `epoch_ns`: the time since 1970. `epoch_ms` of a number is the timestamp back.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use super::time_fields::local_time;

/// The function of a unit.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Epoch {
    name: &'static str,
    unit: TimeUnit,
    signature: Signature,
}

/// The functions.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let units = [
        ("epoch", TimeUnit::Second),
        ("epoch_ms", TimeUnit::Millisecond),
        ("epoch_us", TimeUnit::Microsecond),
        ("epoch_ns", TimeUnit::Nanosecond),
    ];
    units.into_iter().map(|(name, unit)| {
        ScalarUDF::new_from_impl(Epoch {
            name,
            unit,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    })
}

impl ScalarUDFImpl for Epoch {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [whole] if whole.is_integer() && self.unit == TimeUnit::Millisecond => Ok(vec![DataType::Int64]),
            // In UTC, which the values of a zone are.
            [DataType::Timestamp(unit, _)] => Ok(vec![DataType::Timestamp(*unit, None)]),
            [time] => Ok(vec![local_time(time, self.name)?]),
            _ => plan_err!("{} takes one time, not {}", self.name, types.len()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match types {
            [DataType::Int64] => DataType::Timestamp(TimeUnit::Millisecond, None),
            _ if self.unit == TimeUnit::Second => DataType::Float64,
            _ => DataType::Int64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|arguments| self.count(arguments), Vec::new())(&args.args)
    }
}

impl Epoch {
    fn count(&self, arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let [times] = arguments else {
            return exec_err!("{} takes one time", self.name);
        };
        let DataType::Timestamp(unit, _) = times.data_type() else {
            return Ok(cast(times, &DataType::Timestamp(TimeUnit::Millisecond, None))?);
        };
        let counts = cast(times, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        let (has, wants) = (per_second(*unit), per_second(self.unit));
        if self.unit == TimeUnit::Second {
            let seconds = counts.unary::<_, Float64Type>(|count| count as f64 / has as f64);
            return Ok(Arc::new(seconds));
        }
        let scaled = |count: i64| match wants >= has {
            true => count.checked_mul(wants / has),
            false => Some(count.div_euclid(has / wants)),
        };
        let too_far = |count| arrow::error::ArrowError::ComputeError(format!("{count} is too far from 1970"));
        Ok(Arc::new(counts.try_unary::<_, Int64Type, _>(|count| {
            scaled(count).ok_or_else(|| too_far(count))
        })?))
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
