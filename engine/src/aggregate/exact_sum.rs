//! [`ExactSum`]: `sum` and `avg` of durations, intervals and long decimals, which never wrap around.
//!
//! DataFusion adds durations in 64 bits, parts of intervals in 32 or 64, and decimals of 38 digits in 128. Beyond these
//! its sums wrap around, also within `avg`. Here all of them are added in 256 bits. A result that its type cannot hold
//! is an error.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, i256};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::{average, sum};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};

use super::exact_groups::ExactGroups;
use super::exact_lanes::{ExactLanes, MAX_LANES, Rows, lane_count, lanes_of};
use super::exact_task::{ExactFunction, STATE, Task};

/// The aggregate function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExactSum {
    pub(crate) function: ExactFunction,
    signature: Signature,
}

impl ExactSum {
    pub(crate) fn new(function: ExactFunction) -> Self {
        let signature = match function {
            ExactFunction::Sum => sum::sum_udaf().signature().clone(),
            ExactFunction::Average => average::avg_udaf().signature().clone(),
        };
        Self { function, signature }
    }

    fn datafusions(&self) -> Arc<AggregateUDF> {
        match self.function {
            ExactFunction::Sum => sum::sum_udaf(),
            ExactFunction::Average => average::avg_udaf(),
        }
    }

    fn task(&self, args: &AccumulatorArgs) -> Task {
        Task {
            function: self.function,
            input: args.expr_fields[0].data_type().clone(),
            output: args.return_type().clone(),
            name: args.name.to_owned(),
        }
    }
}

/// Whether a function is one of these.
pub(crate) fn is_exact(function: &AggregateUDF) -> bool {
    function.inner().is::<ExactSum>()
}

impl AggregateUDFImpl for ExactSum {
    fn name(&self) -> &str {
        match self.function {
            ExactFunction::Sum => "sum",
            ExactFunction::Average => "avg",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.datafusions().return_type(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let input = args.input_fields[0].data_type();
        if args.is_distinct {
            let name = format_state_name(args.name, "distinct values");
            let values = Field::new_list(name, Field::new_list_field(input.clone(), true), false);
            return Ok(vec![Arc::new(values)]);
        }
        let lanes = (0..lane_count(input).unwrap_or(1)).map(|lane| {
            let name = format_state_name(args.name, &format!("exact sum {lane}"));
            Arc::new(Field::new(name, STATE, true))
        });
        let count = Field::new(format_state_name(args.name, "count"), DataType::UInt64, true);
        Ok([Arc::new(count)].into_iter().chain(lanes).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let task = self.task(&args);
        Ok(match args.is_distinct {
            true => Box::new(DistinctValues {
                task,
                values: HashMap::new(),
            }),
            false => Box::new(ExactTotal {
                task,
                count: 0,
                lanes: [i256::ZERO; MAX_LANES],
            }),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(ExactGroups::new(self.task(&args))))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// One sum.
#[derive(Debug)]
struct ExactTotal {
    task: Task,
    count: u64,
    lanes: [i256; MAX_LANES],
}

impl ExactTotal {
    fn lanes(&mut self) -> &mut [i256] {
        let lanes = self.task.lane_count();
        &mut self.lanes[..lanes]
    }

    /// Adds the values, or takes them away.
    fn change(&mut self, array: &ArrayRef, is_added: bool) -> Result<()> {
        let rows = Rows::of(array, None);
        let groups = vec![0; array.len()];
        for (lane, numbers) in lanes_of(array)?.iter().enumerate() {
            let mut change = [i256::ZERO];
            if !numbers.add_to(&mut change, &groups, &rows) {
                return Err(self.task.beyond());
            }
            let change = if is_added { change[0] } else { change[0].wrapping_neg() };
            self.lanes[lane] = self.task.add(self.lanes[lane], change)?;
        }
        let values = rows.count() as u64;
        self.count = if is_added {
            self.count + values
        } else {
            self.count - values
        };
        Ok(())
    }
}

impl Accumulator for ExactTotal {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], true)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], false)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let lanes = self.task.lane_count();
        self.task.result(&self.lanes[..lanes], self.count)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let count = ScalarValue::UInt64(Some(self.count));
        let lanes = self
            .lanes()
            .iter()
            .map(|&sum| ScalarValue::Decimal256(Some(sum), 76, 0));
        Ok([count].into_iter().chain(lanes).collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[0].as_primitive::<arrow::datatypes::UInt64Type>();
        self.count += counts.iter().flatten().sum::<u64>();
        for (lane, sums) in states[1..].iter().enumerate() {
            let sums = sums.as_primitive::<arrow::datatypes::Decimal256Type>();
            for sum in sums.iter().flatten() {
                self.lanes[lane] = self.task.add(self.lanes[lane], sum)?;
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// A sum of different values, each with the number of its rows in a window.
#[derive(Debug)]
struct DistinctValues {
    task: Task,
    values: HashMap<[i256; MAX_LANES], u64>,
}

impl DistinctValues {
    /// The values of an array that are not NULL.
    fn values_of(array: &ArrayRef) -> Result<impl Iterator<Item = [i256; MAX_LANES]>> {
        let lanes = lanes_of(array)?;
        let rows = (0..array.len()).filter(|&row| array.is_valid(row));
        Ok(rows
            .map(move |row| std::array::from_fn(|lane| lanes.get(lane).map_or(i256::ZERO, |numbers| numbers.get(row)))))
    }
}

impl Accumulator for DistinctValues {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in Self::values_of(&values[0])? {
            *self.values.entry(value).or_default() += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in Self::values_of(&values[0])? {
            let Some(rows) = self.values.get_mut(&value) else {
                return exec_err!("{}: a window drops a value that it did not have", self.task.name);
            };
            *rows -= 1;
            if *rows == 0 {
                self.values.remove(&value);
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut lanes = [i256::ZERO; MAX_LANES];
        for value in self.values.keys() {
            for (sum, &number) in lanes.iter_mut().zip(value) {
                *sum = self.task.add(*sum, number)?;
            }
        }
        self.task
            .result(&lanes[..self.task.lane_count()], self.values.len() as u64)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut values = ExactLanes::new(self.task.lane_count());
        for value in self.values.keys() {
            for (lane, &number) in values.lanes.iter_mut().zip(value) {
                lane.push(number);
            }
        }
        let values = values.into_array(&self.task.input, None, &self.task.name)?;
        let item = Field::new_list_field(self.task.input.clone(), true);
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([values.len()]);
        let list = arrow::array::ListArray::try_new(Arc::new(item), offsets, values, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[values])?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<([i256; MAX_LANES], u64)>()
    }
}
